//! Validation of packets (gdb's manual, "Remote Protocol") before `gdbstub` processes them.
//!
//! `gdbstub` ends the connection at a packet that it cannot decode, and does not limit the length
//! of replies. Only packets that it can decode, by its grammar of each, are passed on; others are
//! answered with an error.

/// Maximum length of a packet. gdb reads memory in pieces of about half of this.
pub const PACKET: usize = 16 << 10;
/// Bytes of RISC-V's `g` packet: 32 registers and the program counter.
const REGISTERS: usize = 33 * 8;

/// State for the validation of packets.
#[derive(Debug)]
pub struct Judge {
    harts: usize,
    /// `Hc` has chosen all threads, which cannot step.
    all: bool,
}

impl Judge {
    /// For a machine with so many harts.
    pub fn new(harts: usize) -> Self {
        Self { harts, all: false }
    }

    /// Whether `gdbstub` can decode a packet with this text between `$` and `#`.
    pub fn accepts(&mut self, text: &[u8]) -> bool {
        let rest = |prefix: &str| text.strip_prefix(prefix.as_bytes());
        if let Some(rest) = rest("H") {
            return self.choose(rest);
        }
        if let Some(rest) = rest("vCont") {
            return rest == b"?" || self.resumes(rest);
        }
        if let Some(rest) = rest("vFile:") {
            return file(rest);
        }
        if let Some(rest) = rest("qXfer:features:read") {
            return transfer(rest);
        }
        if let Some(rest) = rest("qThreadExtraInfo") {
            let id = rest.strip_prefix(b",").and_then(Id::parse);
            return matches!(
                id,
                Some(Id {
                    thread: Thread::One(_),
                    process: None | Some(Thread::One(_))
                })
            );
        }
        if let Some(rest) = rest("qSupported") {
            let features = rest.strip_prefix(b":");
            return features
                .is_some_and(|all| all.split(|b| *b == b';').all(|one| !one.is_empty()));
        }
        if let Some(rest) = rest("qRcmd") {
            return rest.strip_prefix(b",").is_some_and(bytes);
        }
        if let Some(rest) = rest("qAttached") {
            return rest.is_empty() || rest.strip_prefix(b":").is_some_and(process);
        }
        if let Some(rest) = rest("vKill") {
            return rest.strip_prefix(b";").is_some_and(process);
        }
        if let Some(rest) = rest("bs") {
            return rest.is_empty() && !self.all;
        }
        for alone in ["qfThreadInfo", "qsThreadInfo", "QStartNoAckMode", "bc"] {
            if let Some(rest) = rest(alone) {
                return rest.is_empty();
            }
        }
        let Some((command, rest)) = text.split_first() else {
            return true;
        };
        match command {
            b'?' | b'g' | b'k' => rest.is_empty(),
            b'D' => rest.is_empty() || rest.strip_prefix(b";").is_some_and(process),
            b'G' => bytes(rest) && rest.len() == 2 * REGISTERS,
            b'm' => fields(rest, b",", [address, piece]),
            b'M' => fields(rest, b",:", [address, length, bytes]),
            b'X' => binary(rest),
            b'p' => length(rest),
            b'P' => fields(rest, b"=", [length, bytes]),
            b'T' => Id::parse(rest).is_some(),
            b'c' => rest.is_empty() || bytes(rest),
            b's' => !self.all && (rest.is_empty() || bytes(rest)),
            b'z' | b'Z' => breakpoint(rest),
            // Packets that it does not know, it rejects properly.
            _ => true,
        }
    }

    /// `Hg` and `Hc`.
    fn choose(&mut self, rest: &[u8]) -> bool {
        let Some((operation, id)) = rest.split_first() else {
            return false;
        };
        let Some(id) = Id::parse(id) else {
            return false;
        };
        match (operation, id.thread) {
            (b'g' | b'c', Thread::One(number)) if number > self.harts as u64 => false,
            (b'g', Thread::All) => false,
            (b'g', _) => true,
            (b'c', thread) => {
                self.all = thread == Thread::All;
                true
            }
            _ => false,
        }
    }

    /// The actions of `vCont`. All harts share one clock, so none can be stopped (`t`).
    fn resumes(&self, rest: &[u8]) -> bool {
        let Some(actions) = rest.strip_prefix(b";") else {
            return false;
        };
        actions.split(|b| *b == b';').all(|action| {
            let mut parts = action.split(|b| *b == b':');
            let kind = parts.next().unwrap_or_default();
            let id = parts.next().map(Id::parse);
            let one = match id {
                Some(Some(id)) if id.process == Some(Thread::Any) => return false,
                Some(Some(id)) => matches!(id.thread, Thread::One(n) if n <= self.harts as u64),
                Some(None) => return false,
                None => false,
            };
            let all = !matches!(
                id,
                Some(Some(Id {
                    thread: Thread::One(_),
                    ..
                }))
            );
            match kind {
                [b'c'] => one || all,
                [b'C', signal @ ..] => (one || all) && signal_number(signal),
                [b's'] => one,
                [b'S', signal @ ..] => one && signal_number(signal),
                [b'r', range @ ..] => one && fields(range, b",", [length, length]),
                _ => false,
            }
        })
    }
}

/// A thread or process, or several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    All,
    Any,
    One(u64),
}

