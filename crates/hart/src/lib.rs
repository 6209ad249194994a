//! One RISC-V hart with the hypervisor extension.

pub mod platform;
