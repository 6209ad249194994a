//! A guest while it runs: threads of vCPUs, event loop, commands, pause, save and restore.

pub mod affinity;
pub mod control;
pub mod events;
pub mod gate;
pub mod mover;
#[cfg(target_arch = "riscv64")]
pub mod operate;
pub mod outcome;
#[cfg(target_arch = "riscv64")]
pub mod saved;
pub mod signals;
pub mod snapshot;
pub mod stagger;
pub mod stats;
pub mod stop;
#[cfg(target_arch = "riscv64")]
pub mod vcpu;
