//! Interrupt controllers of a guest, each with the side that KVM has beside the one the VMM has.

pub mod aia;
pub mod plic;
pub mod trapless;
