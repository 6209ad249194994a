//! A queue of a hart in host memory: a ring of words that a controller fills and a CSR empties.

use serde::{Deserialize, Serialize};
use trapless_isa::haiov::hveiq;
use trapless_isa::xtrapless::hnqbase;

use crate::words::{Words, field};

/// Maximum number of entries as a power of two.
const MAX_SIZE: u64 = 12;
/// Bytes of an entry.
const ENTRY: u64 = 8;

/// Fields of the register that names a ring, the same for all of them.
const EN: u64 = hnqbase::EN;
const PPN: u64 = hnqbase::PPN;
const SIZE: u64 = hnqbase::SIZE;
const _: () = assert!(EN == hveiq::EN && PPN == hveiq::PPN && SIZE == hveiq::SIZE);

/// Bits of state: the register, two positions with one bit more than the largest ring has,
/// overflow.
pub(crate) const STATE_BITS: u32 = (EN | PPN | SIZE).count_ones() + 2 * (MAX_SIZE as u32 + 1) + 1;

/// A ring: its register, and the controller's state of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ring {
    /// The register: EN, PPN, SIZE.
    base: u64,
    /// Entries ever taken and put in, modulo 2^32.
    head: u32,
    tail: u32,
    overflow: bool,
}

/// Result of reading the next entry.
pub(crate) struct Taken {
    /// The entry, if there was one and memory could be read.
    pub word: Option<u64>,
    /// Entries have been lost since the last time.
    pub overflow: bool,
}

impl Ring {
    /// The register.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Writes the register. With EN it names a new, empty ring: sizes above the maximum become the
    /// maximum, and the address is aligned to the size. Without EN it closes the ring, which can
    /// still be emptied.
    pub fn set_base(&mut self, value: u64) {
        if value & EN == 0 {
            self.base &= !EN;
            return;
        }
        let size = field(value, SIZE, 0).min(MAX_SIZE);
        let align = !((ENTRY << size) - 1);
        *self = Self {
            base: EN | value & PPN & align | size,
            ..Self::default()
        };
    }

    pub fn enabled(&self) -> bool {
        self.base & EN != 0
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// The next entry, which is not removed.
    pub fn peek(&self, words: &Words) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        words.load(self.base & PPN, self.offset(self.head))
    }

    /// All entries, the next one first; those that cannot be read are left out.
    pub fn waiting<'a>(&'a self, words: &'a Words) -> impl Iterator<Item = u64> + 'a {
        let number = self.tail.wrapping_sub(self.head);
        let offsets = (0..number).map(|i| self.offset(self.head.wrapping_add(i)));
        offsets.filter_map(|offset| words.load(self.base & PPN, offset))
    }

    /// Whether there is an entry, or a lost one to report.
    pub fn raised(&self) -> bool {
        self.head != self.tail || self.overflow
    }

    /// Adds an entry; `false` if it was dropped, which the next [`pop`](Self::pop) reports.
    pub fn push(&mut self, words: &Words, word: u64) -> bool {
        let full = self.tail.wrapping_sub(self.head) >= self.entries();
        let stored = !full
            && words
                .store(self.base & PPN, self.offset(self.tail), word)
                .is_some();
        if stored {
            self.tail = self.tail.wrapping_add(1);
        } else {
            self.overflow = true;
        }
        stored
    }

    /// Removes the next entry.
    pub fn pop(&mut self, words: &Words) -> Taken {
        let mut word = None;
        if self.head != self.tail {
            word = words.load(self.base & PPN, self.offset(self.head));
            // Memory that can no longer be read: the entry is lost.
            self.overflow |= word.is_none();
            self.head = self.head.wrapping_add(1);
        }
        Taken {
            word,
            overflow: std::mem::take(&mut self.overflow),
        }
    }

    /// Whether a restored ring can have come from a controller.
    pub fn is_sound(&self) -> bool {
        let mut open = Self::default();
        open.set_base(self.base | EN);
        open.base & !EN == self.base & !EN && self.tail.wrapping_sub(self.head) <= self.entries()
    }

    fn offset(&self, position: u32) -> u64 {
        u64::from(position % self.entries()) * ENTRY
    }

    fn entries(&self) -> u32 {
        1 << field(self.base, SIZE, 0).min(MAX_SIZE)
    }
}
