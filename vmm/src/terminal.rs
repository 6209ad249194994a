//! Standard input as the guest's keyboard.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsRawFd;

/// Puts the terminal on standard input into raw mode and restores it when dropped.
pub struct RawTerminal(Option<libc::termios>);

impl RawTerminal {
    /// Does nothing if standard input is no terminal.
    ///
    /// # Errors
    /// Passes on errors of the terminal driver.
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

/// What the user typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Typed {
    /// Bytes for the guest.
    pub bytes: Vec<u8>,
    /// Ctrl-A x was pressed.
    pub quit: bool,
    /// Ctrl-A h was pressed.
    pub help: bool,
}

/// Takes Ctrl-A sequences out of what is typed on a terminal.
#[derive(Default)]
pub struct Escape {
    prefix: bool,
}

/// The text of Ctrl-A h.
pub const HELP: &str =
    "\nCtrl-A x  leave\nCtrl-A h  this help\nCtrl-A Ctrl-A  send Ctrl-A to the guest\n";

impl Escape {
    /// Splits `input` into bytes for the guest and commands.
    pub fn filter(&mut self, input: &[u8]) -> Typed {
        const CTRL_A: u8 = 1;
        let mut typed = Typed {
            bytes: Vec::with_capacity(input.len()),
            quit: false,
            help: false,
        };
        for &byte in input {
            if !std::mem::take(&mut self.prefix) {
                if byte == CTRL_A {
                    self.prefix = true;
                } else {
                    typed.bytes.push(byte);
                }
                continue;
            }
            match byte {
                b'x' => typed.quit = true,
                b'h' | b'?' => typed.help = true,
                CTRL_A => typed.bytes.push(CTRL_A),
                _ => {}
            }
        }
        typed
    }
}

/// Reads what is there on standard input, at most `buffer.len()` bytes; `None` at the end of input.
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

/// Standard output without line buffering. A reader that is gone does not stop the guest.
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
    fn ctrl_a_sequences_are_commands_even_across_reads() {
        let mut escape = Escape::default();
        assert_eq!(escape.filter(b"ab\x01").bytes, b"ab");
        let typed = escape.filter(b"xc");
        assert!(typed.quit);
        assert_eq!(typed.bytes, b"c");
        assert_eq!(escape.filter(b"\x01\x01\x01q").bytes, b"\x01");
        assert!(escape.filter(b"\x01h").help);
    }
}
