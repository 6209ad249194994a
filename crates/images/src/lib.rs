//! Kernels, firmware and guest images from Debian packages.
//!
//! ```text
//! mirror -> Apt (private lists, exact versions) -> Store (files by SHA-256) -> tree (unpacked)
//!   tree -> images
//!   tree -> Tools, run by way of entry -> the VMM, kernel modules
//! ```

pub mod apt;
pub mod cache;
mod command;
pub mod cpio;
mod dpkg;
mod elf;
mod entry;
pub mod error;
pub mod files;
pub mod images;
mod initramfs;
mod inputs;
mod kmod;
pub mod mirror;
pub mod modules;
mod prepared;
pub mod progress;
pub mod project;
pub mod recipe;
pub mod selftests;
pub mod store;
pub mod tools;
pub mod tree;
pub mod vmm;

pub use apt::{Apt, Package};
pub use cache::Cache;
pub use error::{Error, Result};
pub use images::Images;
pub use prepared::{PackageVersion, Prepared};
pub use progress::Progress;
pub use project::Project;
pub use recipe::Recipe;
pub use tools::Tools;
