//! Where a machine was: files of its whole state, and ways back.

pub mod checkpoint;
pub mod history;
pub(crate) mod input;
pub(crate) mod moment;
pub(crate) mod past;
