//! MSI (PCI Express Base 5.0, sections 6.1.4 and 7.7.1): one message, whose lowest bits of data say
//! which of several interrupts it is. It has no masks, and all that software says of it is in the
//! configuration space.

use crate::config::{Capability, Config};
use crate::msix::Send;

/// ID of the capability.
const ID: u8 = 0x05;
/// Most interrupts of a function.
pub(crate) const MAX_VECTORS: u16 = 32;

/// Bits of message control: enable, how many the function can use, how many it may, both as powers
/// of two, and that the address has 64 bits.
const ENABLE: u16 = 1 << 0;
const CAPABLE: u32 = 1;
const GRANTED: u32 = 4;
const GRANTED_MASK: u16 = 0b111 << GRANTED;
const WIDE: u16 = 1 << 7;

/// Places in the capability.
const CONTROL: usize = 2;
const ADDRESS: usize = 4;
const DATA: usize = 12;

/// What the configuration space says.
#[derive(Default)]
pub(crate) struct Msi {
    enabled: bool,
    granted: u16,
    address: u64,
    data: u16,
}

impl Msi {
    /// The capability of a function with so many interrupts.
    ///
    /// # Panics
    /// If it is not a power of two up to [`MAX_VECTORS`]: a mistake in the function.
    pub fn capability(vectors: u16) -> Capability {
        assert!(
            vectors.is_power_of_two() && vectors <= MAX_VECTORS,
            "vectors of MSI"
        );
        let control = WIDE | (vectors.trailing_zeros() as u16) << CAPABLE;
        let mut body = vec![0; DATA];
        body[..2].copy_from_slice(&control.to_le_bytes());
        let mut writable = vec![0xff; DATA];
        writable[..2].copy_from_slice(&(ENABLE | GRANTED_MASK).to_le_bytes());
        // Messages are aligned words.
        writable[ADDRESS - CONTROL] = 0xfc;
        Capability {
            id: ID,
            body,
            writable,
        }
    }

    /// What the capability at `at` says now.
    pub fn of(config: &Config, at: usize) -> Self {
        let control = config.u16(at + CONTROL);
        let half = |at| u64::from(config.u32(at));
        let granted = (control & GRANTED_MASK) >> GRANTED;
        Self {
            enabled: control & ENABLE != 0,
            // Six and seven are reserved.
            granted: (1 << granted).min(MAX_VECTORS),
            address: half(at + ADDRESS + 4) << 32 | half(at + ADDRESS),
            data: config.u16(at + DATA),
        }
    }

    /// Whether the function interrupts by messages.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// The function interrupts by `vector`. One that was not granted is nothing, and neither is one
    /// that cannot be sent now: there are no pending bits.
    pub fn signal(&self, vector: u16, send: Send<'_>) {
        if self.enabled && vector < self.granted {
            let data = self.data & !(self.granted - 1) | vector;
            send(self.address, data.into());
        }
    }
}
