//! Interrupt inputs of a hart, as last read from the platform.

use serde::{Deserialize, Serialize};
use trapless_isa::port::Lines;

use crate::platform::Platform;

/// The interrupt lines as last read, and whether they must be read again.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Inputs {
    lines: Lines,
    stale: bool,
    sums_timer_sets: bool,
}

impl Inputs {
    /// Not read yet.
    pub fn new() -> Self {
        Self {
            stale: true,
            ..Self::default()
        }
    }

    /// Begins a run: queries whether the platform counts timer sets, and whether inputs have
    /// changed.
    pub fn begin(&mut self, hart: usize, plat: &dyn Platform) {
        self.sums_timer_sets = plat.sums_timer_sets();
        self.stale |= plat.lines_changed(hart);
    }

    /// The inputs.
    #[inline]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Marks them as outdated: the platform may have changed them.
    pub fn outdate(&mut self) {
        self.stale = true;
    }

    /// Whether they must be read again at `now`.
    #[inline]
    pub fn are_outdated(&self, now: u64) -> bool {
        self.stale || now >= self.lines.deadline
    }

    /// Reads the inputs again if they may have changed, and returns whether it did. The caller then
    /// handles `pulse` and `arrived`, which are reported once.
    pub fn update(&mut self, hart: usize, now: u64, plat: &mut dyn Platform) -> bool {
        if !self.are_outdated(now) {
            return false;
        }
        self.stale = false;
        self.lines = plat.lines(hart, now);
        true
    }

    /// [`Platform::sums_timer_sets`].
    #[inline]
    pub fn sums_timer_sets(&self) -> bool {
        self.sums_timer_sets
    }
}
