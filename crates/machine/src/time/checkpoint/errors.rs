//! Errors of checkpoints that cannot be read or written.

use std::fmt::Display;
use std::io;

use crate::error::Error;

/// A checkpoint that cannot be used.
pub(super) fn damaged(what: &str) -> Error {
    Error::Invalid(format!("the checkpoint is damaged: {what}; make it again"))
}

/// The file cannot be read.
pub(super) fn unreadable(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
        _ => Error::Invalid(format!("cannot read the checkpoint: {error}")),
    }
}

/// The file cannot be written.
pub(super) fn cannot_write(error: impl Display) -> Error {
    Error::Invalid(format!("cannot write the checkpoint: {error}"))
}
