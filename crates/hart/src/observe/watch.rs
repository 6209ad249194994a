//! State for observers, profiles and statistics. Nothing that a guest can see depends on it.

use super::activity::Meter;
use super::statistics::HartStatistics;

/// Activity, counters, and what observers need of the current block.
#[derive(Default)]
pub(crate) struct Watch {
    /// Current activity.
    pub meter: Meter,
    /// Statistics of the engine.
    pub counts: HartStatistics,
    /// See [`Hart::hfences`](crate::Hart::hfences).
    pub hfences: u64,
    /// Thread of the host's kernel that was last told of; 0 before the first.
    pub thread: u64,
    /// Price of the rest of the current block, behind the current instruction; kept for observers
    /// only.
    pub ahead: u64,
}
