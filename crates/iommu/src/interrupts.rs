//! Interrupts of the IOMMU: pending bits (`ipsr`), vectors (`icvec`), and how they are told: by
//! wires, or by messages out of a table (`msi_cfg_tbl`).

use serde::{Deserialize, Serialize};

use crate::queue::csr;
use crate::registers::FCTL_WSI;
use crate::{Iommu, WIRES};

/// Entries of the message table: the vectors that `icvec` can name.
const VECTORS: usize = 4;

/// What interrupts; the value is its bit in `ipsr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command queue.
    Commands = 0,
    /// The fault queue.
    Faults = 1,
    /// A counter has overflowed.
    Counters = 2,
    /// The page-request queue.
    Pages = 3,
}

impl Source {
    const ALL: [Self; 4] = [Self::Commands, Self::Faults, Self::Counters, Self::Pages];
}

/// An entry of the message table.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Message {
    address: u64,
    data: u32,
    masked: bool,
    pending: bool,
}

/// Registers.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Interrupts {
    pending: u32,
    vectors: u64,
    table: [Message; VECTORS],
}

impl Interrupts {
    /// `icvec` has four bits for each source, and there are four vectors.
    const ICVEC: u64 = 0x3333;

    fn vector(&self, source: Source) -> usize {
        (self.vectors >> (4 * source as u32) & 3) as usize
    }

    pub fn pending(&self) -> u32 {
        self.pending
    }

    pub fn vectors(&self) -> u64 {
        self.vectors
    }

    pub fn set_vectors(&mut self, value: u64) {
        self.vectors = value & Self::ICVEC;
    }

    /// The word at an offset in the message table.
    pub fn load(&self, offset: u64) -> u32 {
        let Some(message) = self.table.get((offset / 16) as usize) else {
            return 0;
        };
        match offset % 16 {
            0 => message.address as u32,
            4 => (message.address >> 32) as u32,
            8 => message.data,
            _ => message.masked.into(),
        }
    }
}

impl Iommu {
    /// A store to a word of the message table.
    pub(crate) fn store_message_entry(&mut self, offset: u64, value: u32) {
        let index = (offset / 16) as usize;
        let Some(message) = self.state.interrupts.table.get_mut(index) else {
            return;
        };
        let address = message.address;
        match offset % 16 {
            0 => message.address = address & !0xffff_ffff | u64::from(value & !3),
            // Addresses have 56 bits.
            4 => message.address = address & 0xffff_ffff | u64::from(value & 0xff_ffff) << 32,
            8 => message.data = value,
            _ => {
                message.masked = value & 1 != 0;
                if !message.masked && std::mem::take(&mut message.pending) {
                    self.send(index);
                }
            }
        }
    }

    /// Something happened that `source` interrupts for, if it is allowed to.
    pub(crate) fn raise(&mut self, source: Source) {
        let queue = self.state.queue(source);
        if queue.is_some_and(|queue| queue.csr() & csr::INTERRUPT == 0) {
            return;
        }
        let bit = 1 << source as u32;
        if self.state.interrupts.pending & bit == 0 {
            self.state.interrupts.pending |= bit;
            if self.state.fctl & FCTL_WSI == 0 {
                self.send(self.state.interrupts.vector(source));
            }
        }
        self.drive();
    }

    /// A store to `ipsr`: ones clear bits, which come back if their cause is still there.
    pub(crate) fn clear_pending(&mut self, value: u32) {
        self.state.interrupts.pending &= !value;
        if self.state.commands.interrupts_for(csr::COMMAND_ERRORS) {
            self.raise(Source::Commands);
        }
        if self.state.faults.interrupts_for(csr::RECORD_ERRORS) {
            self.raise(Source::Faults);
        }
        if self.state.pages.interrupts_for(csr::RECORD_ERRORS) {
            self.raise(Source::Pages);
        }
        self.drive();
    }

    /// Sends the message of a vector, or keeps it until it is not masked any more.
    fn send(&mut self, vector: usize) {
        let message = &mut self.state.interrupts.table[vector];
        if message.masked {
            message.pending = true;
            return;
        }
        let (address, data) = (message.address, message.data);
        if self.write_word(address, data).is_none() {
            self.report_own(address);
        }
    }

    /// Drives the wires.
    pub(crate) fn drive(&self) {
        let interrupts = &self.state.interrupts;
        let mut levels = [false; WIRES];
        if self.state.fctl & FCTL_WSI != 0 {
            for source in Source::ALL {
                levels[interrupts.vector(source)] |= interrupts.pending >> source as u32 & 1 != 0;
            }
        }
        for (wire, level) in self.wires.iter().zip(levels) {
            wire.set(level);
        }
    }
}
