//! The clock of every machine: one cycle is a nanosecond of virtual time.

/// Virtual time in cycles and in seconds.
#[derive(Clone, Copy, Debug)]
pub struct VirtualTime;

impl VirtualTime {
    /// Cycles in a second. Devices and logs count in nanoseconds, so that no cost model changes it.
    pub const HZ: u64 = 1_000_000_000;

    /// Cycles in so many seconds; `u64::MAX`, which is never, if they are too many.
    #[must_use]
    pub const fn cycles(seconds: u64) -> u64 {
        seconds.saturating_mul(Self::HZ)
    }

    /// Seconds in so many cycles.
    #[must_use]
    pub fn seconds(cycles: u64) -> f64 {
        cycles as f64 / Self::HZ as f64
    }
}
