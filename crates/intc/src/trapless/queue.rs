//! The notification queue of a hart: a ring in host memory.

use serde::{Deserialize, Serialize};
use trapless_isa::xtrapless::hnotify;

use crate::ring::{self, Ring};
use crate::words::{Words, field};

/// A notification in the format of `hnotify`.
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

/// Bits of state.
pub const STATE_BITS: u32 = ring::STATE_BITS;

/// `hnqbase` and the controller's state of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Queue(Ring);

impl Queue {
    /// `hnqbase`.
    pub fn base(&self) -> u64 {
        self.0.base()
    }

    /// Writes `hnqbase` (NTF-6, NTF-7).
    pub fn set_base(&mut self, value: u64) {
        self.0.set_base(value);
    }

    pub fn enabled(&self) -> bool {
        self.0.enabled()
    }

    /// Level of the notification interrupt.
    pub fn raised(&self) -> bool {
        self.0.raised()
    }

    /// All notifications, the next one first.
    pub fn waiting<'a>(&'a self, words: &'a Words) -> impl Iterator<Item = Notification> + 'a {
        self.0.waiting(words).map(Notification::decode)
    }

    /// Adds a notification; `false` if it was dropped, which the next [`pop`](Self::pop) reports
    /// (NTF-5).
    pub fn push(&mut self, words: &Words, notification: Notification) -> bool {
        self.0.push(words, notification.encode())
    }

    /// Removes the next notification: the value of `hnotify`, and the decoded notification.
    pub fn pop(&mut self, words: &Words) -> (u64, Option<Notification>) {
        let next = self.0.pop(words);
        let taken = next.word.map(Notification::decode);
        let value = taken.map_or(0, Notification::encode);
        let overflow = if next.overflow { hnotify::OVF } else { 0 };
        (value | overflow, taken)
    }

    /// Whether a restored queue can have come from this controller.
    pub fn is_sound(&self) -> bool {
        self.0.is_sound()
    }
}
