//! What devices of a machine reach of the host: image files and shared folders.
//!
//! | module | subject |
//! |---|---|
//! | [`disk`] | image files of disks: raw and qcow2, locked, written or not |
//! | [`net`] | a network behind the machine, by sockets of the host |
//! | [`share`] | a folder as a file system of the guest |
//!
//! Whatever a guest asks for is untrusted: it reaches the files it was given, and no other.

pub mod disk;
pub mod net;
pub mod share;

/// Told what a guest cannot be told, such as a host's full disk: sentences for the user.
pub type Report = std::sync::Arc<dyn Fn(&str) + Send + Sync>;
