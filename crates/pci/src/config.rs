//! Configuration space of a function (PCI Express Base 5.0, sections 7.5 to 7.7): bytes, and which
//! bits of them software can write.

use trapless_devices::{StateError, StateReader, StateWriter};

/// Bytes of a configuration space.
const LEN: usize = 4096;
/// Where capabilities begin.
const CAPABILITIES: usize = 0x40;
/// Where they have to end, and extended ones begin.
const EXTENDED: usize = 0x100;
/// Registers of BARs.
const BARS: usize = 6;

/// Offsets of registers that all functions have.
pub(crate) mod register {
    pub const COMMAND: usize = 0x04;
    pub const STATUS: usize = 0x06;
    pub const BAR: usize = 0x10;
    pub const CAPABILITIES: usize = 0x34;
    pub const LINE: usize = 0x3c;
    pub const PIN: usize = 0x3d;
}

/// Bits of the command register.
pub(crate) mod command {
    pub const MEMORY: u16 = 1 << 1;
    pub const MASTER: u16 = 1 << 2;
    pub const PARITY: u16 = 1 << 6;
    pub const SERR: u16 = 1 << 8;
    pub const INTX_DISABLE: u16 = 1 << 10;
}

/// Bits of the status register.
mod status {
    pub const INTX: u16 = 1 << 3;
    pub const CAPABILITIES: u16 = 1 << 4;
}

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Revision.
    pub revision: u8,
    /// Class code: base class, sub-class and interface, 24 bits.
    pub class: u32,
    /// Subsystem vendor.
    pub subsystem_vendor: u16,
    /// Subsystem.
    pub subsystem: u16,
}

/// Kinds of BARs. There are none of I/O ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// Below 4 GiB.
    Memory32,
    /// Anywhere, prefetchable; takes two registers.
    Memory64,
}

/// A region of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Number of its (first) register, 0..=5.
    pub index: u8,
    /// Where it may lie.
    pub kind: BarKind,
    /// Its length in bytes, a power of two, at least 16.
    pub size: u64,
}

/// What the registers of a BAR hold.
pub(crate) struct BarRegisters {
    /// Their offset from the first register of BARs.
    pub at: usize,
    /// Their bytes before an address is written.
    pub value: Vec<u8>,
    /// Bits that software can write.
    pub writable: Vec<u8>,
}

impl Bar {
    /// Its registers.
    ///
    /// # Panics
    /// If it is none: a mistake in the function.
    pub(crate) fn registers(&self) -> BarRegisters {
        let wide = self.kind == BarKind::Memory64;
        assert!(
            self.size.is_power_of_two() && self.size >= 16,
            "a BAR's size"
        );
        assert!(
            usize::from(self.index) + usize::from(wide) < BARS,
            "six registers of BARs"
        );
        let writable = (!(self.size - 1)).to_le_bytes();
        let len = if wide { 8 } else { 4 };
        let mut value = vec![0; len];
        if wide {
            // 64 bits wide, prefetchable.
            value[0] = 0b1100;
        }
        BarRegisters {
            at: 4 * usize::from(self.index),
            value,
            writable: writable[..len].to_vec(),
        }
    }
}

/// A capability, without its header of ID and next pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Its ID.
    pub id: u8,
    /// What follows the header.
    pub body: Vec<u8>,
    /// Which bits of that software can write; what is missing at the end, it cannot.
    pub writable: Vec<u8>,
}

/// An extended capability (section 7.6.3) of version 1, without its header.
pub(crate) struct Extended {
    pub id: u16,
    /// As in [`Capability`].
    pub body: Vec<u8>,
    pub writable: Vec<u8>,
}

/// See the [module](self).
pub(crate) struct Config {
    bytes: Box<[u8; LEN]>,
    /// Bits that software can write.
    writable: Box<[u8; LEN]>,
    /// As after reset.
    initial: Box<[u8; LEN]>,
    bars: Vec<Bar>,
    /// Where the next capability goes, and the pointer that leads there.
    next: usize,
    link: usize,
    /// Where the last extended capability is, if there is one, and where the next one goes.
    last_extended: Option<usize>,
    next_extended: usize,
}

impl Config {
    /// That of a function with these regions, which interrupts by INTA if it `interrupts`.
    ///
    /// # Panics
    /// If a BAR is none: a mistake in the function.
    pub fn new(identity: &Identity, bars: &[Bar], interrupts: bool) -> Self {
        let mut config = Self::empty(identity, bars);
        config.put(0, &identity.vendor.to_le_bytes());
        config.put(2, &identity.device.to_le_bytes());
        let enables = command::MEMORY | command::MASTER | command::PARITY | command::SERR;
        let enables = enables | command::INTX_DISABLE;
        config.allow(register::COMMAND, &enables.to_le_bytes());
        if interrupts {
            config.put(register::PIN, &[1]);
            config.allow(register::LINE, &[0xff]);
        }
        for bar in bars {
            config.add_bar(bar);
        }
        config.initial = config.bytes.clone();
        config
    }

