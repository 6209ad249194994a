//! MSI-X (PCI Express Base 5.0, sections 6.1.4 and 7.7.2): a table of messages in a BAR, and one
//! pending bit for each.

use trapless_devices::{StateError, StateReader, StateWriter};

use crate::config::{Bar, BarKind, Capability};

/// ID of the capability.
const ID: u8 = 0x11;
/// Bytes of an entry of the table.
const ENTRY: usize = 16;
/// Where the pending bits are in the BAR.
const PENDING: u64 = 0x800;
/// Length of the BAR.
const LEN: u64 = 0x1000;
/// Most vectors: their entries end where the pending bits begin.
pub(crate) const MAX_VECTORS: u16 = (PENDING / ENTRY as u64) as u16;

/// Bits of message control.
const MASK_ALL: u16 = 1 << 14;
const ENABLE: u16 = 1 << 15;

/// One entry of the table.
#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    data: u32,
    masked: bool,
    pending: bool,
}

/// After reset.
const RESET: Entry = Entry {
    address: 0,
    data: 0,
    masked: true,
    pending: false,
};

impl Entry {
    fn bytes(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.data.to_le_bytes());
        bytes[12] = self.masked.into();
        bytes
    }

    fn set(&mut self, bytes: [u8; ENTRY]) {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        // Messages are aligned words: the lowest two bits of the address are zero.
        self.address = (u64::from(word(4)) << 32 | u64::from(word(0))) & !3;
        self.data = word(8);
        self.masked = word(12) & 1 != 0;
    }
}

/// Sends a message, address and data, unless that is not allowed now: then it stays pending.
pub(crate) type Send<'a> = &'a mut dyn FnMut(u64, u32) -> bool;

/// The table of a function, its pending bits, and what message control says.
pub(crate) struct Msix {
    entries: Vec<Entry>,
    enabled: bool,
    masked: bool,
}

impl Msix {
    /// A table of `vectors`, 1..=[`MAX_VECTORS`].
    ///
    /// # Panics
    /// If it has another size: a mistake in the function.
    pub fn new(vectors: u16) -> Self {
        assert!((1..=MAX_VECTORS).contains(&vectors), "vectors of MSI-X");
        Self {
            entries: vec![RESET; vectors.into()],
            enabled: false,
            masked: false,
        }
    }

    /// The BAR that the table is in.
    pub fn bar(index: u8) -> Bar {
        Bar {
            index,
            kind: BarKind::Memory32,
            size: LEN,
        }
    }

    /// Its capability, with the table in BAR `index`.
    pub fn capability(&self, index: u8) -> Capability {
        let control = self.entries.len() as u16 - 1;
        let table = u32::from(index);
        let pending = PENDING as u32 | u32::from(index);
        let body = [
            &control.to_le_bytes()[..],
            &table.to_le_bytes(),
            &pending.to_le_bytes(),
        ];
        Capability {
            id: ID,
            body: body.concat(),
            writable: (MASK_ALL | ENABLE).to_le_bytes().into(),
        }
    }

    /// Whether the function interrupts by messages.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Message control is now `value`.
    pub fn control(&mut self, value: u16, send: Send<'_>) {
        self.enabled = value & ENABLE != 0;
        self.masked = value & MASK_ALL != 0;
        self.send_pending(send);
    }

    /// The function interrupts by `vector`.
    pub fn signal(&mut self, vector: u16, send: Send<'_>) {
        if !self.enabled {
            return;
        }
        if let Some(entry) = self.entries.get_mut(usize::from(vector)) {
            entry.pending = true;
            self.send_pending(send);
        }
    }

    /// Sends what is pending and not masked any more.
    fn send_pending(&mut self, send: Send<'_>) {
        if !self.enabled || self.masked {
            return;
        }
        for entry in &mut self.entries {
            if entry.pending && !entry.masked {
                entry.pending = !send(entry.address, entry.data);
            }
        }
    }

