//! `--script` and `--until`: input on the console and the end of the session, controlled by what
//! the guest prints.
//!
//! All times are virtual, so that a session is the same each time and with each engine.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_machine::VirtualTime;

use trapless_recorder::SharedRecorder;

use crate::pattern::Pattern;

/// Cycles from the output that a script waits for to its next input: more than the time between two
/// polls of the script, so that it does not depend on when these happen.
const REACTION: u64 = 4_000_000;
/// Default timeout of a line, in seconds of virtual time.
const PATIENCE: u64 = 60;
/// Bytes of output that a pattern can match.
const REACH: usize = 64 << 10;

/// A step of a script.
#[derive(Debug)]
enum Step {
    /// Wait until the output since the last wait matches.
    Expect(Pattern),
    /// Type these bytes.
    Send(Vec<u8>),
    /// Wait at most so long, in cycles, from now on.
    Timeout(u64),
    /// Leave the machine.
    End,
}

/// Why a script ends a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It reached `end`, or `until` matched.
    Done,
    /// Expected output did not appear; with a message.
    Late(String),
}

/// A session's script. Each step has the number of its line.
#[derive(Debug)]
pub struct Script {
    steps: VecDeque<(usize, Step)>,
    /// Output since the last match.
    output: Vec<u8>,
    /// Input to be typed, with virtual times in cycles.
    typed: Vec<(u64, Vec<u8>)>,
    patience: u64,
    /// When the wait for the first step, or for the end, began, in cycles.
    since: u64,
    done: bool,
}

impl Script {
    /// Reads a script. Empty lines and those that begin with `#` are ignored; the others are
    /// `expect REGEX`, `send TEXT`, `timeout SECONDS` and `end`. TEXT is typed with Enter after it;
    /// `\t`, `\n`, `\e`, `\xNN` and `\\` stand for bytes, and `\c` at the end leaves out Enter.
    ///
    /// # Errors
    /// If a line is wrong; the message has its number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps = VecDeque::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            let number = index + 1;
            let at = |reason: String| format!("line {number}: {reason}");
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let step = match word {
                "expect" => Step::Expect(Pattern::new(rest).map_err(at)?),
                "send" => Step::Send(typed(rest).map_err(at)?),
                "timeout" => match rest.trim().parse::<u64>() {
                    Ok(seconds @ 1..) => Step::Timeout(VirtualTime::cycles(seconds)),
                    _ => return Err(at(format!("`{rest}` is not a number of seconds"))),
                },
                "end" if rest.is_empty() => Step::End,
                _ => {
                    return Err(at(format!(
                        "`{word}` is none of expect, send, timeout and end"
                    )));
                }
            };
            steps.push_back((number, step));
        }
        Ok(Self::new(steps, VirtualTime::cycles(PATIENCE)))
    }

    /// A script that ends as soon as the output matches `regex`, however long that takes.
    ///
    /// # Errors
    /// If the pattern is wrong.
    pub fn until(regex: &str) -> Result<Self, String> {
        let steps = [Step::Expect(Pattern::new(regex)?), Step::End];
        Ok(Self::new(steps.map(|step| (0, step)).into(), u64::MAX))
    }

    fn new(steps: VecDeque<(usize, Step)>, patience: u64) -> Self {
        let mut script = Self {
            steps,
            output: Vec::new(),
            typed: Vec::new(),
            patience,
            since: 0,
            done: false,
        };
        script.go_on(0);
        script
    }

    /// The guest has printed `bytes` at virtual time `now`.
    fn print(&mut self, bytes: &[u8], now: u64) {
        if !matches!(self.steps.front(), Some((_, Step::Expect(_)))) {
            return;
        }
        self.output.extend(bytes);
        if self.output.len() > 2 * REACH {
            self.output.drain(..self.output.len() - REACH);
            if let Some((_, Step::Expect(pattern))) = self.steps.front_mut() {
                pattern.restart();
            }
        }
        while let Some((_, Step::Expect(pattern))) = self.steps.front_mut() {
            let Some(end) = pattern.find(&self.output) else {
                return;
            };
            self.output.drain(..end);
            self.steps.pop_front();
            self.since = now;
            self.go_on(now);
        }
    }

    /// Executes the steps up to the next wait.
    fn go_on(&mut self, now: u64) {
        while let Some((number, step)) = self.steps.pop_front() {
            match step {
                Step::Expect(_) => {
                    self.steps.push_front((number, step));
                    return;
                }
                Step::Send(bytes) => self.typed.push((now + REACTION, bytes)),
                Step::Timeout(cycles) => self.patience = cycles,
                Step::End => {
                    self.steps.clear();
                    self.done = true;
                }
            }
        }
    }

    /// Input that is to be typed now, with the virtual time in cycles at which it arrives.
    pub fn take_typed(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.typed)
    }

    /// The machine was reset, and its clock starts again.
    pub fn restart(&mut self) {
        self.since = 0;
    }

    /// Whether the session is over at virtual time `now`.
    pub fn end(&self, now: u64) -> Option<End> {
        if self.done {
            return Some(End::Done);
        }
        if now.saturating_sub(self.since) <= self.patience {
            return None;
        }
        let seconds = self.patience / VirtualTime::HZ;
        Some(End::Late(match self.missing() {
            Some(what) => format!("{what} did not appear within {seconds} s"),
            None => format!(
                "the machine is still on {seconds} s after the last line of the script; `end` leaves it"
            ),
        }))
    }

    /// Description of what the script waits for; `None` if it has reached its end.
    pub fn missing(&self) -> Option<String> {
        let (number, step) = self.steps.front()?;
        let Step::Expect(pattern) = step else {
            return None;
        };
        Some(match number {
            0 => format!("output that matches `{pattern}`"),
            line => format!("what line {line} of the script expects, `{pattern}`,"),
        })
    }
}

