//! Running a model as a child process with a time limit.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::Failure;

/// Host time after which a program counts as hung; programs take milliseconds.
const LIMIT: Duration = Duration::from_secs(15);

/// Runs `command` without input, returns its exit status and the end of its output.
pub fn run(command: &mut Command) -> Result<(ExitStatus, String), Failure> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            Failure::Broken(format!(
                "cannot start {}: {e}",
                command.get_program().to_string_lossy()
            ))
        })?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Failure::Timeout);
            }
            Ok(None) => std::thread::sleep(pause),
            Err(e) => return Err(Failure::Broken(e.to_string())),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let mut stderr = String::new();
    if let Some(err) = child.stderr.take() {
        let _ = err.take(4096).read_to_string(&mut stderr);
    }
    Ok((status, stderr))
}