    /// Reads the BAR.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = self.byte(at);
        }
    }

    fn byte(&self, at: u64) -> u8 {
        if let Some(at) = at.checked_sub(PENDING) {
            let first = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(8);
            let bits = self.entries.iter().skip(first).take(8).enumerate();
            return bits.fold(0, |bits, (n, entry)| bits | u8::from(entry.pending) << n);
        }
        let entry = self.entries.get(at as usize / ENTRY);
        entry.map_or(0, |entry| entry.bytes()[at as usize % ENTRY])
    }

    /// Writes the BAR; pending bits are read-only.
    pub fn write(&mut self, offset: u64, data: &[u8], send: Send<'_>) {
        for (at, byte) in (offset..PENDING).zip(data) {
            if let Some(entry) = self.entries.get_mut(at as usize / ENTRY) {
                let mut bytes = entry.bytes();
                bytes[at as usize % ENTRY] = *byte;
                entry.set(bytes);
            }
        }
        self.send_pending(send);
    }

    /// As after reset.
    pub fn reset(&mut self) {
        *self = Self::new(self.entries.len() as u16);
    }

    /// Appends the table; message control is in the configuration space.
    pub fn save(&self, to: &mut StateWriter) {
        for entry in &self.entries {
            to.number(entry.address);
            to.number(entry.data);
            to.number(entry.masked);
            to.number(entry.pending);
        }
    }

    /// Takes over what [`save`](Self::save) wrote, and `control`.
    ///
    /// # Errors
    /// [`StateError`] if it is no such table.
    pub fn restore(&mut self, control: u16, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for entry in &mut self.entries {
            *entry = Entry {
                address: from.number::<u64>()? & !3,
                data: from.number()?,
                masked: from.flag()?,
                pending: from.flag()?,
            };
        }
        self.enabled = control & ENABLE != 0;
        self.masked = control & MASK_ALL != 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a masked vector stays pending and is sent once when both masks are off; nothing is
    /// sent while MSI-X is disabled.
    #[test]
    fn masked_messages_are_sent_once_later() {
        let mut msix = Msix::new(3);
        let mut sent = Vec::new();
        let mut log = |address, data| {
            sent.push((address, data));
            true
        };
        msix.write(16, &0x2800_0003_u64.to_le_bytes(), &mut log);
        msix.write(24, &[7, 0, 0, 0], &mut log);
        msix.signal(1, &mut log);
        msix.control(ENABLE | MASK_ALL, &mut log);
        msix.signal(1, &mut log);
        msix.signal(1, &mut log);
        msix.signal(9, &mut log);
        let mut bits = [0xff; 8];
        msix.read(PENDING, &mut bits);
        assert_eq!(bits, [2, 0, 0, 0, 0, 0, 0, 0]);
        msix.write(28, &[0; 4], &mut log);
        assert!(sent.is_empty(), "the function is masked");
        let mut log = |address, data| {
            sent.push((address, data));
            true
        };
        msix.control(ENABLE, &mut log);
        msix.control(ENABLE, &mut log);
        msix.signal(1, &mut log);
        assert_eq!(sent, [(0x2800_0000, 7); 2]);
        msix.read(PENDING, &mut bits);
        assert_eq!(bits, [0; 8]);
    }

    /// Promise: accesses of any width at any place touch the table only.
    #[test]
    fn the_rest_of_the_bar_is_zero_and_stays_so() {
        let mut msix = Msix::new(2);
        let mut none = |_, _| unreachable!("it is disabled");
        msix.write(30, &[0xff; 8], &mut none);
        msix.write(LEN - 4, &[0xff; 8], &mut none);
        let mut data = [0xff; 8];
        msix.read(30, &mut data);
        assert_eq!(data, [0; 8], "reserved bits of vector control");
        msix.read(LEN - 4, &mut data);
        assert_eq!(data, [0; 8]);
    }
}
