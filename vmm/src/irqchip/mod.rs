//! Interrupt controllers of a guest: what the VMM has of each, with KVM's side beside it.

pub mod aia;
pub mod controller;
#[cfg(target_arch = "riscv64")]
pub mod create;
pub mod injections;
pub mod options;
pub mod plic;
pub mod trapless;
pub mod wire;
