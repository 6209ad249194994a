//! The user's terminal as a machine's console: raw mode, and keys that are not for the guest.

use std::io::{IsTerminal, Read, Stdin, stdin};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Ctrl-A, as in QEMU and screen.
const ESCAPE: u8 = 1;
/// Chunks of standard input that may be queued for the machine.
const READ_AHEAD: usize = 4;

/// What the user typed.
#[derive(Debug, PartialEq, Eq)]
pub enum Key {
    /// Bytes for the guest.
    Input(Vec<u8>),
    /// Leave the machine.
    Quit,
    /// List the keys.
    Help,
    /// Show the state of the harts.
    Status,
    /// Save the machine.
    Checkpoint,
}

/// Text of Ctrl-A h.
pub const HELP: &str = "\r\n\
    Ctrl-A x  leave the machine\r\n\
    Ctrl-A c  save the machine to a checkpoint\r\n\
    Ctrl-A s  show where the harts are\r\n\
    Ctrl-A a  send Ctrl-A\r\n\
    Ctrl-A h  this help";

/// Raw mode until it is dropped.
pub struct RawMode(Option<(Stdin, Termios)>);

impl RawMode {
    /// Switches the terminal to raw mode if standard input is one.
    pub fn enter() -> Self {
        let input = stdin();
        if !input.is_terminal() {
            return Self(None);
        }
        let Ok(saved) = tcgetattr(&input) else {
            return Self(None);
        };
        let mut raw = saved.clone();
        raw.make_raw();
        // Output keeps its line ends: the guest's own carriage returns do no harm.
        raw.output_modes = saved.output_modes;
        match tcsetattr(&input, OptionalActions::Now, &raw) {
            Ok(()) => Self(Some((input, saved))),
            Err(_) => Self(None),
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some((input, saved)) = &self.0 {
            // Nothing can be done if the terminal has gone.
            let _ = tcsetattr(input, OptionalActions::Flush, saved);
        }
    }
}

/// Splits typed bytes into keys.
#[derive(Default)]
pub struct Keys {
    escaped: bool,
}

impl Keys {
    /// Keys in `bytes`; an escape at the end waits for the next call. With `escapes` off every byte
    /// is for the guest.
    pub fn split(&mut self, bytes: &[u8], escapes: bool) -> Vec<Key> {
        if !escapes {
            return vec![Key::Input(bytes.into())];
        }
        let mut keys = Vec::new();
        let mut plain = Vec::new();
        for &byte in bytes {
            if !self.escaped {
                if byte == ESCAPE {
                    self.escaped = true;
                } else {
                    plain.push(byte);
                }
                continue;
            }
            self.escaped = false;
            let key = match byte {
                b'x' | b'X' => Key::Quit,
                b's' => Key::Status,
                b'c' => Key::Checkpoint,
                b'a' | ESCAPE => {
                    plain.push(ESCAPE);
                    continue;
                }
                _ => Key::Help,
            };
            if !plain.is_empty() {
                keys.push(Key::Input(std::mem::take(&mut plain)));
            }
            keys.push(key);
        }
        if !plain.is_empty() {
            keys.push(Key::Input(plain));
        }
        keys
    }
}

/// Reads standard input in a thread of its own, no faster than the machine takes it. The channel
/// closes at its end.
pub fn keyboard() -> Receiver<Key> {
    let (sender, receiver) = sync_channel(READ_AHEAD);
    std::thread::spawn(move || read_keys(&sender));
    receiver
}

fn read_keys(sender: &SyncSender<Key>) {
    let mut input = stdin();
    let escapes = input.is_terminal();
    let mut keys = Keys::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = input.read(&mut buffer) {
        for key in keys.split(&buffer[..count], escapes) {
            if sender.send(key).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_taken_out_and_may_be_split_between_reads() {
        let mut keys = Keys::default();
        assert_eq!(keys.split(b"ls\x01", true), [Key::Input(b"ls".into())]);
        assert_eq!(keys.split(b"x", true), [Key::Quit]);
        assert_eq!(keys.split(b"\x01a", true), [Key::Input(vec![1])]);
        assert_eq!(keys.split(b"\x01h", true), [Key::Help]);
        assert_eq!(keys.split(b"\x01c", true), [Key::Checkpoint]);
        assert_eq!(keys.split(b"\x01x", false), [Key::Input(b"\x01x".into())]);
    }
}
