//! User-level exception redirection (Xuer): accesses to devices are handled in user mode, without
//! an exit.
//!
//! ```text
//! guest: load or store to a device's page
//!   -> stub (saves the guest's registers in the vCPU's frame, own stack)
//!      -> handler: which device, which access -> Device::load, store
//!           Done    the guest goes on                                   URET
//!           Left    KVM takes the access: KVM_RUN returns as ever       ECALL
//!           Settle  done, but something is left to do with system calls ECALL, ucause = 0
//! ```
//!
//! The handler runs in the thread of the vCPU while that is in `KVM_RUN`, and has no system calls:
//! its code must not take a lock that another thread may hold for long, allocate, or panic.

pub mod access;
pub mod device;
pub mod line;
#[cfg(target_arch = "riscv64")]
pub mod setup;
#[cfg(target_arch = "riscv64")]
pub(crate) mod stub;
