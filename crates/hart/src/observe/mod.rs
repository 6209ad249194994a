//! Observation of a hart: profiles, statistics, comparisons, memory accesses.

pub(crate) mod activity;
mod memory_access;
mod snapshot;
pub(crate) mod statistics;
mod thread;
pub(crate) mod watch;

pub use activity::{Activity, Meter};
pub use memory_access::MemoryAccess;
pub use snapshot::Snapshot;
pub use statistics::HartStatistics;
