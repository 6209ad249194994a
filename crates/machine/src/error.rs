//! Errors of users, as one sentence.

use std::path::Path;

/// A machine cannot be built or loaded. The text is one sentence that says what was wrong and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option, file or combination cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The host has no memory for the guest's RAM.
    #[error(transparent)]
    Ram(#[from] trapless_hart::RamError),
    /// The device tree cannot be written.
    #[error("cannot write the device tree: {0}")]
    Fdt(#[from] vm_fdt::Error),
}

impl Error {
    /// A file that cannot be read.
    #[must_use]
    pub fn read(path: &Path, error: &std::io::Error) -> Self {
        Self::Invalid(format!("cannot read {}: {error}", path.display()))
    }
}
