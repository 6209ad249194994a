//! Kinds of errors, and their messages.

use std::io::{self, ErrorKind};

use crate::interrupt::Interrupted;

/// A workload that failed.
#[derive(Debug)]
pub struct Failed(pub String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// What kind of failure an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The user has ended the run.
    Interrupted,
    /// A workload failed, or a kernel panicked.
    Workload,
    /// An option or a file cannot be used.
    Usage,
    /// The computer failed: a full disk, a broken file, or an unexpected error.
    System,
}

/// Errors of the system that come from wrong file names of the user.
const USERS: [ErrorKind; 10] = [
    ErrorKind::AddrInUse,
    ErrorKind::AddrNotAvailable,
    ErrorKind::AlreadyExists,
    ErrorKind::InvalidData,
    ErrorKind::InvalidFilename,
    ErrorKind::InvalidInput,
    ErrorKind::IsADirectory,
    ErrorKind::NotADirectory,
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
];

impl Failure {
    /// The kind of `error`.
    pub fn of(error: &anyhow::Error) -> Self {
        if error.is::<Interrupted>() {
            Self::Interrupted
        } else if error.is::<Failed>() {
            Self::Workload
        } else if is_own(error) && !has_system_error(error) {
            Self::Usage
        } else {
            Self::System
        }
    }
}

/// Whether the error was created by this project, with a message that says what to change.
fn is_own(error: &anyhow::Error) -> bool {
    error.is::<String>()
        || error.is::<&'static str>()
        || error.is::<trapless_machine::Error>()
        || error.is::<trapless_gdb::Error>()
        || error.is::<trapless_images::Error>()
        || error.is::<trapless_experiments::Error>()
}

/// Whether there is an error of the system that the user cannot correct.
fn has_system_error(error: &anyhow::Error) -> bool {
    let found = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    found.is_some_and(|error| !USERS.contains(&error.kind()))
}

/// The error and its causes. A cause that an error's own text contains is not repeated.
pub fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            shown if shown.contains(&cause) => text,
            _ => format!("{text}: {cause}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// Promise: an exit status tells a user's mistake from a failure of the computer.
    #[test]
    fn kinds_of_failures_are_distinguished() {
        let of = |error: anyhow::Error| Failure::of(&error);
        let io = |kind: ErrorKind| anyhow::Error::new(io::Error::from(kind));
        assert_eq!(of(anyhow!("--ram is too small")), Failure::Usage);
        assert_eq!(
            of(io(ErrorKind::NotFound).context("cannot read x")),
            Failure::Usage
        );
        assert_eq!(
            of(io(ErrorKind::StorageFull).context("cannot write x")),
            Failure::System
        );
        assert_eq!(of(io::Error::other("EIO").into()), Failure::System);
        assert_eq!(of(std::fmt::Error.into()), Failure::System);
        assert_eq!(of(Failed("it failed".into()).into()), Failure::Workload);
    }

    /// Promise: a message says each cause once, whether the error above names it or not.
    #[test]
    fn each_cause_is_said_once() {
        let silent = anyhow!("no such file").context("cannot read x");
        assert_eq!(sentence(&silent), "cannot read x: no such file");
        let talking = anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(
            sentence(&talking.context("no machine")),
            "no machine: cannot read x: no such file"
        );
    }
}
