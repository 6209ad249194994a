//! A guest while it runs: vCPU threads, event loop, commands, pause, save and restore.

pub mod control;
pub mod events;
pub mod gate;
pub mod mover;
#[cfg(target_arch = "riscv64")]
pub mod operate;
pub mod snapshot;
#[cfg(target_arch = "riscv64")]
pub mod vcpu;