    /// That of a virtual function (section 9.3.4): what it is stands in the SR-IOV capability of
    /// its physical function, as do its BARs, and it has no wire.
    pub fn of_virtual(identity: &Identity) -> Self {
        let mut config = Self::empty(identity, &[]);
        config.put(0, &[0xff; 4]);
        config.allow(register::COMMAND, &command::MASTER.to_le_bytes());
        config.initial = config.bytes.clone();
        config
    }

    fn empty(identity: &Identity, bars: &[Bar]) -> Self {
        let mut config = Self {
            bytes: Box::new([0; LEN]),
            writable: Box::new([0; LEN]),
            initial: Box::new([0; LEN]),
            bars: bars.to_vec(),
            next: CAPABILITIES,
            link: register::CAPABILITIES,
            last_extended: None,
            next_extended: EXTENDED,
        };
        let class = identity.class << 8 | u32::from(identity.revision);
        config.put(8, &class.to_le_bytes());
        config.put(0x2c, &identity.subsystem_vendor.to_le_bytes());
        config.put(0x2e, &identity.subsystem.to_le_bytes());
        config
    }

    fn add_bar(&mut self, bar: &Bar) {
        let registers = bar.registers();
        let at = register::BAR + registers.at;
        self.put(at, &registers.value);
        self.allow(at, &registers.writable);
    }

    /// Adds an extended capability; returns where it is.
    ///
    /// # Panics
    /// If there is no room: a mistake in the function.
    pub fn extend(&mut self, capability: &Extended) -> usize {
        let at = self.next_extended;
        let header = u32::from(capability.id) | 1 << 16;
        self.put(at, &header.to_le_bytes());
        self.put(at + 4, &capability.body);
        self.allow(at + 4, &capability.writable);
        if let Some(last) = self.last_extended {
            // Bits 31:20 of the header say where the next one is.
            let link = (at as u16) << 4 | self.u16(last + 2);
            self.set_u16(last + 2, link);
        }
        self.last_extended = Some(at);
        self.next_extended = (at + 4 + capability.body.len()).next_multiple_of(4);
        self.initial = self.bytes.clone();
        at
    }

