//! Resources of the host for a machine's devices: image files, networks, shared folders.
//!
//! | module | subject |
//! |---|---|
//! | [`disk`] | image files of disks: raw and qcow2, locked, written or not |
//! | [`net`] | a network behind the machine, by sockets of the host |
//! | [`share`] | a folder as a file system of the guest |
//!
//! Requests of a guest are not trusted: it can access only the files it was given.

pub mod disk;
pub mod net;
pub mod share;

/// Callback for failures that a guest cannot see, such as a full disk of the host: messages for the
/// user.
pub type Report = std::sync::Arc<dyn Fn(&str) + Send + Sync>;
