//! What a guest consists of: its options, RAM, what is loaded into it, its device tree, its devices.

pub mod boot;
pub mod config;
pub mod fdt;
pub mod files;
pub mod image;
pub mod layout;
#[cfg(target_arch = "riscv64")]
pub mod machine;
pub mod peripherals;
pub mod ram;
