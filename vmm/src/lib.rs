//! A small virtual machine monitor for riscv64 Linux KVM.
//!
//! ```text
//! main thread: event loop          vCPU threads: KVM_RUN -> exit -> bus
//!   stdin, signals, tap, alarms           |
//!            \                            v
//!             +----> device models (trapless-devices), each behind a lock
//!                            |
//!                            v
//!                    user-space PLIC (trapless-intc) -- KVM_INTERRUPT --> vCPUs
//!                    or AIA in KVM -- KVM_IRQ_LINE, irqfd --> vCPUs
//!                    or Xtrapless -- ugenvsei, irqfd --> vCPUs
//! ```
//!
//! Only `vm`, `vcpu`, `kvm_device`, `aia_kvm` and `trapless_kvm` speak to KVM and exist on riscv64 alone; everything else builds and
//! is tested on any host.

pub mod aia;
#[cfg(target_arch = "riscv64")]
pub mod aia_kvm;
pub mod aplic;
pub mod boot;
pub mod cli;
pub mod console;
pub mod control;
pub mod devices;
pub mod error;
pub mod events;
pub mod exit;
pub mod fdt;
pub mod gate;
pub mod irq;
pub mod isa;
#[cfg(target_arch = "riscv64")]
pub mod kvm_device;
#[cfg(target_arch = "riscv64")]
pub mod machine;
pub mod map;
pub mod mover;
#[cfg(target_arch = "riscv64")]
pub mod operate;
pub mod ram;
pub mod sbi;
pub mod snapshot;
pub mod testdev;
pub mod trapless;
#[cfg(target_arch = "riscv64")]
pub mod trapless_kvm;
#[cfg(target_arch = "riscv64")]
pub mod vcpu;
pub mod virtio;
#[cfg(target_arch = "riscv64")]
pub mod vm;
