//! Kernels, firmware and guest images from Debian packages.
//!
//! ```text
//! debian: mirror -> Apt (private lists, exact versions) -> Store (files by SHA-256) -> tree
//!   tree -> images, of which most are archives (initramfs)
//!   tree -> Tools -> the VMM, kernel modules (built) -> export
//! cache: where all of it is kept; what export made, instead of Tools, in an installed program
//! ```

mod built;
mod cache;
mod command;
mod debian;
mod digest;
mod error;
mod export;
mod images;
mod initramfs;
mod own_kernel;
mod progress;
mod project;
mod recipe;

pub use built::tools::Tools;
pub use built::vmm;
pub use cache::Cache;
pub use cache::kept::Kept;
pub use cache::prepared::{PackageVersion, Prepared};
pub use cache::shipped::Locked;
pub use debian::apt::Apt;
pub use debian::mirror::{Mirror, SUITE};
pub use debian::package::Package;
pub use debian::release::Release;
pub use debian::{transfer, tree};
pub use digest::sha256_parts;
pub use error::{Error, Result};
pub use images::Images;
pub use initramfs::cpio;
pub use initramfs::overlay::{Overlay, overlay};
pub use own_kernel::OwnKernel;
pub use progress::Progress;
pub use project::Project;
pub use recipe::Recipe;
