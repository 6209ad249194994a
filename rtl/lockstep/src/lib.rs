//! The circuit of Xtrapless as Verilator simulates it, for what drives it.

pub mod access;
pub mod circuit;
