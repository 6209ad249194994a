//! How a command that did not succeed tells the shell.

use std::process::ExitCode;

use crate::interrupt::{self, Interrupted};
use crate::output::Closed;

/// Exit status after a wrong option or file.
pub const USAGE: u8 = 2;
/// Exit status after a workload that failed.
const FAILED: u8 = 1;
/// What shells say of a program that SIGPIPE has ended.
const CLOSED: u8 = 128 + 13;

/// A workload that did not do what it should.
#[derive(Debug)]
pub struct Failed(pub String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Tells the user what went wrong, and returns the exit status for it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<Closed>() {
        return ExitCode::from(CLOSED);
    }
    note!("trapless: {error:#}");
    ExitCode::from(if error.is::<Interrupted>() {
        interrupt::STATUS
    } else if error.is::<Failed>() {
        FAILED
    } else {
        USAGE
    })
}
