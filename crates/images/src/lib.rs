//! Kernels, firmware and guest images from Debian packages.
//!
//! ```text
//! mirror -> Apt (private lists, exact versions) -> Store (files by SHA-256) -> tree (unpacked)
//!   tree -> images
//!   tree -> Tools, run by way of entry -> the VMM, kernel modules -> export
//! shipped: what export made, instead of Tools, in an installed program
//! ```

mod apt;
mod cache;
mod command;
pub mod cpio;
mod digest;
mod dpkg;
mod elf;
mod entry;
mod error;
mod export;
mod files;
mod images;
mod initramfs;
mod inputs;
mod kept;
mod kmod;
mod mirror;
mod modules;
mod overlay;
mod own_kernel;
mod package;
mod prepared;
mod progress;
mod project;
mod recipe;
mod selftests;
mod shipped;
mod store;
mod tools;
pub mod transfer;
pub mod tree;
pub mod vmm;

pub use apt::Apt;
pub use cache::Cache;
pub use digest::sha256_parts;
pub use error::{Error, Result};
pub use images::Images;
pub use kept::Kept;
pub use mirror::{Mirror, SUITE};
pub use overlay::{Overlay, overlay};
pub use own_kernel::OwnKernel;
pub use package::Package;
pub use prepared::{PackageVersion, Prepared};
pub use progress::Progress;
pub use project::Project;
pub use recipe::Recipe;
pub use shipped::Locked;
pub use tools::Tools;
