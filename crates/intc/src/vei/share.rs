//! Share of a hart's time that handlers of user contexts may take from guests (`HCS-14`).

use serde::{Deserialize, Serialize};
use trapless_isa::haiov::hucshare;

use crate::words::field;

/// `hucshare`, and the time that handlers have taken.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Share {
    /// LIMIT in cycles; 0: none.
    limit: u64,
    shift: u64,
    /// Cycles taken and not yet decayed at `since`.
    taken: u64,
    /// Virtual time in cycles at which a handler began or, if none runs, the last one ended.
    since: u64,
}

impl Share {
    /// Writes `hucshare`, which resets the time taken.
    pub fn write(&mut self, value: u64, now: u64) {
        *self = Self {
            limit: value & hucshare::LIMIT,
            shift: field(value, hucshare::SHIFT, hucshare::SHIFT_SHIFT),
            taken: 0,
            since: now,
        };
    }

    /// Reads `hucshare` while no handler runs.
    pub fn read(&self, now: u64) -> u64 {
        let full = if self.is_full(now) { hucshare::FULL } else { 0 };
        full | self.shift << hucshare::SHIFT_SHIFT | self.limit
    }

    /// Whether no handler may begin.
    pub fn is_full(&self, now: u64) -> bool {
        self.limit != 0 && self.left_over(now) >= self.limit
    }

    /// A handler begins.
    pub fn begin(&mut self, now: u64) {
        self.taken = self.left_over(now);
        self.since = now;
    }

    /// It ends, or is taken from the hart.
    pub fn end(&mut self, now: u64) {
        self.taken = self.taken.saturating_add(now.saturating_sub(self.since));
        self.since = now;
    }

    /// Cycles taken that have not decayed yet, while no handler runs.
    fn left_over(&self, now: u64) -> u64 {
        let forgotten = now.saturating_sub(self.since) >> self.shift;
        self.taken.saturating_sub(forgotten)
    }

    /// Whether a restored one can have been written.
    pub fn is_sound(&self) -> bool {
        self.limit <= hucshare::LIMIT && self.shift <= hucshare::SHIFT >> hucshare::SHIFT_SHIFT
    }
}
