//! Errors, with messages that say what was wrong and what to do.

use std::path::{Path, PathBuf};

/// Why an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation of this machine failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Verb phrase, e.g. "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// An experiment is not valid, or was given a value it does not take.
    #[error("{}: {message}", path.display())]
    Data {
        /// The file, or the experiment's name.
        path: PathBuf,
        /// The error and its position.
        message: String,
    },
    /// A name the user gave is not known.
    #[error("there is no {kind} named `{name}`; known: {known}")]
    Unknown {
        /// "workload" or "parameter".
        kind: &'static str,
        /// The given name.
        name: String,
        /// Comma-separated list of valid names.
        known: String,
    },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns an I/O error into [`Error::Io`].
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}
