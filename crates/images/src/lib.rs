//! Kernels, firmware and guest images from Debian packages.
//!
//! ```text
//! mirror -> Apt (private lists, exact versions) -> Store (files by SHA-256) -> tree (unpacked) -> images
//!                                                                               Tools -> the VMM for riscv64
//! ```

pub mod apt;
pub mod cache;
mod command;
pub mod error;
pub mod mirror;
pub mod progress;
pub mod store;
pub mod tools;
pub mod tree;
pub mod vmm;

pub use apt::{Apt, Package};
pub use cache::Cache;
pub use error::{Error, Result};
pub use progress::Progress;
pub use tools::Tools;
