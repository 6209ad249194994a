//! Queues in memory (section "In-memory queue interface"). Software moves one index, the IOMMU the
//! other.

use serde::{Deserialize, Serialize};

use crate::Iommu;
use crate::interrupts::Source;
use crate::registers::{PPN, address_of};

/// Bits of `cqcsr`, `fqcsr` and `pqcsr`.
pub(crate) mod csr {
    pub const ENABLE: u32 = 1 << 0;
    pub const INTERRUPT: u32 = 1 << 1;
    pub const MEMORY_FAULT: u32 = 1 << 8;
    /// Of the fault and the page-request queue.
    pub const OVERFLOW: u32 = 1 << 9;
    /// Of the command queue.
    pub const TIMEOUT: u32 = OVERFLOW;
    /// Of the command queue, as is the next.
    pub const ILLEGAL: u32 = 1 << 10;
    pub const FENCE: u32 = 1 << 11;
    pub const ON: u32 = 1 << 16;
    /// What a 1 clears in `cqcsr`.
    pub const COMMAND_ERRORS: u32 = MEMORY_FAULT | TIMEOUT | ILLEGAL | FENCE;
    /// What a 1 clears in `fqcsr` and `pqcsr`.
    pub const RECORD_ERRORS: u32 = MEMORY_FAULT | OVERFLOW;
}

/// Largest `LOG2SZ-1`: 2^16 entries.
const LOG2_SIZE: u64 = 15;

/// Registers of a queue.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Queue {
    base: u64,
    head: u32,
    tail: u32,
    csr: u32,
}

/// Why a record is not in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There is no room.
    Full,
    /// The queue is outside memory.
    NoMemory,
}

impl Iommu {
    /// Appends a record to a queue that accepts one, and interrupts.
    pub(crate) fn append(&mut self, source: Source, record: &[u64]) -> Result<(), Lost> {
        let Some(queue) = self.state.queue(source) else {
            return Ok(());
        };
        let place = queue.tail_address(8 * record.len() as u64);
        let stored = match queue.is_full() {
            true => Err(Lost::Full),
            false => {
                let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.store(place, &bytes).ok_or(Lost::NoMemory)
            }
        };
        if let Some(queue) = self.state.queue(source) {
            match stored {
                Ok(()) => queue.advance_tail(),
                Err(Lost::Full) => queue.set_overflow(),
                Err(Lost::NoMemory) => queue.set_memory_fault(),
            }
        }
        self.raise(source);
        stored
    }
}

impl Queue {
    pub fn is_sound(&self) -> bool {
        self.base & 0x1f <= LOG2_SIZE && (self.head | self.tail) & !self.mask() == 0
    }

    fn mask(&self) -> u32 {
        (2 << (self.base & 0x1f)) - 1
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    /// Sets the base register; not while the queue is on.
    pub fn set_base(&mut self, value: u64) {
        if self.csr & csr::ON == 0 {
            self.base = value & PPN << 10 | (value & 0x1f).min(LOG2_SIZE);
            (self.head, self.tail) = (0, 0);
        }
    }

    pub fn head(&self) -> u32 {
        self.head
    }

    pub fn tail(&self) -> u32 {
        self.tail
    }

    pub fn set_head(&mut self, value: u32) {
        self.head = value & self.mask();
    }

    pub fn set_tail(&mut self, value: u32) {
        self.tail = value & self.mask();
    }

    pub fn csr(&self) -> u32 {
        self.csr
    }

    /// A store to `cqcsr`, `fqcsr` or `pqcsr`, with these bits of errors, which a 1 clears. Answers
    /// whether it switched the queue on, which sets the IOMMU's own index to 0.
    #[must_use]
    pub fn set_csr(&mut self, value: u32, errors: u32) -> bool {
        let was_on = self.csr & csr::ON != 0;
        let on = value & csr::ENABLE != 0;
        let mut new = value & (csr::ENABLE | csr::INTERRUPT);
        new |= self.csr & errors & !value;
        if on {
            new |= csr::ON;
            if !was_on {
                new &= !errors;
            }
        }
        self.csr = new;
        on && !was_on
    }

    pub fn is_on(&self) -> bool {
        self.csr & csr::ON != 0
    }

    pub fn has_memory_fault(&self) -> bool {
        self.csr & csr::MEMORY_FAULT != 0
    }

    pub fn has_overflow(&self) -> bool {
        self.csr & csr::OVERFLOW != 0
    }

    /// Whether it is on and has no error.
    pub fn accepts(&self) -> bool {
        let errors = csr::MEMORY_FAULT | csr::OVERFLOW | csr::ILLEGAL;
        self.is_on() && self.csr & errors == 0
    }

    /// Whether one of these bits, and interrupts, are set.
    pub fn interrupts_for(&self, bits: u32) -> bool {
        self.csr & bits != 0 && self.csr & csr::INTERRUPT != 0
    }

    pub fn set_memory_fault(&mut self) {
        self.csr |= csr::MEMORY_FAULT;
    }

    pub fn set_overflow(&mut self) {
        self.csr |= csr::OVERFLOW;
    }

    pub fn set_timeout(&mut self) {
        self.csr |= csr::TIMEOUT;
    }

    pub fn set_illegal(&mut self) {
        self.csr |= csr::ILLEGAL;
    }

    pub fn set_fence(&mut self) {
        self.csr |= csr::FENCE;
    }

    pub fn is_full(&self) -> bool {
        self.tail.wrapping_add(1) & self.mask() == self.head
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Where the entry at the head is.
    pub fn head_address(&self, entry: u64) -> u64 {
        address_of(self.base).wrapping_add(u64::from(self.head) * entry)
    }

    /// Where the next entry goes.
    pub fn tail_address(&self, entry: u64) -> u64 {
        address_of(self.base).wrapping_add(u64::from(self.tail) * entry)
    }

    pub fn advance_head(&mut self) {
        self.head = self.head.wrapping_add(1) & self.mask();
    }

    pub fn advance_tail(&mut self) {
        self.tail = self.tail.wrapping_add(1) & self.mask();
    }
}
