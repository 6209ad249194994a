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

/// Times at which the supervisor timer comparators fire.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Timers {
    /// Virtual time in cycles at which `stimecmp` and `vstimecmp` fire; 0 if that is past, and
    /// `u64::MAX` if they are off or never do.
    at: [u64; 2],
    /// For writes that compiled code only notes; computed again after a checkpoint.
    #[serde(skip)]
    pub noted: NotedSlice,
}

impl Timers {
    /// Both are off.
    pub fn new() -> Self {
        Self {
            at: [u64::MAX; 2],
            noted: NotedSlice::default(),
        }
    }

    /// When `stimecmp` (0) or `vstimecmp` (1) fires.
    pub fn at(&self, comparator: usize) -> u64 {
        self.at[comparator]
    }

    /// Whether a comparator has fired at `now`.
    #[inline]
    pub fn fired(&self, comparator: usize, now: u64) -> bool {
        now >= self.at[comparator]
    }

    /// Next time after `now` at which one fires.
    pub fn deadline(&self, now: u64) -> u64 {
        let next = |at: u64| if at > now { at } else { u64::MAX };
        next(self.at[0]).min(next(self.at[1]))
    }

    /// Sets when both fire. Returns whether one has fired at `now` by its new or its old setting.
    pub fn set(&mut self, at: [u64; 2], now: u64) -> bool {
        let before = std::mem::replace(&mut self.at, at);
        before.into_iter().chain(at).any(|at| now >= at)
    }

    /// Sets when `vstimecmp` fires; it has fired neither before nor after that.
    pub fn set_guest(&mut self, at: u64) {
        self.at[1] = at;
    }
}
