//! State for observers, profiles and statistics, without an effect on guests.

use super::activity::Meter;
use super::statistics::HartStatistics;

/// Activity, counters, and state of the current block for observers.
#[derive(Default)]
pub(crate) struct Watch {
    /// Current activity.
    pub meter: Meter,
    /// Statistics of the engine.
    pub counts: HartStatistics,
    /// See [`Hart::hfences`](crate::Hart::hfences).
    pub hfences: u64,
    /// Last recorded thread of the host's kernel; 0 before the first.
    pub thread: u64,
    /// Price of the rest of the current block, behind the current instruction; kept for observers
    /// only.
    pub ahead: u64,
    /// Cycles since it was noted where the hart is, for regions.
    pub unseen: u64,
}
