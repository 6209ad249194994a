//! The two kinds of failure, with different exit codes.

/// Why the VMM cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user can correct it: a missing file, a bad option, no /dev/kvm. Exit code 2.
    #[error("{0}")]
    User(String),
    /// KVM or the operating system refused something that should work. Exit code 3.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// An error that the user can correct; `text` says what was wrong and what to do.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(text.into())
    }

    /// A system call that should have succeeded: `what` failed with `cause`.
    pub fn failed(what: &str, cause: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {cause}"))
    }

    /// Exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::User(_) => 2,
            Self::Failed(_) => 3,
        }
    }
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
