//! When the supervisor timer comparators fire.

use serde::{Deserialize, Serialize};

/// The slice that [`Timer::floor`](trapless_jit::Timer::floor) was computed for.
#[derive(Clone, Default)]
pub(crate) struct NotedSlice {
    /// Its end in cycles.
    pub end: u64,
    /// `time` in ticks when it was computed, and after the end of the slice.
    pub ticks: (u64, u64),
}

/// A supervisor timer comparator, by its place in arrays of them.
#[derive(Clone, Copy)]
pub(crate) enum Comparator {
    /// `stimecmp`.
    Host = 0,
    /// `vstimecmp`.
    Guest = 1,
}

/// Time of a comparator that has fired already.
pub(crate) const PAST: u64 = 0;
/// Time of a comparator that is off, or never fires.
pub(crate) const NEVER: u64 = u64::MAX;

/// Times at which the supervisor timer comparators fire.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Timers {
    /// Virtual time in cycles at which `stimecmp` and `vstimecmp` fire, or [`PAST`] or [`NEVER`]:
    /// one comparison tells whether one has fired.
    at: [u64; 2],
    /// The slice for writes that compiled code only notes; computed again after a checkpoint.
    #[serde(skip)]
    pub noted: NotedSlice,
}

impl Timers {
    /// Both are off.
    pub fn new() -> Self {
        Self {
            at: [NEVER; 2],
            noted: NotedSlice::default(),
        }
    }

    /// Virtual time in cycles at which a comparator fires, if that is not past; [`NEVER`] if it
    /// does not fire.
    pub fn next(&self, comparator: Comparator) -> Option<u64> {
        match self.at[comparator as usize] {
            PAST => None,
            at => Some(at),
        }
    }

    /// Whether a comparator has fired at `now`.
    #[inline]
    pub fn fired(&self, comparator: Comparator, now: u64) -> bool {
        now >= self.at[comparator as usize]
    }

    /// Next time after `now` at which one fires.
    pub fn deadline(&self, now: u64) -> u64 {
        let next = |at: u64| if at > now { at } else { NEVER };
        next(self.at[0]).min(next(self.at[1]))
    }

    /// Sets when both fire. Returns whether one has fired at `now` by its new or its old setting.
    pub fn set(&mut self, at: [u64; 2], now: u64) -> bool {
        let before = std::mem::replace(&mut self.at, at);
        before.into_iter().chain(at).any(|at| now >= at)
    }

    /// Sets when `vstimecmp` fires; it has fired neither before nor after that.
    pub fn set_guest(&mut self, at: u64) {
        self.at[Comparator::Guest as usize] = at;
    }
}
