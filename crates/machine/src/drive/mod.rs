//! Whose turn it is, and for how long.

pub mod lockstep;
pub(crate) mod progress;
pub(crate) mod schedule;
pub(crate) mod virtual_time;