    /// Adds a capability; returns where it is.
    ///
    /// # Panics
    /// If there is no room: a mistake in the function.
    pub fn add(&mut self, capability: &Capability) -> usize {
        let at = self.next;
        let end = at + 2 + capability.body.len();
        assert!(end <= EXTENDED, "no room for capabilities");
        self.put(at, &[capability.id, 0]);
        self.put(at + 2, &capability.body);
        self.allow(at + 2, &capability.writable);
        self.put(self.link, &[at as u8]);
        let status = self.u16(register::STATUS) | status::CAPABILITIES;
        self.put(register::STATUS, &status.to_le_bytes());
        self.link = at + 1;
        self.next = end.next_multiple_of(4);
        self.initial = self.bytes.clone();
        at
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    /// The 16-bit register at `at`.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// The 32-bit register at `at`.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    /// Sets the 16-bit register at `at`, whether software can write it or not.
    pub fn set_u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    /// Clears bits of the 16-bit register at `at`.
    pub fn clear(&mut self, at: usize, bits: u16) {
        self.set_u16(at, self.u16(at) & !bits);
    }

    /// Shows whether INTx is asserted.
    pub fn show_intx(&mut self, asserted: bool) {
        let bit = if asserted { status::INTX } else { 0 };
        let status = self.u16(register::STATUS) & !status::INTX | bit;
        self.put(register::STATUS, &status.to_le_bytes());
    }

    /// Reads; bytes beyond the end are all ones.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    /// Writes what can be written.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        for (at, byte) in (offset..LEN).zip(data) {
            let writable = self.writable[at];
            self.bytes[at] = self.bytes[at] & !writable | byte & writable;
        }
    }

    /// Regions, with the bus addresses that they have been given. None if memory is disabled.
    pub fn regions(&self) -> impl Iterator<Item = (Bar, u64)> + '_ {
        let enabled = self.u16(register::COMMAND) & command::MEMORY != 0;
        let bars = self.bars.iter().filter(move |_| enabled);
        bars.map(|bar| (*bar, self.bar_address(register::BAR, bar)))
    }

    /// The address in a BAR's registers, of which the first BAR's are at `first`.
    pub fn bar_address(&self, first: usize, bar: &Bar) -> u64 {
        let at = first + 4 * usize::from(bar.index);
        let low = u64::from(self.u32(at)) & !0xf;
        match bar.kind {
            BarKind::Memory32 => low,
            BarKind::Memory64 => u64::from(self.u32(at + 4)) << 32 | low,
        }
    }

    /// Makes everything as after reset.
    pub fn reset(&mut self) {
        self.bytes = self.initial.clone();
    }

    /// Appends what software has written.
    pub fn save(&self, to: &mut StateWriter) {
        let written = self.bytes.iter().zip(&*self.writable);
        let written = written.filter(|(_, writable)| **writable != 0);
        to.bytes(&written.map(|(byte, _)| *byte).collect::<Vec<_>>());
    }

    /// Takes over what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a configuration space.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let places: Vec<usize> = (0..LEN).filter(|at| self.writable[*at] != 0).collect();
        let saved = from.bytes(places.len())?;
        if saved.len() != places.len() {
            return Err(StateError("has another configuration space"));
        }
        self.reset();
        for (at, byte) in places.into_iter().zip(saved) {
            self.write(at, std::slice::from_ref(byte));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        vendor: 0x1af4,
        device: 0x1041,
        revision: 1,
        class: 0x02_0000,
        subsystem_vendor: 0x1af4,
        subsystem: 0x1100,
    };

    fn config() -> Config {
        let bars = [
            Bar {
                index: 1,
                kind: BarKind::Memory32,
                size: 0x1000,
            },
            Bar {
                index: 4,
                kind: BarKind::Memory64,
                size: 1 << 34,
            },
        ];
        Config::new(&IDENTITY, &bars, true)
    }

    /// Promise: software finds the sizes of BARs as the specification says (7.5.1.2.1), and a BAR
    /// lies where it was put, whatever the width of the writes.
    #[test]
    fn bars_tell_their_sizes_and_take_addresses() {
        let mut config = config();
        for at in [0x14, 0x20, 0x24] {
            config.write(at, &[0xff; 4]);
        }
        assert_eq!(config.u32(0x14), 0xffff_f000);
        assert_eq!((config.u32(0x20), config.u32(0x24)), (0b1100, 0xffff_fffc));
        config.write(0x10, &[0xff; 4]);
        assert_eq!(config.u32(0x10), 0, "there is no BAR 0");
        config.write(0x20, &0x0000_0009_8765_4321_u64.to_le_bytes());
        (0..4).for_each(|byte| config.write(0x14 + byte, &[0x45 + byte as u8]));
        assert_eq!(config.regions().count(), 0, "memory is disabled");
        config.write(register::COMMAND, &[2]);
        let places: Vec<u64> = config.regions().map(|(_, at)| at).collect();
        assert_eq!(places, [0x4847_4000, 0x8_0000_0000]);
    }

    /// Promise: capabilities are found from the pointer at 0x34 on, and only their writable bits
    /// change.
    #[test]
    fn capabilities_are_linked() {
        let mut config = config();
        let capability = |id, len: usize| Capability {
            id,
            body: vec![id; len],
            writable: vec![0, 0xf0],
        };
        assert_eq!(config.u16(register::STATUS) & 0x10, 0);
        let first = config.add(&capability(9, 7));
        let second = config.add(&capability(0x11, 10));
        assert_eq!(config.u16(register::STATUS), 0x10);
        assert_eq!(config.bytes[0x34], first as u8);
        assert_eq!(config.u16(first), 9 | (second as u16) << 8);
        assert_eq!(config.u16(second), 0x11);
        config.write(second, &[0xff; 12]);
        assert_eq!(config.u32(second), 0xf111_0011);
        config.reset();
        assert_eq!(config.u32(second), 0x1111_0011);
    }

    /// Promise: a space that comes out of a checkpoint has nothing that software cannot write.
    #[test]
    fn restored_spaces_are_as_saved_and_never_impossible() {
        let mut config = config();
        config.write(0, &[0xff; 64]);
        let mut state = StateWriter::default();
        config.save(&mut state);
        let state = state.into_bytes();
        let mut other = self::config();
        other.restore(&mut StateReader::new(&state)).unwrap();
        assert_eq!(other.bytes, config.bytes);
        let mut state = StateWriter::default();
        state.bytes(&vec![0xff; state_len(&config)]);
        let state = state.into_bytes();
        other.restore(&mut StateReader::new(&state)).unwrap();
        assert_eq!(other.bytes, config.bytes);
        let cut = [3, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1];
        assert!(other.restore(&mut StateReader::new(&cut)).is_err());
    }

    fn state_len(config: &Config) -> usize {
        config.writable.iter().filter(|bits| **bits != 0).count()
    }

    /// Promise: no access of any width leaves the space.
    #[test]
    fn accesses_end_where_the_space_ends() {
        let mut config = config();
        let mut data = [0; 8];
        config.write(LEN - 2, &[1; 8]);
        config.read(LEN - 2, &mut data);
        assert_eq!(data, [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        config.read(usize::MAX - 9, &mut data);
        assert_eq!(data, [0xff; 8]);
    }
}
