//! Configuration space of a passed device: what the guest sees and can change.
//!
//! VFIO emulates or guards what would reach beyond the device (Linux
//! `drivers/vfio/pci/vfio_pci_config.c`), and is given all other accesses. Bits that are the VMM's
//! are kept here: BARs, because the guest places them in its own memory; the interrupt registers;
//! MSI-X, whose table is the VMM's; and links between capabilities, to leave out those that need
//! something that the guest does not have.

use crate::devices::vfio::device::{BARS, Device, Region};
use crate::devices::vfio::msix::{self, Place};

/// Offsets of registers (PCI Express Base 5.0, section 7.5.1).
pub mod register {
    #![allow(missing_docs)] // The names are the specification's.
    pub const COMMAND: usize = 0x04;
    pub const HEADER_TYPE: usize = 0x0e;
    pub const BIST: usize = 0x0f;
    pub const BAR: usize = 0x10;
    pub const ROM: usize = 0x30;
    pub const CAPABILITIES: usize = 0x34;
    pub const LINE: usize = 0x3c;
    pub const PIN: usize = 0x3d;
}

/// Bit of the command register: regions of memory answer.
const MEMORY: u8 = 1 << 1;
/// Bit of the status register: there are capabilities.
const LISTED: u8 = 1 << 4;
const STATUS: usize = 0x06;

/// Where capabilities can be.
const CAPABILITIES: usize = 0x40;
const EXTENDED: usize = 0x100;
const END: usize = 0x1000;

/// IDs of capabilities.
mod id {
    pub const POWER: u8 = 0x01;
    pub const MSI: u8 = 0x05;
    pub const MSIX: u8 = super::msix::ID;
    pub const EXPRESS: u8 = 0x10;
    pub const ADVANCED: u8 = 0x13;
}

/// Extended capabilities that are left out: access control, ARI, address translation, SR-IOV, page
/// requests, resizable BARs, PASID, and virtual ones of the last two.
const LEFT_OUT: [u16; 8] = [0x0d, 0x0e, 0x0f, 0x10, 0x13, 0x15, 0x1b, 0x24];

/// PCI Express capability (section 7.5.3): type of the device, and the bit that resets it.
mod express {
    pub const TYPE: usize = 2;
    pub const TYPE_BITS: u8 = 0xf0;
    pub const ENDPOINTS: [u8; 2] = [0x00, 0x10];
    /// Root complex integrated endpoint, as all functions without a port above them.
    pub const INTEGRATED: u8 = 0x90;
    pub const CONTROL: usize = 8;
    pub const RESET: u16 = 1 << 15;
}

/// Advanced features of conventional functions: control, and the bit that resets the function.
mod advanced {
    pub const CONTROL: usize = 4;
    pub const RESET: u16 = 1;
}

/// Power management: control, its bits of the state, and the state without memory (PCI Power
/// Management 1.2, section 3.2.4).
mod power {
    pub const CONTROL: usize = 4;
    pub const STATE: u8 = 3;
    pub const D3: u8 = 3;
}

/// A BAR as the guest sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Number of its (first) register.
    pub index: u8,
    /// Length in bytes, a power of two.
    pub size: u64,
    /// It takes two registers.
    wide: bool,
}

/// See the [module](self).
pub struct Space {
    /// Bytes of the device's.
    len: usize,
    /// Values of the VMM's bits.
    bytes: Vec<u8>,
    /// Which bits are the VMM's.
    own: Vec<u8>,
    /// Which of these the guest can change.
    writable: Vec<u8>,
    initial: Vec<u8>,
    bars: Vec<Bar>,
    /// Where MSI-X is, if the device has it.
    place: Option<Place>,
    /// Its capability, if that is shown.
    msix: Option<usize>,
    /// Control register of power management.
    power: Option<usize>,
    /// Registers with a bit that resets the device.
    resets: Vec<(usize, u16)>,
}

