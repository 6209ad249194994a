//! Saving and restoring the state of a machine, in files and in memory.

pub mod checkpoint;
pub mod history;
pub(crate) mod input;
pub(crate) mod moment;
pub(crate) mod past;
