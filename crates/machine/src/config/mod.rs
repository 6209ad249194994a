//! What a machine is, before it is built.

pub mod cost;
pub(crate) mod isa_string;
pub mod machines;
pub(crate) mod own;
pub mod preset;
