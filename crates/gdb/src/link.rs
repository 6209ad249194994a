//! A connection to gdb: packets are assembled, and replies are queued until gdb reads them.
//!
//! The next packet is not processed before the last reply was sent, so that a gdb that does not
//! read takes no memory, and nothing blocks for longer than [`NAP`].

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gdbstub::conn::Connection;

use crate::packet::{Judge, PACKET};

/// How long to wait for gdb before the host program is polled again.
pub const NAP: Duration = Duration::from_millis(20);
/// Requests the last reply again.
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
    /// The reply under construction.
    answer: Vec<u8>,
    /// The last complete reply, and how much of it has been sent.
    last: Vec<u8>,
    sent: usize,
    /// Packets are acknowledged.
    acknowledges: bool,
}

impl Link {
    /// A connection to a debugger of a machine with so many harts.
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

    /// The next byte for `gdbstub`, if there is one, or one arrives within [`NAP`] if `wait`.
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
            if let Some(received) = self.framer.take(byte) {
                self.receive(received)?;
                break;
            }
        }
        Ok(self.packet.pop_front())
    }

    /// Waits a little for input.
    pub fn wait(&mut self) {
        // An error is returned by the next read.
        let _ = self.fill(true);
    }

    fn receive(&mut self, received: Received) -> io::Result<()> {
        match received {
            Received::Interrupt => self.packet.push_back(INTERRUPT),
            Received::Again => {
                self.sent = 0;
                self.send()?;
            }
            Received::Packet(text, sum) if sum != Some(checksum(&text)) => {
                if self.acknowledges {
                    self.answer(&[NACK])?;
                } else {
                    self.answer(REFUSED)?;
                }
            }
            Received::Packet(text, _) if self.judge.accepts(&text) => {
                self.packet.push_back(b'$');
                self.packet.extend(&text);
                let end = format!("#{:02x}", checksum(&text));
                self.packet.extend(end.as_bytes());
                self.acknowledges &= text != b"QStartNoAckMode";
            }
            Received::Packet(..) | Received::TooLong => {
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

    /// Sends as much as gdb accepts now.
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
        // Unsent data goes first: a stop may follow a reply.
        self.last.drain(..self.sent);
        self.last.append(&mut self.answer);
        self.sent = 0;
        self.send()
    }
}

/// Whether an error only means that no data can be transferred now.
pub fn is_empty(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn checksum(text: &[u8]) -> u8 {
    text.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// A complete unit of the protocol from gdb.
#[derive(PartialEq, Eq, Debug)]
enum Received {
    Interrupt,
    /// A request for the last reply.
    Again,
    /// The text of a packet, and the checksum that came with it.
    Packet(Vec<u8>, Option<u8>),
    /// A packet that is longer than it may be.
    TooLong,
}

/// State of packet framing.
#[derive(Default)]
enum Framer {
    #[default]
    Between,
    Text(Vec<u8>),
    Sum(Vec<u8>, Option<u8>),
}

impl Framer {
    fn take(&mut self, byte: u8) -> Option<Received> {
        match std::mem::take(self) {
            Self::Between => match byte {
                b'$' => *self = Self::Text(Vec::new()),
                INTERRUPT => return Some(Received::Interrupt),
                NACK => return Some(Received::Again),
                // Acknowledgements, and bytes outside packets.
                _ => {}
            },
            Self::Text(text) if byte == b'#' => *self = Self::Sum(text, None),
            Self::Text(mut text) => {
                // The rest is dropped.
                if text.len() < PACKET {
                    text.push(byte);
                }
                *self = Self::Text(text);
            }
            Self::Sum(text, None) => *self = Self::Sum(text, Some(byte)),
            // It must fit into the buffer together with `$`, `#` and the checksum.
            Self::Sum(text, _) if text.len() > PACKET - 4 => return Some(Received::TooLong),
            Self::Sum(text, Some(high)) => {
                let digits = [high, byte];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                return Some(Received::Packet(text, u8::from_str_radix(digits, 16).ok()));
            }
        }
        None
    }
}
