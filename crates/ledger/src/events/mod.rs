//! Events of the machine: types, sinks, and streams in files.

pub mod event;
pub mod fields;
pub(crate) mod hex;
pub mod replay;
pub(crate) mod sink;
pub mod stream;
