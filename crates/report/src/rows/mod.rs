//! Content of reports: rows with a figure for each column.

pub(crate) mod classes;
pub(crate) mod events;
pub(crate) mod exits;
pub(crate) mod figures;
pub(crate) mod latency;
pub mod moves;
pub(crate) mod overview;
pub mod phases;
pub(crate) mod redirected;
pub(crate) mod threads;
