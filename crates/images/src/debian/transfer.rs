//! apt's programs while they fetch: they end with this process, and if nothing more arrives.

use crate::command::{bind, missing, tail};
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a transfer may bring less than [`LEAST`]. apt waits for a silent mirror itself, a few
/// times, and reads its lists in this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// Fewer bytes are as good as none.
const LEAST: u64 = 64 << 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Runs `command` and captures what it says. `arrived` answers how many bytes are here so far, or
/// why there is no sense in going on.
///
/// # Errors
/// A reason, in the transport's own words where it has some.
pub(crate) fn transfer(
    command: &mut Command,
    patience: Duration,
    arrived: &mut dyn FnMut() -> Result<u64, String>,
) -> Result<Output, String> {
    bind(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C");
    let child = command.spawn();
    let mut child = Ending(child.map_err(|e| missing(command, "apt", e).to_string())?);
    // What is not read would stop a talkative program.
    let stderr = child.0.stderr.take();
    let said = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read is better than nothing.
        let _ = stderr.map(|mut stderr| stderr.read_to_end(&mut bytes));
        bytes
    });
    let (mut since, mut before) = (Instant::now(), 0);
    let status = loop {
        if let Some(status) = child.0.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        let now = arrived()?;
        if now.abs_diff(before) >= LEAST {
            (since, before) = (Instant::now(), now);
        } else if since.elapsed() > patience {
            let seconds = patience.as_secs();
            return Err(format!("nothing came from the mirror for {seconds} s"));
        }
        std::thread::sleep(PAUSE);
    };
    let output = Output {
        status,
        stdout: Vec::new(),
        stderr: said.join().unwrap_or_default(),
    };
    if output.status.success() {
        Ok(output)
    } else {
        Err(tail(&output, 4))
    }
}

/// A program that ends when this is dropped.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Promise: a mirror that sends nothing more, or without end, holds nobody for ever, and the
    /// program that talks to it ends.
    #[test]
    fn a_transfer_that_does_not_end_is_ended() {
        let temp = tempfile::tempdir().unwrap();
        let pid = temp.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 60", pid.display());
        let patience = Duration::from_millis(500);
        let silent = transfer(&mut shell(&script), patience, &mut || Ok(7));
        assert!(silent.unwrap_err().contains("nothing came"));
        let text = std::fs::read_to_string(&pid).unwrap();
        assert!(!Path::new("/proc").join(text.trim()).exists());
        let mut size = 0;
        let endless = transfer(&mut shell(&script), patience, &mut || {
            size += 1 << 20;
            if size > 5 << 20 {
                Err("more than there is".into())
            } else {
                Ok(size)
            }
        });
        assert_eq!(endless.unwrap_err(), "more than there is");
        let slow = "for i in 1 2 3 4 5 6; do sleep 0.2; done; echo no >&2; exit 3";
        let mut size = 0;
        let slow = transfer(&mut shell(slow), patience, &mut || {
            size += LEAST;
            Ok(size)
        });
        assert_eq!(slow.unwrap_err(), "no");
    }
}