impl Space {
    /// That of `device`, with an interrupt pin and MSI-X only if the guest can use them.
    ///
    /// # Errors
    /// If it is no device that can be passed, as a sentence's end.
    pub fn new(device: &dyn Device, pin: bool, messages: bool) -> Result<Self, &'static str> {
        let len = usize::try_from(device.len(Region::Config)).unwrap_or(0);
        let len = len.min(END);
        if len < EXTENDED {
            return Err("has no configuration space");
        }
        let mut space = Self {
            len,
            bytes: vec![0; len],
            own: vec![0; len],
            writable: vec![0; len],
            initial: Vec::new(),
            bars: Vec::new(),
            place: None,
            msix: None,
            power: None,
            resets: Vec::new(),
        };
        let mut physical = vec![0; len];
        device.read(Region::Config, 0, &mut physical);
        if physical[register::HEADER_TYPE] & 0x7f != 0 {
            return Err("is a bridge, which cannot be passed");
        }
        space.keep(register::HEADER_TYPE, 0x80, 0);
        space.keep(register::BIST, 0xff, 0);
        for at in register::ROM..register::ROM + 4 {
            space.keep(at, 0xff, 0);
        }
        space.keep(register::LINE, 0xff, 0);
        space.writable[register::LINE] = 0xff;
        space.keep(register::PIN, 0xff, pin.into());
        space.add_bars(device, &physical);
        space.link_capabilities(&physical, messages);
        space.link_extended(&physical);
        space.initial = space.bytes.clone();
        Ok(space)
    }

    /// Makes bits of the byte at `at` the VMM's.
    fn keep(&mut self, at: usize, bits: u8, value: u8) {
        self.own[at] |= bits;
        self.bytes[at] = self.bytes[at] & !bits | value & bits;
    }

    fn keep_bytes(&mut self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..self.len).zip(bytes) {
            self.keep(at, 0xff, *byte);
        }
    }

    /// All registers of BARs are the VMM's; those of I/O ports are left out.
    fn add_bars(&mut self, device: &dyn Device, physical: &[u8]) {
        self.keep_bytes(register::BAR, &[0; 4 * BARS as usize]);
        let mut next = 0;
        for index in 0..BARS {
            let at = register::BAR + 4 * usize::from(index);
            let kind = physical[at] & 0xf;
            let size = device.len(Region::Bar(index));
            let Some(size) = size.checked_next_power_of_two().filter(|_| size != 0) else {
                continue;
            };
            let wide = kind & 0b110 == 0b100 && index + 1 < BARS;
            let fits = wide || size <= 1 << 31;
            if index < next || kind & 1 != 0 || !fits {
                continue;
            }
            next = index + 1 + u8::from(wide);
            let size = size.max(16);
            self.bytes[at] = kind;
            let writable = (!(size - 1)).to_le_bytes();
            let len = if wide { 8 } else { 4 };
            self.writable[at..at + len].copy_from_slice(&writable[..len]);
            self.bars.push(Bar { index, size, wide });
        }
    }

    /// Links the capabilities that are shown, and finds those that matter.
    fn link_capabilities(&mut self, physical: &[u8], messages: bool) {
        self.keep(register::CAPABILITIES, 0xff, 0);
        if physical[STATUS] & LISTED == 0 {
            return;
        }
        let mut link = register::CAPABILITIES;
        let mut at = usize::from(physical[register::CAPABILITIES] & !3);
        // There is room for so many; a list that has more is a circle.
        for _ in 0..(EXTENDED - CAPABILITIES) / 4 {
            if at < CAPABILITIES {
                break;
            }
            let word = |at: usize| physical.get(at).copied().unwrap_or(0);
            let shown = match word(at) {
                id::MSI => false,
                id::MSIX => self.add_msix(at, physical, messages),
                _ => true,
            };
            if shown {
                self.keep(link, 0xff, at as u8);
                link = at + 1;
                self.keep(link, 0xff, 0);
            } else {
                self.keep_bytes(at, &[0; 4]);
            }
            match word(at) {
                id::POWER => self.power = Some(at + power::CONTROL),
                id::EXPRESS => {
                    let kind = word(at + express::TYPE) & express::TYPE_BITS;
                    if express::ENDPOINTS.contains(&kind) {
                        self.keep(at + express::TYPE, express::TYPE_BITS, express::INTEGRATED);
                    }
                    self.resets.push((at + express::CONTROL, express::RESET));
                }
                id::ADVANCED => self.resets.push((at + advanced::CONTROL, advanced::RESET)),
                _ => {}
            }
            at = usize::from(word(at + 1) & !3);
        }
    }

    /// Returns whether it is shown.
    fn add_msix(&mut self, at: usize, physical: &[u8], messages: bool) -> bool {
        let Some(bytes) = physical[..EXTENDED].get(at..at + msix::LEN) else {
            return false;
        };
        let mut capability = [0; msix::LEN];
        capability.copy_from_slice(bytes);
        self.place = Some(Place::of(&capability));
        if !messages {
            return false;
        }
        let writable = msix::ENABLE | msix::MASK_ALL;
        let control = u16::from_le_bytes([capability[2], capability[3]]) & !writable;
        capability[2..4].copy_from_slice(&control.to_le_bytes());
        self.keep_bytes(at, &capability);
        self.writable[at + 2..at + 4].copy_from_slice(&writable.to_le_bytes());
        self.msix = Some(at);
        true
    }

    /// Links the extended capabilities that are shown. The first one has its place for ever, so
    /// nothing stands there if it is left out.
    fn link_extended(&mut self, physical: &[u8]) {
        let word = |at: usize| {
            let bytes = physical.get(at..at + 4).unwrap_or(&[0; 4]);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let mut last = None;
        let mut at = EXTENDED;
        for _ in 0..(END - EXTENDED) / 8 {
            let header = word(at);
            if at < EXTENDED || header == 0 || header == u32::MAX {
                break;
            }
            let next = (header >> 20) as usize & !3;
            let link = |header: u32, next: usize| header & 0xf_ffff | (next as u32) << 20;
            if LEFT_OUT.contains(&(header as u16)) {
                self.keep_bytes(at, &link(0, next).to_le_bytes());
                if let Some((before, header)) = last {
                    let header = link(header, next);
                    self.keep_bytes(before, &header.to_le_bytes());
                    self.keep_bytes(at, &[0; 4]);
                    last = Some((before, header));
                }
            } else {
                last = Some((at, header));
            }
            at = next;
        }
    }

    /// Reads; bytes beyond the end are all ones.
    pub fn read(&self, device: &dyn Device, offset: usize, data: &mut [u8]) {
        data.fill(0xff);
        let len = self.len.saturating_sub(offset).min(data.len());
        let Some(data) = data.get_mut(..len).filter(|data| !data.is_empty()) else {
            return;
        };
        device.read(Region::Config, offset as u64, data);
        for (at, byte) in (offset..).zip(data) {
            *byte = *byte & !self.own[at] | self.bytes[at] & self.own[at];
        }
    }

    /// Writes what is the VMM's; returns the parts of `data` that the device has to get, with
    /// their offsets.
    pub fn write<'a>(&mut self, offset: usize, data: &'a [u8]) -> Vec<(usize, &'a [u8])> {
        let len = self.len.saturating_sub(offset).min(data.len());
        let data = &data[..len];
        for (at, byte) in (offset..).zip(data) {
            let writable = self.writable[at];
            self.bytes[at] = self.bytes[at] & !writable | byte & writable;
        }
        let mut parts = Vec::new();
        let mut start = 0;
        while start < len {
            let foreign = |at: &usize| self.own[offset + at] != 0xff;
            let first = (start..len).find(foreign).unwrap_or(len);
            let end = (first..len).find(|at| !foreign(at)).unwrap_or(len);
            if first < end {
                parts.push((offset + first, &data[first..end]));
            }
            start = end;
        }
        parts
    }

    /// Whether a write resets the device.
    pub fn resets(&self, offset: usize, data: &[u8]) -> bool {
        self.resets.iter().any(|&(at, bits)| {
            let written = [at, at + 1].map(|at| byte(offset, data, at).unwrap_or(0));
            u16::from_le_bytes(written) & bits != 0
        })
    }

    /// Whether memory answers.
    pub fn decodes(&self, device: &dyn Device) -> bool {
        let read = |at| {
            let mut byte = [0];
            self.read(device, at, &mut byte);
            byte[0]
        };
        let asleep = |at| read(at) & power::STATE == power::D3;
        read(register::COMMAND) & MEMORY != 0 && !self.power.is_some_and(asleep)
    }

    /// Whether memory does not answer any more after a write.
    pub fn ends_decoding(&self, offset: usize, data: &[u8]) -> bool {
        let command = byte(offset, data, register::COMMAND);
        let state = self.power.and_then(|at| byte(offset, data, at));
        command.is_some_and(|command| command & MEMORY == 0)
            || state.is_some_and(|state| state & power::STATE == power::D3)
    }

    /// BARs, with the bus addresses that the guest has given them.
    pub fn bars(&self) -> impl Iterator<Item = (Bar, u64)> + '_ {
        self.bars.iter().map(|bar| {
            let at = register::BAR + 4 * usize::from(bar.index);
            let mut address = [0; 8];
            let len = if bar.wide { 8 } else { 4 };
            address[..len].copy_from_slice(&self.bytes[at..at + len]);
            (*bar, u64::from_le_bytes(address) & !0xf)
        })
    }

    /// Where MSI-X is, also if it is not shown.
    pub fn msix(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Message control of MSI-X, if that is shown.
    pub fn msix_control(&self) -> Option<u16> {
        let at = self.msix?;
        Some(u16::from_le_bytes([self.bytes[at + 2], self.bytes[at + 3]]))
    }

    /// Makes the VMM's bits as after a reset.
    pub fn reset(&mut self) {
        self.bytes.clone_from(&self.initial);
    }
}

/// The byte at `at` of a write of `data` at `offset`, if it is part of that.
fn byte(offset: usize, data: &[u8], at: usize) -> Option<u8> {
    data.get(at.checked_sub(offset)?).copied()
}
