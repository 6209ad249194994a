//! What the machine tells, as it goes in, into a file, and back out of one.

pub mod event;
pub mod fields;
pub(crate) mod hex;
pub mod replay;
pub(crate) mod sink;
pub mod stream;
