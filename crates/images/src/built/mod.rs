//! What is compiled of the project's own sources, and the tree of tools that does it.

pub(crate) mod entry;
pub(crate) mod inputs;
pub(crate) mod kmod;
pub(crate) mod selftests;
pub(crate) mod tools;
pub mod vmm;
