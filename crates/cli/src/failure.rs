//! Exit statuses and messages of commands that fail.

use std::process::ExitCode;

use trapless_run::{Failure, interrupt, note, sentence};

use crate::output::Closed;

/// Exit status after a wrong option or file.
pub const USAGE: u8 = 2;
/// Exit status after a failure of the computer.
const SYSTEM: u8 = 3;
/// Exit status after a workload that failed.
const FAILED: u8 = 1;
/// Exit status in shells of a program that SIGPIPE has ended.
const CLOSED: u8 = 128 + 13;

/// Prints the error, and returns the exit status for it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<Closed>() {
        return ExitCode::from(CLOSED);
    }
    note!("trapless: {}", sentence(error));
    ExitCode::from(match Failure::of(error) {
        Failure::Interrupted => interrupt::status(),
        Failure::Workload => FAILED,
        Failure::Usage => USAGE,
        Failure::System => SYSTEM,
    })
}
