//! Scheduling of harts, and control of runs.

pub mod lockstep;
pub(crate) mod progress;
pub(crate) mod schedule;
pub(crate) mod virtual_time;
