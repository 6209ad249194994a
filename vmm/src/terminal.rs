//! Standard input as the guest's keyboard.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;
use std::str::FromStr;

/// Puts the terminal on standard input into raw mode and restores it when dropped.
pub struct RawTerminal(Option<libc::termios>);

impl RawTerminal {
    /// Does nothing if standard input is not a terminal.
    ///
    /// # Errors
    /// Those of the terminal driver.
    pub fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self(None));
        }
        let fd = stdin.as_raw_fd();
        // SAFETY: termios is plain old data, for which zeroes are a valid value.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: `fd` is open and `settings` outlives the call.
        if unsafe { libc::tcgetattr(fd, &mut settings) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let saved = settings;
        // SAFETY: `settings` is a valid termios.
        unsafe { libc::cfmakeraw(&mut settings) };
        // Keep "\n" -> "\r\n" so that messages of the VMM itself stay readable.
        settings.c_oflag |= libc::OPOST;
        // SAFETY: `fd` is open and `settings` is a valid termios.
        if unsafe { libc::tcsetattr(fd, libc::TCSANOW, &settings) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(Some(saved)))
    }

    /// Whether standard input is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(saved) = self.0 {
            // SAFETY: `saved` came from tcgetattr; a failure leaves nothing to be done.
            unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSANOW, &saved) };
        }
    }
}

/// Columns and rows of the terminal on standard output, if it is one.
pub fn window_size() -> Option<(u16, u16)> {
    // SAFETY: winsize is plain old data, for which zeroes are a valid value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one winsize, which outlives the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (result == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Input of the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Typed {
    /// Bytes for the guest.
    pub bytes: Vec<u8>,
    /// The escape key and x were pressed.
    pub quit: bool,
    /// The escape key and h were pressed.
    pub help: bool,
}

/// The key with Ctrl after which a key is a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EscapeKey(char);

impl FromStr for EscapeKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.chars().collect::<Vec<_>>()[..] {
            [key] if key.is_ascii_lowercase() => Ok(Self(key)),
            _ => Err(format!("{text} is not a letter from a to z")),
        }
    }
}

impl EscapeKey {
    /// The byte that a terminal sends for it.
    fn byte(self) -> u8 {
        self.0 as u8 & 0x1f
    }

    /// The text that the key and h show.
    pub fn help(self) -> String {
        let key = format!("Ctrl-{}", self.0.to_ascii_uppercase());
        format!("\n{key} x  leave\n{key} h  this help\n{key} {key}  send {key} to the guest\n")
    }
}

/// Filters sequences with the escape key from terminal input.
pub struct Escape {
    /// The key.
    pub key: EscapeKey,
    prefix: bool,
}

impl Escape {
    /// One for this key.
    pub fn new(key: EscapeKey) -> Self {
        Self { key, prefix: false }
    }

    /// Splits `input` into bytes for the guest and commands.
    pub fn filter(&mut self, input: &[u8]) -> Typed {
        let key = self.key.byte();
        let mut typed = Typed {
            bytes: Vec::with_capacity(input.len()),
            quit: false,
            help: false,
        };
        for &byte in input {
            if !std::mem::take(&mut self.prefix) {
                if byte == key {
                    self.prefix = true;
                } else {
                    typed.bytes.push(byte);
                }
                continue;
            }
            match byte {
                b'x' => typed.quit = true,
                b'h' | b'?' => typed.help = true,
                again if again == key => typed.bytes.push(key),
                _ => {}
            }
        }
        typed
    }
}

/// Reads available bytes of standard input, at most `buffer.len()`; `None` at the end of input.
pub fn read_input(buffer: &mut [u8]) -> Option<usize> {
    match io::stdin().lock().read(buffer) {
        Ok(0) => None,
        Ok(n) => Some(n),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
            ) =>
        {
            Some(0)
        }
        Err(_) => None,
    }
}

/// Standard output without line buffering. A missing reader does not stop the guest.
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_with_the_escape_key_are_commands_even_across_reads() {
        let mut escape = Escape::new("a".parse().unwrap());
        assert_eq!(escape.filter(b"ab\x01").bytes, b"ab");
        let typed = escape.filter(b"xc");
        assert!(typed.quit);
        assert_eq!(typed.bytes, b"c");
        assert_eq!(escape.filter(b"\x01\x01\x01q").bytes, b"\x01");
        assert!(escape.filter(b"\x01h").help);
        // Another key leaves that of a terminal around this one alone.
        let mut escape = Escape::new("b".parse().unwrap());
        assert_eq!(escape.filter(b"\x01x\x02\x02").bytes, b"\x01x\x02");
        assert!(escape.filter(b"\x02x").quit);
        assert!(escape.key.help().contains("Ctrl-B x  leave"));
        for wrong in ["", "B", "ab", "1"] {
            assert!(wrong.parse::<EscapeKey>().is_err(), "{wrong}");
        }
    }
}
