//! Parts of a guest: options, RAM, boot files, device tree, devices.

pub mod boot;
pub mod config;
pub mod fdt;
pub mod files;
pub mod image;
pub mod layout;
#[cfg(target_arch = "riscv64")]
pub mod machine;
mod parse;
pub mod peripherals;
pub mod ram;