impl Thread {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"-1" => Some(Self::All),
            b"0" => Some(Self::Any),
            text => number(text).filter(|number| *number > 0).map(Self::One),
        }
    }
}

/// `THREAD`, `pPROCESS.THREAD` or `pPROCESS`.
#[derive(Clone, Copy)]
struct Id {
    process: Option<Thread>,
    thread: Thread,
}

impl Id {
    fn parse(text: &[u8]) -> Option<Self> {
        let Some(text) = text.strip_prefix(b"p") else {
            return Thread::parse(text).map(|thread| Self {
                process: None,
                thread,
            });
        };
        let mut parts = text.split(|b| *b == b'.');
        let process = Some(Thread::parse(parts.next()?)?);
        let thread = parts.next().map_or(Some(Thread::All), Thread::parse)?;
        Some(Self { process, thread })
    }
}

/// A number of at most 64 bits.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

fn length(text: &[u8]) -> bool {
    number(text).is_some()
}

/// An address, which is decoded as bytes: leading zeroes count.
fn address(text: &[u8]) -> bool {
    (1..=16).contains(&text.len()) && length(text)
}

/// A length whose data fits into one reply.
fn piece(text: &[u8]) -> bool {
    number(text).is_some_and(|len| len <= PACKET as u64)
}

/// Bytes as hexadecimal digits; `x` for those that are not available.
fn bytes(text: &[u8]) -> bool {
    text.iter().all(|b| b.is_ascii_hexdigit() || *b == b'x')
}

fn signal_number(text: &[u8]) -> bool {
    number(text).is_some_and(|signal| signal <= 0xff)
}

/// A number other than 0.
fn process(text: &[u8]) -> bool {
    number(text).is_some_and(|process| process > 0)
}

/// Whether `text` has exactly these fields between `separators`.
fn fields<const N: usize>(text: &[u8], separators: &[u8], kinds: [fn(&[u8]) -> bool; N]) -> bool {
    let parts: Vec<&[u8]> = text.split(|b| separators.contains(b)).collect();
    parts.len() == N && parts.iter().zip(kinds).all(|(part, fits)| fits(part))
}

/// `ADDRESS,LENGTH:BINARY`, where `}` escapes the byte that follows.
fn binary(text: &[u8]) -> bool {
    let mut parts = text.splitn(3, |b| matches!(b, b',' | b':'));
    let [Some(at), Some(len), Some(data)] = [parts.next(), parts.next(), parts.next()] else {
        return false;
    };
    address(at) && length(len) && unescaped(data)
}

/// Whether no escape is truncated.
fn unescaped(data: &[u8]) -> bool {
    let mut bytes = data.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'}' && bytes.next().is_none() {
            return false;
        }
    }
    true
}

/// `TYPE,ADDRESS,KIND`; conditions and commands may follow.
fn breakpoint(text: &[u8]) -> bool {
    let mut parts = text.splitn(4, |b| matches!(b, b',' | b';'));
    let [Some(kind), Some(at), Some(len)] = [parts.next(), parts.next(), parts.next()] else {
        return false;
    };
    signal_number(kind) && address(at) && address(len)
}

/// `:ANNEX:OFFSET,LENGTH`.
fn transfer(text: &[u8]) -> bool {
    let mut parts = text.split(|b| *b == b':').skip(1);
    parts.next().is_some()
        && parts
            .next()
            .is_some_and(|rest| fields(rest, b",", [length, length]))
}

/// The part after `vFile:`.
fn file(text: &[u8]) -> bool {
    let Some(colon) = text.iter().position(|b| *b == b':') else {
        return !is_file_operation(text);
    };
    let (operation, rest) = (&text[..colon], &text[colon + 1..]);
    let number = |text: &[u8]| number(text).is_some_and(|n| u32::try_from(n).is_ok());
    match operation {
        b"open" => {
            // The modes and flags of the protocol.
            let flags = |text: &[u8]| self::number(text).is_some_and(|f| f & !0xf000_0e0b == 0);
            let mode = |text: &[u8]| self::number(text).is_some_and(|m| m & !0o177_777 == 0);
            let parts: Vec<&[u8]> = rest.split(|b| *b == b',').collect();
            matches!(parts[..], [name, f, m] if bytes(name) && flags(f) && mode(m))
        }
        b"close" | b"fstat" | b"setfs" => number(rest),
        b"pread" => {
            let parts: Vec<&[u8]> = rest.split(|b| *b == b',').collect();
            matches!(parts[..], [f, len, at] if number(f) && length(len) && length(at))
        }
        b"pwrite" => {
            let mut parts = rest.splitn(3, |b| *b == b',');
            let parts = [parts.next(), parts.next(), parts.next()];
            matches!(parts, [Some(f), Some(at), Some(data)]
                if number(f) && address(at) && unescaped(data))
        }
        b"unlink" | b"readlink" => bytes(rest),
        other => !is_file_operation(other),
    }
}

/// Whether `gdbstub` knows the operation.
fn is_file_operation(text: &[u8]) -> bool {
    const KNOWN: [&str; 8] = [
        "open", "close", "pread", "pwrite", "fstat", "unlink", "readlink", "setfs",
    ];
    KNOWN.iter().any(|known| text.starts_with(known.as_bytes()))
}
