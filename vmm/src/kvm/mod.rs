//! What the VMM asks of KVM besides running vCPUs, and the numbers of its interface.

#[cfg(target_arch = "riscv64")]
pub mod device;
pub mod exit;
pub mod isa;
