//! What a hart keeps for those who watch it. Nothing a guest can see depends on it.

use super::activity::Meter;
use super::statistics::HartStatistics;

/// See the module text.
#[derive(Default)]
pub(crate) struct Watch {
    /// What the host's processor does at the moment.
    pub meter: Meter,
    /// What the engine did.
    pub counts: HartStatistics,
    /// See [`Hart::hfences`](crate::Hart::hfences).
    pub hfences: u64,
    /// Price of the block under way behind the current instruction; kept for observers only.
    pub ahead: u64,
}
