//! A connection to gdb: packets come whole, and answers wait until gdb takes them.
//!
//! The next packet is not looked at before the last answer has gone, so that a gdb that does not
//! read takes no memory, and nothing blocks for longer than [`NAP`].

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gdbstub::conn::Connection;

use crate::packet::{Judge, PACKET};

/// How long to wait for something to happen before looking at the rest of the world.
pub const NAP: Duration = Duration::from_millis(20);
/// Asks for the last answer again.
const NACK: u8 = b'-';
/// Ctrl-C.
const INTERRUPT: u8 = 3;
const REFUSED: &[u8] = b"$E01#a6";

/// A connection with buffers.
pub struct Link {
    stream: TcpStream,
    inbox: VecDeque<u8>,
    framer: Framer,
    judge: Judge,
    /// A packet that `gdbstub` takes byte by byte.
    packet: VecDeque<u8>,
    /// The answer that is being made.
    answer: Vec<u8>,
    /// The last whole one, and how much of it has been sent.
    last: Vec<u8>,
    sent: usize,
    /// Packets are acknowledged.
    acknowledges: bool,
}

impl Link {
    /// To a debugger of a machine with so many harts.
    pub fn new(stream: TcpStream, harts: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(NAP))?;
        stream.set_write_timeout(Some(NAP))?;
        Ok(Self {
            stream,
            inbox: VecDeque::new(),
            framer: Framer::default(),
            judge: Judge::new(harts),
            packet: VecDeque::new(),
            answer: Vec::new(),
            last: Vec::new(),
            sent: 0,
            acknowledges: true,
        })
    }

    /// The next byte for `gdbstub`, if there is one, or comes within [`NAP`] if `wait`.
    pub fn byte(&mut self, wait: bool) -> io::Result<Option<u8>> {
        if let Some(byte) = self.packet.pop_front() {
            return Ok(Some(byte));
        }
        if self.sent < self.last.len() {
            self.send()?;
        }
        if self.sent < self.last.len() {
            return Ok(None);
        }
        if self.inbox.is_empty() {
            self.fill(wait)?;
        }
        while let Some(byte) = self.inbox.pop_front() {
            if let Some(came) = self.framer.take(byte) {
                self.came(came)?;
                break;
            }
        }
        Ok(self.packet.pop_front())
    }

    /// Waits a little for input.
    pub fn wait(&mut self) {
        // An error shows up at the next read.
        let _ = self.fill(true);
    }

    fn came(&mut self, came: Came) -> io::Result<()> {
        match came {
            Came::Interrupt => self.packet.push_back(INTERRUPT),
            Came::Again => {
                self.sent = 0;
                self.send()?;
            }
            Came::Packet(text, sum) if sum != Some(checksum(&text)) => {
                if self.acknowledges {
                    self.answer(&[NACK])?;
                } else {
                    self.answer(REFUSED)?;
                }
            }
            Came::Packet(text, _) if self.judge.accepts(&text) => {
                self.packet.push_back(b'$');
                self.packet.extend(&text);
                let end = format!("#{:02x}", checksum(&text));
                self.packet.extend(end.as_bytes());
                self.acknowledges &= text != b"QStartNoAckMode";
            }
            Came::Packet(..) | Came::TooLong => {
                if self.acknowledges {
                    self.answer.push(b'+');
                }
                self.answer.extend(REFUSED);
                self.flush()?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, text: &[u8]) -> io::Result<()> {
        self.answer.extend(text);
        self.flush()
    }

    /// Sends what gdb takes now.
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.last.len() {
            match Write::write(&mut self.stream, &self.last[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if is_empty(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fill(&mut self, wait: bool) -> io::Result<()> {
        let mut buf = [0; 4096];
        if !wait {
            self.stream.set_nonblocking(true)?;
        }
        let result = self.stream.read(&mut buf);
        if !wait {
            self.stream.set_nonblocking(false)?;
        }
        match result {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection",
            )),
            Ok(len) => {
                self.inbox.extend(&buf[..len]);
                Ok(())
            }
            Err(e) if is_empty(&e) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.answer.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What is still to be sent goes first: a stop may follow an answer.
        self.last.drain(..self.sent);
        self.last.append(&mut self.answer);
        self.sent = 0;
        self.send()
    }
}

/// Whether an error says no more than that there is nothing to do.
pub fn is_empty(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn checksum(text: &[u8]) -> u8 {
    text.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Something whole from gdb.
#[derive(PartialEq, Eq, Debug)]
enum Came {
    Interrupt,
    /// It wants the last answer again.
    Again,
    /// The text of a packet, and the checksum that came with it.
    Packet(Vec<u8>, Option<u8>),
    /// A packet that is longer than it may be.
    TooLong,
}

/// Where in a packet the next byte belongs.
#[derive(Default)]
enum Framer {
    #[default]
    Between,
    Text(Vec<u8>),
    Sum(Vec<u8>, Option<u8>),
}

impl Framer {
    fn take(&mut self, byte: u8) -> Option<Came> {
        match std::mem::take(self) {
            Self::Between => match byte {
                b'$' => *self = Self::Text(Vec::new()),
                INTERRUPT => return Some(Came::Interrupt),
                NACK => return Some(Came::Again),
                // Acknowledgements, and what is no packet.
                _ => {}
            },
            Self::Text(text) if byte == b'#' => *self = Self::Sum(text, None),
            Self::Text(mut text) => {
                // Nothing of the rest is kept.
                if text.len() < PACKET {
                    text.push(byte);
                }
                *self = Self::Text(text);
            }
            Self::Sum(text, None) => *self = Self::Sum(text, Some(byte)),
            // With `$`, `#` and the checksum it has to fit into the buffer.
            Self::Sum(text, _) if text.len() > PACKET - 4 => return Some(Came::TooLong),
            Self::Sum(text, Some(high)) => {
                let digits = [high, byte];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                return Some(Came::Packet(text, u8::from_str_radix(digits, 16).ok()));
            }
        }
        None
    }
}
