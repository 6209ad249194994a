//! Running other programs with errors a user can act on.

use crate::error::{Error, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

/// Lets the program end with this process, however this one ends.
pub(crate) fn bind(command: &mut Command) -> &mut Command {
    let bound = || Ok(set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: between fork and exec there is one system call, and nothing is allocated.
    unsafe { command.pre_exec(bound) }
}

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
    bind(command)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| missing(command, package, e))
}

/// As [`spawn_output`]; `line` is called with each line of standard output as it comes.
pub(crate) fn spawn_watched(
    command: &mut Command,
    package: &'static str,
    line: &mut dyn FnMut(&str),
) -> Result<Output> {
    let mut child = bind(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()
        .map_err(|e| missing(command, package, e))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // Both at once: a full pipe would stop the program.
    std::thread::scope(|scope| {
        let errors = scope.spawn(move || {
            let mut bytes = Vec::new();
            // What could be read is better than nothing.
            let _ = err.map(|mut err| err.read_to_end(&mut bytes));
            bytes
        });
        let mut stdout = Vec::new();
        if let Some(out) = out {
            let mut out = BufReader::new(out);
            let mut start = 0;
            while matches!(out.read_until(b'\n', &mut stdout), Ok(n) if n > 0) {
                line(String::from_utf8_lossy(&stdout[start..]).trim_end());
                start = stdout.len();
            }
        }
        let status = child.wait().map_err(|e| missing(command, package, e))?;
        let stderr = errors.join().unwrap_or_default();
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: lines are shown as they come, all output is kept, and much of it on both ways at
    /// once stops nothing.
    #[test]
    fn a_watched_program_may_print_much_on_both_ways() {
        let script = "i=0; while [ $i -lt 20000 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done; exit 3";
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let output = spawn_watched(&mut command, "dash", &mut |line| {
            lines.push(line.to_owned())
        });
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((lines.len(), lines[19_999].as_str()), (20_000, "out 19999"));
        let count = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(
            (count(&output.stdout), count(&output.stderr)),
            (20_000, 20_000)
        );
    }
}
