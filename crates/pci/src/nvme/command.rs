//! Commands and their completions (NVM Express Base 1.4, sections 4.2 and 4.6).

use trapless_devices::value_le;

/// Bytes of a command.
pub(super) const LEN: usize = 64;
/// Bytes of a completion.
pub(super) const COMPLETION_LEN: usize = 16;

/// A command.
#[derive(Clone, Copy)]
pub(super) struct Command(pub [u8; LEN]);

impl Command {
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// Whether it is one of two that belong together, or its data is described by an SGL: neither
    /// is supported.
    pub fn is_special(&self) -> bool {
        self.0[1] & 0b1100_0011 != 0
    }

    pub fn id(&self) -> u16 {
        (self.word(0) >> 16) as u16
    }

    pub fn namespace(&self) -> u32 {
        self.word(1)
    }

    /// The two PRP entries.
    pub fn prp(&self) -> [u64; 2] {
        [24, 32].map(|at| value_le(&self.0[at..at + 8]))
    }

    /// Word `index`, of which 10 is the first one that depends on the command.
    pub fn word(&self, index: usize) -> u32 {
        value_le(&self.0[4 * index..4 * index + 4]) as u32
    }

    /// Words `index` and the next one.
    pub fn long(&self, index: usize) -> u64 {
        value_le(&self.0[4 * index..4 * index + 8])
    }
}

/// Why a command failed: status code type and status code (section 4.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failure(u16);

/// Status codes that this controller has.
impl Failure {
    pub const OPCODE: Self = Self(0x001);
    pub const FIELD: Self = Self(0x002);
    pub const DATA_TRANSFER: Self = Self(0x004);
    pub const ABORTED: Self = Self(0x007);
    pub const NAMESPACE: Self = Self(0x00b);
    pub const SEQUENCE: Self = Self(0x00c);
    pub const PRP_OFFSET: Self = Self(0x013);
    pub const WRITE_PROTECTED: Self = Self(0x020);
    pub const LBA_RANGE: Self = Self(0x080);
    pub const COMPLETION_QUEUE: Self = Self(0x100);
    pub const QUEUE_ID: Self = Self(0x101);
    pub const QUEUE_SIZE: Self = Self(0x102);
    pub const EVENT_LIMIT: Self = Self(0x105);
    pub const VECTOR: Self = Self(0x108);
    pub const LOG_PAGE: Self = Self(0x109);
    pub const QUEUE_DELETION: Self = Self(0x10c);
    pub const NOT_SAVEABLE: Self = Self(0x10d);
    pub const WRITE_FAULT: Self = Self(0x280);
    pub const READ_ERROR: Self = Self(0x281);

    /// The status field of its completion. It says "do not retry" where the same command would
    /// fail again.
    pub fn field(self) -> u16 {
        const DO_NOT_RETRY: u16 = 1 << 14;
        match self {
            Self::ABORTED | Self::DATA_TRANSFER => self.0,
            _ => self.0 | DO_NOT_RETRY,
        }
    }
}

/// What became of a command that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Done {
    /// It is complete, with this result.
    Now(u32),
    /// It waits for an event.
    Waiting,
}

/// Of most commands.
pub(super) const DONE: Done = Done::Now(0);

/// A completion.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub result: u32,
    /// The submission queue, and where its head is.
    pub queue: u16,
    pub head: u16,
    pub command: u16,
    /// Status field.
    pub status: u16,
}

impl Completion {
    /// As in a queue with this phase.
    pub fn bytes(&self, phase: bool) -> [u8; COMPLETION_LEN] {
        let mut bytes = [0; COMPLETION_LEN];
        bytes[..4].copy_from_slice(&self.result.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.head.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.queue.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.command.to_le_bytes());
        let status = self.status << 1 | u16::from(phase);
        bytes[14..].copy_from_slice(&status.to_le_bytes());
        bytes
    }
}
