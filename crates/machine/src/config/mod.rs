//! Configurations of machines.

pub mod cost;
pub(crate) mod isa_string;
pub mod machines;
pub(crate) mod own;
pub mod preset;
