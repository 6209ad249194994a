//! Packages of the archive, and which of them are wanted.

use serde::{Deserialize, Serialize};

/// One binary package of the archive, as the signed package index describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Full Debian version, e.g. `1:10.0.13+ds-0+deb13u1`.
    pub version: String,
    /// Debian architecture, e.g. `riscv64` or `all`.
    pub arch: String,
    /// Where the file is; without the mirror's address if the answer came with the program. Not
    /// part of a ledger.
    pub uri: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: String,
}

/// Which packages are wanted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Request {
    /// Debian architecture that unqualified names mean.
    pub arch: String,
    /// Packages with everything they depend on.
    pub closure: Vec<String>,
    /// Packages alone.
    pub alone: Vec<String>,
}
