//! Fields of messages: little-endian numbers, and names that end in a zero byte.

use rustix::io::Errno;

/// A reply's body, or an error.
pub type Answer = Result<Vec<u8>, Errno>;

/// Length of the header of requests.
pub const IN_HEADER: usize = 40;
/// Length of the header of answers.
pub const OUT_HEADER: usize = 16;

/// Reads a request, field by field.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads `bytes` from the beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*field)
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_le_bytes)
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_le_bytes)
    }

    /// Skips `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), Errno> {
        self.0 = self.0.get(count..).ok_or(Errno::INVAL)?;
        Ok(())
    }

    /// The next text, without the zero byte at its end.
    pub fn text(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let (text, rest) = self.0.split_at(end.ok_or(Errno::INVAL)?);
        self.0 = &rest[1..];
        Ok(text)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// Begins every request.
pub struct Header {
    /// Operation.
    pub opcode: u32,
    /// Number of the request, repeated in the reply.
    pub unique: u64,
    /// Node.
    pub node: u64,
}

impl Header {
    /// The header of `request`, and the rest; `None`: it is too short, or its length is wrong.
    pub fn parse(request: &[u8]) -> Option<(Self, Fields<'_>)> {
        let (header, body) = request.split_at_checked(IN_HEADER)?;
        let mut fields = Fields::new(header);
        let len = fields.u32().ok()?;
        let header = Self {
            opcode: fields.u32().ok()?,
            unique: fields.u64().ok()?,
            node: fields.u64().ok()?,
        };
        (usize::try_from(len) == Ok(request.len())).then_some((header, Fields::new(body)))
    }
}

/// Appends numbers to an answer.
pub trait Put {
    /// Appends 16 bits.
    fn u16(&mut self, value: u16);
    /// Appends 32 bits.
    fn u32(&mut self, value: u32);
    /// Appends 64 bits.
    fn u64(&mut self, value: u64);
    /// Appends `count` zero bytes.
    fn zeroes(&mut self, count: usize);
}

impl Put for Vec<u8> {
    fn u16(&mut self, value: u16) {
        self.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend(value.to_le_bytes());
    }

    fn zeroes(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }
}

/// The supported opcodes.
pub mod op {
    /// Finds a name in a folder.
    pub const LOOKUP: u32 = 1;
    /// Forgets lookups; no reply.
    pub const FORGET: u32 = 2;
    /// Attributes of a node.
    pub const GETATTR: u32 = 3;
    /// Changes attributes.
    pub const SETATTR: u32 = 4;
    /// Target of a symbolic link.
    pub const READLINK: u32 = 5;
    /// Makes a symbolic link.
    pub const SYMLINK: u32 = 6;
    /// Makes a file.
    pub const MKNOD: u32 = 8;
    /// Makes a folder.
    pub const MKDIR: u32 = 9;
    /// Removes a name that is not a folder.
    pub const UNLINK: u32 = 10;
    /// Removes an empty folder.
    pub const RMDIR: u32 = 11;
    /// Renames.
    pub const RENAME: u32 = 12;
    /// Makes a second name of a file.
    pub const LINK: u32 = 13;
    /// Opens a file.
    pub const OPEN: u32 = 14;
    /// Reads a file.
    pub const READ: u32 = 15;
    /// Writes to a file.
    pub const WRITE: u32 = 16;
    /// About the file system.
    pub const STATFS: u32 = 17;
    /// Closes a file.
    pub const RELEASE: u32 = 18;
    /// Puts a file on stable storage.
    pub const FSYNC: u32 = 20;
    /// A descriptor of a file was closed.
    pub const FLUSH: u32 = 25;
    /// Begins a session.
    pub const INIT: u32 = 26;
    /// Opens a folder.
    pub const OPENDIR: u32 = 27;
    /// Lists a folder.
    pub const READDIR: u32 = 28;
    /// Closes a folder.
    pub const RELEASEDIR: u32 = 29;
    /// Puts a folder on stable storage.
    pub const FSYNCDIR: u32 = 30;
    /// Makes a file and opens it.
    pub const CREATE: u32 = 35;
    /// Interrupts another request; no reply.
    pub const INTERRUPT: u32 = 36;
    /// Ends a session.
    pub const DESTROY: u32 = 38;
    /// Forgets lookups of several nodes; no reply.
    pub const BATCH_FORGET: u32 = 42;
    /// Renames with options.
    pub const RENAME2: u32 = 45;
    /// Puts everything on stable storage.
    pub const SYNCFS: u32 = 50;
}
