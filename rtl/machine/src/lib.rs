//! The circuit of `rtl/`, simulated by Verilator, as the controller of a machine.

mod controller;
mod memory;
mod port;

pub use controller::Controller;
pub use port::{Counts, Timing};
