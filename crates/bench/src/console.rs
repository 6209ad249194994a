//! Output of an emulator, with times of arrival.

use std::io::Read;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// Units of processor time in `/proc` for each second: fixed in Linux' interface to programs.
const TICKS: f64 = 100.0;
/// Maximum length of a line that is kept; the guest controls the length of lines.
const LINE: usize = 4096;

/// Seconds since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moment {
    /// Of wall time.
    pub wall: f64,
    /// Of processor time, of all threads of the emulator together. Reliable even on a busy machine.
    pub cpu: f64,
}

/// Observes a running process.
#[derive(Clone, Copy)]
pub struct Watch {
    /// Its number.
    pub process: u32,
    /// When it started.
    pub start: Instant,
}

impl Watch {
    /// Its times up to now; without processor time if it has ended.
    pub fn now(&self) -> Moment {
        let wall = self.start.elapsed().as_secs_f64();
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process));
        Moment {
            wall,
            cpu: text.ok().and_then(|t| processor_time(&t)).unwrap_or(0.0),
        }
    }

    /// Its resident memory now and at most, in MiB.
    pub fn memory(&self) -> Option<(f64, f64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process)).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name))?;
            let kib = line.split_whitespace().next()?.parse::<f64>();
            kib.ok().map(|kib| kib / 1024.0)
        };
        Some((field("VmRSS:")?, field("VmHWM:")?))
    }
}

/// Seconds in user and kernel mode from `/proc/PID/stat`.
fn processor_time(stat: &str) -> Option<f64> {
    // The name of the program comes second, in parentheses, and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS)
}

/// A line with the times of its first character and of its end.
pub struct Line<'a> {
    pub begin: Moment,
    pub end: Moment,
    pub text: &'a str,
}

/// Cuts bytes into lines.
#[derive(Default)]
pub struct Lines {
    begin: Moment,
    partial: Vec<u8>,
}

impl Lines {
    /// Handles bytes that arrived at `at` and passes on complete lines.
    pub fn feed(&mut self, at: Moment, bytes: &[u8], line: &mut dyn FnMut(&Line<'_>)) {
        for &byte in bytes {
            if self.partial.is_empty() {
                self.begin = at;
            }
            if byte == b'\n' {
                let text = String::from_utf8_lossy(&self.partial).into_owned();
                line(&Line {
                    begin: self.begin,
                    end: at,
                    text: text.trim_end(),
                });
                self.partial.clear();
            } else if self.partial.len() < LINE {
                self.partial.push(byte);
            }
        }
    }
}

/// Reads a pipe in a thread of its own, so that the time of arrival is exact.
pub fn read(pipe: Option<impl Read + Send + 'static>, watch: Watch) -> Receiver<(Moment, Vec<u8>)> {
    let (sender, receiver) = channel();
    if let Some(mut pipe) = pipe {
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut at = watch.now();
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let bytes = &buffer[..count];
                // Characters may arrive one by one: the times of the beginning and end of lines
                // count.
                if bytes.contains(&b'@') || bytes.contains(&b'\n') {
                    at = watch.now();
                }
                if sender.send((at, bytes.to_vec())).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(wall: f64) -> Moment {
        Moment { wall, cpu: 0.0 }
    }

    #[test]
    fn lines_know_when_they_began_and_ended() {
        let mut seen = Vec::new();
        let mut lines = Lines::default();
        for (at, bytes) in [(1.0, "ab"), (2.0, "c\r\n\nx"), (3.0, "\n")] {
            lines.feed(moment(at), bytes.as_bytes(), &mut |l| {
                seen.push((l.begin.wall, l.end.wall, l.text.to_owned()));
            });
        }
        let expected = [(1.0, 2.0, "abc"), (2.0, 2.0, ""), (2.0, 3.0, "x")];
        assert_eq!(seen, expected.map(|(b, e, t)| (b, e, t.to_owned())));
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(processor_time(stat), Some(2.0));
    }
}
