//! Debian packages: which there are, their files in the cache, and what is in them.

pub(crate) mod apt;
pub(crate) mod dpkg;
pub(crate) mod mirror;
pub(crate) mod package;
pub mod release;
pub(crate) mod store;
pub mod transfer;
pub mod tree;
