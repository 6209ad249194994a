//! The notification queue of a hart: a ring in host memory.

use serde::{Deserialize, Serialize};
use trapless_isa::xtrapless::{hnotify, hnqbase};

use super::layout::field;
use super::words::Words;

/// Most entries as a power of two.
const MAX_SIZE: u64 = 12;
/// Bytes of an entry.
const ENTRY: u64 = 8;

/// A notification, as `hnotify` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Notification {
    /// One of [`kind`](trapless_isa::xtrapless::kind).
    pub kind: u64,
    pub domain: u16,
    /// Vhart, or source of a resample.
    pub id: u16,
}

impl Notification {
    fn encode(self) -> u64 {
        hnotify::V
            | self.kind << hnotify::KIND_SHIFT & hnotify::KIND
            | u64::from(self.domain) << hnotify::DOM_SHIFT
            | u64::from(self.id) << hnotify::ID_SHIFT
    }

    fn decode(word: u64) -> Self {
        Self {
            kind: field(word, hnotify::KIND, hnotify::KIND_SHIFT),
            domain: field(word, hnotify::DOM, hnotify::DOM_SHIFT) as u16,
            id: field(word, hnotify::ID, hnotify::ID_SHIFT) as u16,
        }
    }
}

/// Bits of state: `hnqbase`, two positions with one bit more than the largest ring has, overflow.
pub const STATE_BITS: u32 =
    (hnqbase::EN | hnqbase::PPN | hnqbase::SIZE).count_ones() + 2 * (MAX_SIZE as u32 + 1) + 1;

/// `hnqbase` and what the controller knows of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Queue {
    /// `hnqbase`.
    base: u64,
    /// Entries ever taken and put in, modulo 2^32.
    head: u32,
    tail: u32,
    overflow: bool,
}

impl Queue {
    /// `hnqbase`.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Writes `hnqbase` (NTF-6, NTF-7). With EN it names a new, empty ring: sizes above the largest
    /// become that, and the address is aligned to the size. Without EN it closes the ring, which
    /// can still be emptied.
    pub fn set_base(&mut self, value: u64) {
        if value & hnqbase::EN == 0 {
            self.base &= !hnqbase::EN;
            return;
        }
        let size = field(value, hnqbase::SIZE, hnqbase::SIZE_SHIFT).min(MAX_SIZE);
        let align = !((ENTRY << size) - 1);
        *self = Self {
            base: hnqbase::EN | value & hnqbase::PPN & align | size << hnqbase::SIZE_SHIFT,
            ..Self::default()
        };
    }

    pub fn enabled(&self) -> bool {
        self.base & hnqbase::EN != 0
    }

    /// Level of the notification interrupt.
    pub fn raised(&self) -> bool {
        self.head != self.tail || self.overflow
    }

    /// Puts a notification in; `false` if it was dropped, which the next [`pop`](Self::pop) reports
    /// (NTF-5).
    pub fn push(&mut self, words: &Words, notification: Notification) -> bool {
        let full = self.tail.wrapping_sub(self.head) >= self.entries();
        let stored = !full && self.store(words, notification.encode()).is_some();
        if stored {
            self.tail = self.tail.wrapping_add(1);
        } else {
            self.overflow = true;
        }
        stored
    }

    /// Takes the next notification out: the value of `hnotify` and what it stands for.
    pub fn pop(&mut self, words: &Words) -> (u64, Option<Notification>) {
        let mut taken = None;
        if self.head != self.tail {
            match words.load(self.base & hnqbase::PPN, self.offset(self.head)) {
                Some(word) => taken = Some(Notification::decode(word)),
                // The memory can no longer be read: the notification is lost.
                None => self.overflow = true,
            }
            self.head = self.head.wrapping_add(1);
        }
        let overflow = std::mem::take(&mut self.overflow);
        let value = taken.map_or(0, Notification::encode);
        (
            if overflow {
                value | hnotify::OVF
            } else {
                value
            },
            taken,
        )
    }

    /// Whether a restored queue can have come from this controller.
    pub fn is_sound(&self) -> bool {
        let mut open = Self::default();
        open.set_base(self.base | hnqbase::EN);
        open.base & !hnqbase::EN == self.base & !hnqbase::EN
            && self.tail.wrapping_sub(self.head) <= self.entries()
    }

    fn store(&self, words: &Words, value: u64) -> Option<()> {
        words.store(self.base & hnqbase::PPN, self.offset(self.tail), value)
    }

    fn offset(&self, position: u32) -> u64 {
        u64::from(position % self.entries()) * ENTRY
    }

    fn entries(&self) -> u32 {
        1 << field(self.base, hnqbase::SIZE, hnqbase::SIZE_SHIFT).min(MAX_SIZE)
    }
}