/// The bytes to type for `text`: Enter is a carriage return.
fn typed(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (plain, length) = match rest {
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'e', ..] => (0x1b, 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => {
                let digits = [*high, *low];
                let value = std::str::from_utf8(&digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                (value.ok_or("`\\x` needs two hexadecimal digits")?, 3)
            }
            [b'c'] => return Ok(bytes),
            _ => return Err("after `\\` comes t, n, e, xNN, \\ or, at the end, c".into()),
        };
        bytes.push(plain);
        rest = &rest[length..];
    }
    bytes.push(b'\r');
    Ok(bytes)
}

/// A script shared by the console, which feeds it, and the session, which polls it.
#[derive(Clone)]
pub struct SharedScript(Arc<Mutex<Script>>);

impl SharedScript {
    /// Shares `script`.
    pub fn new(script: Script) -> Self {
        Self(Arc::new(Mutex::new(script)))
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes output of the guest to the script and to the screen.
pub struct ScriptTap {
    /// The script.
    pub script: SharedScript,
    /// Source of the virtual time.
    pub recorder: SharedRecorder,
    /// The screen.
    pub copy: Box<dyn Write + Send>,
}

impl Write for ScriptTap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = self.recorder.lock().now();
        self.script.lock().print(bytes, now);
        self.copy.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.copy.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a script answers what it waits for, and only what came after the last answer.
    #[test]
    fn steps_follow_the_output() {
        let text = "# log in\nexpect login:\nsend root\n\nexpect [$#] $\nsend \\x03\\c\nend\n";
        let mut script = Script::parse(text).unwrap();
        assert_eq!(script.end(0), None);
        script.print(b"lo", 10);
        assert!(script.take_typed().is_empty());
        // A prompt is no whole line.
        script.print(b"gin:", 20);
        assert_eq!(script.take_typed(), [(20 + REACTION, b"root\r".to_vec())]);
        script.print(b" root\r\n# ", 30);
        assert_eq!(script.take_typed(), [(30 + REACTION, b"\x03".to_vec())]);
        assert_eq!(script.end(31), Some(End::Done));
    }

    /// Promise: what does not come is named, with its line.
    #[test]
    fn a_script_does_not_wait_for_ever() {
        let mut script = Script::parse("timeout 2\nexpect a\nexpect b\n").unwrap();
        script.print(b"a", VirtualTime::HZ);
        assert_eq!(script.end(3 * VirtualTime::HZ), None);
        let Some(End::Late(reason)) = script.end(3 * VirtualTime::HZ + 1) else {
            panic!("the script waits");
        };
        assert!(
            reason.contains("line 3") && reason.contains("2 s"),
            "{reason}"
        );
    }

    /// Promise: `--until` waits as long as it takes, and a script without `end` lets the machine
    /// power off.
    #[test]
    fn who_ends_a_session() {
        let mut until = Script::until("done|failed").unwrap();
        assert_eq!(until.end(u64::MAX), None);
        until.print(b"test failed\n", 5);
        assert_eq!(until.end(6), Some(End::Done));
        let script = Script::parse("send x").unwrap();
        assert_eq!(
            (script.end(VirtualTime::cycles(PATIENCE)), script.missing()),
            (None, None)
        );
        let Some(End::Late(reason)) = script.end(VirtualTime::cycles(PATIENCE) + 1) else {
            panic!("the script waits");
        };
        assert!(reason.contains("still on 60 s"), "{reason}");
    }

    /// Promise: a wrong script is told with the line and what would be right.
    #[test]
    fn mistakes_are_reported() {
        for (text, part) in [
            ("expect", "line 1: there is no pattern"),
            (
                "\nexpect (",
                "line 2: `(` is not a regular expression: unclosed group",
            ),
            ("say x", "`say` is none of expect"),
            ("timeout soon", "`soon` is not a number"),
            ("send \\q", "after `\\`"),
            ("send \\xg1", "two hexadecimal digits"),
            ("send \\x1", "after `\\`"),
        ] {
            let error = Script::parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    /// Promise: a guest that prints without end takes no memory without end.
    #[test]
    fn output_is_kept_within_bounds() {
        let mut script = Script::until("never").unwrap();
        for _ in 0..100 {
            script.print(&[b'x'; 10_000], 0);
        }
        assert!(script.output.len() <= 2 * REACH + 10_000);
    }
}
