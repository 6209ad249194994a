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
//! Modules that use KVM exist only on riscv64; everything else builds and is tested on any host.

pub mod backend;
pub mod bus;
pub mod cli;
pub mod devices;
pub mod error;
pub mod guest;
pub mod irqchip;
pub mod kvm;
pub mod map;
pub mod run;
#[cfg(target_arch = "riscv64")]
pub mod session;
pub mod terminal;
pub mod uer;
