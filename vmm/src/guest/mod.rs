//! What a guest consists of: RAM, what is loaded into it, its device tree, its devices.

pub mod boot;
pub mod fdt;
#[cfg(target_arch = "riscv64")]
pub mod machine;
pub mod ram;
