//! How a command that did not succeed tells the shell.

use std::process::ExitCode;

use crate::interrupt::{self, Interrupted};

/// Exit status after a wrong option or file.
const USAGE: u8 = 2;
/// Exit status after a workload that failed.
const FAILED: u8 = 1;

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
    eprintln!("trapless: {error:#}");
    ExitCode::from(if error.is::<Interrupted>() {
        interrupt::STATUS
    } else if error.is::<Failed>() {
        FAILED
    } else {
        USAGE
    })
}
