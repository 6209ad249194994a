//! Interface to KVM, and its numbers.

#[cfg(target_arch = "riscv64")]
pub mod device;
pub mod exit;
#[cfg(target_arch = "riscv64")]
pub mod handle;
pub mod isa;
#[cfg(target_arch = "riscv64")]
pub mod kicker;
pub mod numbers;
#[cfg(target_arch = "riscv64")]
pub mod registers;
pub mod sbi;
#[cfg(target_arch = "riscv64")]
pub mod setup;
#[cfg(target_arch = "riscv64")]
pub mod state;
#[cfg(target_arch = "riscv64")]
pub mod vm;
