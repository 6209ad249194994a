//! Running other programs with errors a user can act on.

use crate::error::{Error, Result};
use std::process::{Command, Output, Stdio};

/// Runs `command`, captures its output and fails unless it exits with 0.
pub(crate) fn run(command: &mut Command, what: &str, package: &'static str) -> Result<Output> {
    let output = spawn_output(command, package)?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::Command {
        what: what.to_owned(),
        status: output.status.to_string(),
        output: tail(&output, 8),
    })
}

/// Runs `command` and captures its output, whatever its exit status.
pub(crate) fn spawn_output(command: &mut Command, package: &'static str) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| missing(command, package, e))
}

/// Explains why `command` could not be started.
pub(crate) fn missing(command: &Command, package: &'static str, source: std::io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    if source.kind() == std::io::ErrorKind::NotFound {
        Error::MissingProgram { program, package }
    } else {
        Error::Io {
            action: "start",
            path: program.into(),
            source,
        }
    }
}

/// The last `lines` lines of a program's errors and output on one line.
pub(crate) fn tail(output: &Output, lines: usize) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = if errors.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        errors
    };
    let kept: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    kept[kept.len().saturating_sub(lines)..].join(" | ")
}
