//! Observation of a hart: profiles, statistics, comparisons, memory accesses, triggers.

pub(crate) mod activity;
mod memory_access;
mod snapshot;
pub(crate) mod statistics;
mod thread;
mod triggers;
pub(crate) mod watch;

pub use activity::{Activity, Meter};
pub use memory_access::MemoryAccess;
pub use snapshot::Snapshot;
pub use statistics::HartStatistics;
pub use triggers::{DataTrigger, Triggers};
