//! Counts, attributes and times every trap of a run.
//!
//! The machine feeds [`event::Event`]s; nothing here can change what is executed.

pub mod event;
