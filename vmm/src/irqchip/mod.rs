//! Interrupt controllers of a guest: the VMM's part of each, with the interface to KVM.

pub mod aia;
pub mod controller;
#[cfg(target_arch = "riscv64")]
pub mod create;
pub mod injections;
pub mod messages;
pub mod options;
pub mod plic;
pub mod trapless;
pub mod wire;
