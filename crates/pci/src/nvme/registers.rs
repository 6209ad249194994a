//! Registers of a controller (NVM Express Base 1.4, section 3.1).

use trapless_devices::{StateError, StateReader, StateWriter};

use super::prp::PAGE;
use super::queues::{MAX_ENTRIES, Ring};

/// Version 1.4.0.
pub(super) const VERSION: u32 = 0x0001_0400;

/// Where doorbells begin: one for each queue, those of a pair beside each other.
pub(super) const DOORBELLS: u64 = 0x1000;

/// Entries up to `MAX_ENTRIES`, contiguous queues only, a second until it is ready, the NVM command
/// set, pages of 4 KiB.
const CAPABILITIES: u64 = (MAX_ENTRIES as u64 - 1) | 1 << 16 | 2 << 24 | 1 << 37;

/// Bits of CC.
pub(super) mod cc {
    pub const ENABLE: u32 = 1 << 0;
    /// Command set, page size and arbitration, of which there is one each: 0.
    pub const CHOICES: u32 = 0x3ff0;
    pub const SHUTDOWN: u32 = 0b11 << 14;
    /// Sizes of entries for I/O, as powers of two.
    pub const ENTRY_SIZES: u32 = 0xff << 16;
    /// 64 and 16 bytes.
    pub const RIGHT_SIZES: u32 = 6 << 16 | 4 << 20;
}

/// Bits of CSTS.
pub(super) mod csts {
    pub const READY: u32 = 1 << 0;
    pub const FATAL: u32 = 1 << 1;
    /// Shutdown is complete.
    pub const SHUT_DOWN: u32 = 0b10 << 2;
}

/// What the owner has written, and the status.
#[derive(Clone, Default)]
pub(super) struct Registers {
    pub cc: u32,
    pub csts: u32,
    /// Masked interrupts (INTMS, INTMC).
    pub masked: u32,
    pub aqa: u32,
    pub asq: u64,
    pub acq: u64,
}

/// A register that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Register {
    MaskSet,
    MaskClear,
    Configuration,
    AdminSizes,
    /// Half of an address; `high`: the upper one.
    AdminSubmissions {
        high: bool,
    },
    AdminCompletions {
        high: bool,
    },
}

impl Register {
    /// That of the word at `offset`.
    pub fn at(offset: u64) -> Option<Self> {
        let high = offset & 4 != 0;
        Some(match offset {
            0x0c => Self::MaskSet,
            0x10 => Self::MaskClear,
            0x14 => Self::Configuration,
            0x24 => Self::AdminSizes,
            0x28 | 0x2c => Self::AdminSubmissions { high },
            0x30 | 0x34 => Self::AdminCompletions { high },
            _ => return None,
        })
    }
}

impl Registers {
    /// The word at `offset`; 0 where there is no register.
    pub fn read(&self, offset: u64) -> u32 {
        let half = |value: u64| match offset & 4 {
            0 => value as u32,
            _ => (value >> 32) as u32,
        };
        match offset {
            0x00 | 0x04 => half(CAPABILITIES),
            0x08 => VERSION,
            0x0c | 0x10 => self.masked,
            0x14 => self.cc,
            0x1c => self.csts,
            0x24 => self.aqa,
            0x28 | 0x2c => half(self.asq),
            0x30 | 0x34 => half(self.acq),
            _ => 0,
        }
    }

    /// The administrator's queues, submissions first; `None`: they, or other things that the owner
    /// has chosen, are not possible.
    pub fn admin_queues(&self) -> Option<[Ring; 2]> {
        let rings = [(self.asq, self.aqa), (self.acq, self.aqa >> 16)];
        let rings = rings.map(|(base, size)| Ring::new(base, (size & 0xfff) + 1));
        let possible = |ring: &Ring| ring.base % PAGE == 0 && ring.entries >= 2;
        (self.cc & cc::CHOICES == 0 && rings.iter().all(possible)).then_some(rings)
    }

    pub fn save(&self, to: &mut StateWriter) {
        for number in [self.cc, self.csts, self.masked, self.aqa] {
            to.number(number);
        }
        to.number(self.asq);
        to.number(self.acq);
    }

    pub fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        Ok(Self {
            cc: from.number()?,
            csts: from.number()?,
            masked: from.number()?,
            aqa: from.number()?,
            asq: from.number()?,
            acq: from.number()?,
        })
    }
}
