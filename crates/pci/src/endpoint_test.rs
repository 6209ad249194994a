//! The test function of Linux's PCI endpoint framework (`pci-epf-test`), as its driver on the other
//! side, `pci_endpoint_test`, finds it: memory behind BARs, transfers with a checksum, interrupts
//! of each kind on demand. Source: Documentation/PCI/endpoint/pci-test-function.rst.
//!
//! ```text
//!   BAR 0         registers
//!   BAR 1, 2, 5   memory; while a doorbell is enabled, it is the last word of BAR 2
//!   BAR 4         MSI-X
//! ```
//!
//! A command is carried out when it is written. INTA is asserted until the status is read, since
//! the driver has no other way to acknowledge it.
//!
//! With ATS its transfers use translations that it remembers; with page requests a transfer waits
//! for a page that is not there, and its status says nothing until then.

use trapless_devices::ats::ResponseCode;
use trapless_devices::{
    DeviceEvents, DeviceMemory, StateError, StateReader, StateWriter, fill_le, value_le,
};
use vm_memory::{Bytes, GuestAddress};

use crate::ats::Asked;
use crate::config::{Bar, BarKind, Identity};
use crate::function::{Function, Layout};
use crate::port::Port;

/// A device that the driver knows: an endpoint of DesignWare's emulation. Class: others.
const VENDOR: u16 = 0x16c3;
const DEVICE: u16 = 0xedda;
const CLASS: u32 = 0xff_0000;
/// Name in messages.
const NAME: &str = "endpoint-test";

const REGISTERS: Bar = Bar {
    index: 0,
    kind: BarKind::Memory32,
    size: 0x1000,
};
const MEMORY: [Bar; 3] = [
    Bar {
        index: 1,
        kind: BarKind::Memory32,
        size: 0x1000,
    },
    Bar {
        index: DOORBELL_BAR,
        kind: BarKind::Memory64,
        size: 0x1_0000,
    },
    Bar {
        index: 5,
        kind: BarKind::Memory32,
        size: 0x4000,
    },
];
const MSIX_BAR: u8 = 4;
const DOORBELL_BAR: u8 = 2;
const DOORBELL: u64 = 0xfffc;
/// What has to be written there.
const DOORBELL_DATA: u32 = 0x6265_6c6c;

const MSI_VECTORS: u16 = 32;
const MSIX_VECTORS: u16 = 64;
/// Longest transfer, in bytes.
const MAX_TRANSFER: u32 = 4 << 20;
/// How often a transfer is tried again at once. Nobody has to let it wait for a page: an IOMMU
/// whose queue is full answers by itself.
const MAX_TRIES: usize = 8;

/// Offsets of registers.
mod register {
    pub const COMMAND: usize = 0x04;
    pub const STATUS: usize = 0x08;
    pub const SOURCE: usize = 0x0c;
    pub const DESTINATION: usize = 0x14;
    pub const SIZE: usize = 0x1c;
    pub const CHECKSUM: usize = 0x20;
    pub const IRQ_TYPE: usize = 0x24;
    pub const IRQ_NUMBER: usize = 0x28;
    /// From here on they are read-only.
    pub const CAPABILITIES: usize = 0x30;
    pub const DOORBELL_BAR: usize = 0x34;
    pub const DOORBELL_OFFSET: usize = 0x38;
    pub const DOORBELL_DATA: usize = 0x3c;
    pub const END: usize = 0x40;
}

/// Commands.
mod command {
    pub const RAISE_INTX: u32 = 1 << 0;
    pub const RAISE_MSI: u32 = 1 << 1;
    pub const RAISE_MSIX: u32 = 1 << 2;
    pub const READ: u32 = 1 << 3;
    pub const WRITE: u32 = 1 << 4;
    pub const COPY: u32 = 1 << 5;
    pub const ENABLE_DOORBELL: u32 = 1 << 6;
    pub const DISABLE_DOORBELL: u32 = 1 << 7;
    pub const SET_SUBRANGES: u32 = 1 << 8;
    pub const CLEAR_SUBRANGES: u32 = 1 << 9;
}

/// Bits of the status. What is done has a bit, and the next one if it failed.
mod status {
    pub const READ: u32 = 1 << 0;
    pub const WRITE: u32 = 1 << 2;
    pub const COPY: u32 = 1 << 4;
    pub const IRQ_RAISED: u32 = 1 << 6;
    pub const SOURCE_INVALID: u32 = 1 << 7;
    pub const DESTINATION_INVALID: u32 = 1 << 8;
    pub const DOORBELL: u32 = 1 << 9;
    pub const DOORBELL_ENABLED: u32 = 1 << 10;
    pub const DOORBELL_DISABLED: u32 = 1 << 12;
    pub const SUBRANGES_SET: u32 = 1 << 14;
    pub const SUBRANGES_CLEARED: u32 = 1 << 16;
}

/// Unaligned transfers, MSI, MSI-X, INTx, subranges, and BARs whose meaning may change while they
/// are in use, which doorbells need; the BAR of MSI-X is reserved.
const CAPABILITIES: u32 = 0b11_1111 | 1 << (6 + MSIX_BAR);

/// Kinds of interrupts.
const INTX: u32 = 0;
const MSI: u32 = 1;
const MSIX: u32 = 2;

/// Memory behind a BAR.
struct Memory {
    bar: Bar,
    bytes: Vec<u8>,
    /// Its halves are exchanged (subranges).
    exchanged: bool,
}

impl Memory {
    fn new(bar: Bar) -> Self {
        Self {
            bar,
            bytes: vec![0; bar.size as usize],
            exchanged: false,
        }
    }

    /// Exchanges its halves, each of which then holds a byte that tells which it is.
    fn exchange(&mut self) {
        let index = self.bar.index;
        let half = self.bytes.len() / 2;
        self.exchanged = true;
        let (low, high) = self.bytes.split_at_mut(half);
        for (number, part) in [high, low].into_iter().enumerate() {
            part.fill(0x50 + 8 * index + number as u8);
        }
    }

    /// The byte at an offset as its user sees it.
    fn byte(&mut self, offset: u64) -> Option<&mut u8> {
        let turned = if self.exchanged { self.bar.size / 2 } else { 0 };
        self.bytes.get_mut((offset ^ turned) as usize)
    }
}

/// The test function of Linux's PCI endpoint framework, which `boot --pci endpoint-test` has.
pub struct EndpointTest {
    memory: DeviceMemory,
    events: Box<dyn DeviceEvents>,
    registers: [u8; register::END],
    behind: [Memory; MEMORY.len()],
    doorbell: bool,
    /// What the next transfer to memory begins with.
    pattern: u64,
    /// Command of the transfer that waits for a page.
    waiting: Option<u32>,
}

impl EndpointTest {
    /// A function that reaches only `memory`. Errors of the driver go to `events`.
    pub fn new(memory: DeviceMemory, events: Box<dyn DeviceEvents>) -> Self {
        Self {
            memory,
            events,
            registers: fresh(),
            behind: MEMORY.map(Memory::new),
            doorbell: false,
            pattern: 1,
            waiting: None,
        }
    }

    fn get(&self, at: usize) -> u32 {
        value_le(&self.registers[at..at + 4]) as u32
    }

    fn address(&self, at: usize) -> GuestAddress {
        GuestAddress(value_le(&self.registers[at..at + 8]))
    }

    fn set(&mut self, at: usize, value: u32) {
        self.registers[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn add_status(&mut self, bits: u32) {
        self.set(register::STATUS, self.get(register::STATUS) | bits);
    }

    /// Carries out a command.
    fn carry_out(&mut self, command: u32, port: &mut Port) {
        self.set(register::COMMAND, 0);
        self.set(register::STATUS, 0);
        self.waiting = None;
        let outcome = match command {
            command::RAISE_INTX | command::RAISE_MSI | command::RAISE_MSIX => 0,
            command::READ | command::WRITE | command::COPY => {
                return self.try_transfer(command, port);
            }
            command::ENABLE_DOORBELL => {
                self.doorbell = true;
                status::DOORBELL_ENABLED
            }
            command::DISABLE_DOORBELL => {
                self.doorbell = false;
                status::DOORBELL_DISABLED
            }
            command::SET_SUBRANGES => self.subranges(status::SUBRANGES_SET, Memory::exchange),
            command::CLEAR_SUBRANGES => self.subranges(status::SUBRANGES_CLEARED, |memory| {
                memory.exchanged = false;
            }),
            _ => {
                return self
                    .events
                    .guest_error(NAME, "command that there is not, or two at once");
            }
        };
        self.finish(outcome, port);
    }

    /// A command is over.
    fn finish(&mut self, outcome: u32, port: &mut Port) {
        self.add_status(outcome);
        self.interrupt(port);
    }

    /// Transfers, unless a page has to be waited for.
    fn try_transfer(&mut self, command: u32, port: &mut Port) {
        let mut outcome = 0;
        for _ in 0..MAX_TRIES {
            outcome = self.transfer(command);
            let invalid = status::SOURCE_INVALID | status::DESTINATION_INVALID;
            let asked = match outcome & invalid {
                0 => Asked::No,
                _ => port.request_page(),
            };
            match asked {
                Asked::Answered(ResponseCode::Success) => {}
                Asked::Answered(_) | Asked::No => break,
                Asked::Waits => {
                    self.waiting = Some(command);
                    return;
                }
            }
        }
        self.finish(outcome, port);
    }

    /// Does something with the memory whose BAR the register of sizes names; returns what becomes
    /// of the status.
    fn subranges(&mut self, done: u32, act: impl FnOnce(&mut Memory)) -> u32 {
        let index = self.get(register::SIZE);
        let memory = self
            .behind
            .iter_mut()
            .find(|memory| u32::from(memory.bar.index) == index);
        match memory {
            Some(memory) => {
                act(memory);
                done
            }
            None => done << 1,
        }
    }

    /// Reads, writes or copies the other side's memory; returns what becomes of the status.
    fn transfer(&mut self, command: u32) -> u32 {
        let done = match command {
            command::READ => status::READ,
            command::WRITE => status::WRITE,
            _ => status::COPY,
        };
        let size = self.get(register::SIZE);
        if !(1..=MAX_TRANSFER).contains(&size) {
            self.events
                .guest_error(NAME, "transfer of nothing, or of more than 4 MiB");
            return done << 1;
        }
        let mut data = vec![0; size as usize];
        if command == command::WRITE {
            self.make_up(&mut data);
        } else {
            let source = self.address(register::SOURCE);
            if self.memory.read_slice(&mut data, source).is_err() {
                return done << 1 | status::SOURCE_INVALID;
            }
        }
        // The driver's is crc32_le(~0, ...), without the last inversion.
        let checksum = !crc32fast::hash(&data);
        if command == command::READ {
            return match checksum == self.get(register::CHECKSUM) {
                true => done,
                false => done << 1,
            };
        }
        let destination = self.address(register::DESTINATION);
        if self.memory.write_slice(&data, destination).is_err() {
            return done << 1 | status::DESTINATION_INVALID;
        }
        if command == command::WRITE {
            self.set(register::CHECKSUM, checksum);
        }
        done
    }

    /// Fills `data` with what is different each time (xorshift64).
    fn make_up(&mut self, data: &mut [u8]) {
        for part in data.chunks_mut(8) {
            self.pattern ^= self.pattern << 13;
            self.pattern ^= self.pattern >> 7;
            self.pattern ^= self.pattern << 17;
            part.copy_from_slice(&self.pattern.to_le_bytes()[..part.len()]);
        }
    }

    /// Interrupts as the driver has said.
    fn interrupt(&mut self, port: &mut Port) {
        self.add_status(status::IRQ_RAISED);
        // Messages are numbered from one on.
        let number = self.get(register::IRQ_NUMBER).wrapping_sub(1);
        let enabled = match (port.uses_messages(), port.uses_msi()) {
            (false, _) => INTX,
            (true, true) => MSI,
            (true, false) => MSIX,
        };
        match (self.get(register::IRQ_TYPE), u16::try_from(number)) {
            (kind, _) if kind != enabled => self
                .events
                .guest_error(NAME, "interrupt of a kind that is not enabled"),
            (INTX, _) => port.set_intx(true),
            (_, Ok(vector)) => port.signal(vector),
            _ => self
                .events
                .guest_error(NAME, "interrupt whose number there is not"),
        }
    }
}

/// Registers after reset.
fn fresh() -> [u8; register::END] {
    let mut registers = [0; register::END];
    for (at, value) in [
        (register::CAPABILITIES, CAPABILITIES),
        (register::DOORBELL_BAR, DOORBELL_BAR.into()),
        (register::DOORBELL_OFFSET, DOORBELL as u32),
        (register::DOORBELL_DATA, DOORBELL_DATA),
    ] {
        fill_le(&mut registers[at..at + 4], value.into());
    }
    registers
}

/// Whether an access touches the word at `at`.
fn touches(offset: u64, len: usize, at: usize) -> bool {
    let at = at as u64;
    offset < at + 4 && at < offset.saturating_add(len as u64)
}

impl Function for EndpointTest {
    fn layout(&self) -> Layout {
        let mut bars = vec![REGISTERS];
        bars.extend(MEMORY);
        Layout {
            identity: Identity {
                vendor: VENDOR,
                device: DEVICE,
                revision: 0,
                class: CLASS,
                subsystem_vendor: 0,
                subsystem: 0,
            },
            bars,
            vectors: MSIX_VECTORS,
            msix_bar: MSIX_BAR,
            msi_vectors: MSI_VECTORS,
            ats: true,
            capabilities: Vec::new(),
            access: None,
        }
    }

    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], port: &mut Port) {
        if bar == REGISTERS.index && touches(offset, data.len(), register::STATUS) {
            port.set_intx(false);
        }
        let behind = self
            .behind
            .iter_mut()
            .find(|memory| memory.bar.index == bar);
        match behind {
            Some(memory) => {
                for (at, byte) in (offset..).zip(data) {
                    *byte = memory.byte(at).copied().unwrap_or(0);
                }
            }
            None => {
                for (at, byte) in (offset..).zip(data) {
                    *byte = self.registers.get(at as usize).copied().unwrap_or(0);
                }
            }
        }
    }

    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port) {
        if let Some(memory) = self
            .behind
            .iter_mut()
            .find(|memory| memory.bar.index == bar)
        {
            for (at, byte) in (offset..).zip(data) {
                if let Some(place) = memory.byte(at) {
                    *place = *byte;
                }
            }
            let rings = (bar, offset, data.len()) == (DOORBELL_BAR, DOORBELL, 4)
                && value_le(data) == u64::from(DOORBELL_DATA);
            if self.doorbell && rings {
                self.add_status(status::DOORBELL);
                self.interrupt(port);
            }
            return;
        }
        for (at, byte) in (offset..).zip(data) {
            if at < register::CAPABILITIES as u64 {
                self.registers[at as usize] = *byte;
            }
        }
        let command = self.get(register::COMMAND);
        if command != 0 && touches(offset, data.len(), register::COMMAND) {
            self.carry_out(command, port);
        }
    }

    fn answered(&mut self, code: ResponseCode, port: &mut Port) {
        let Some(command) = self.waiting.take() else {
            return;
        };
        match code {
            ResponseCode::Success => self.try_transfer(command, port),
            ResponseCode::InvalidRequest | ResponseCode::Failure => {
                // It fails once more, and nobody is asked for the page.
                let outcome = self.transfer(command);
                self.finish(outcome, port);
            }
        }
    }

    fn reset(&mut self) {
        self.waiting = None;
        self.registers = fresh();
        self.behind = MEMORY.map(Memory::new);
        self.doorbell = false;
        self.pattern = 1;
    }

    fn save(&self, to: &mut StateWriter) {
        to.bytes(&self.registers[..register::CAPABILITIES]);
        for memory in &self.behind {
            to.bytes(&memory.bytes);
            to.number(memory.exchanged);
        }
        to.number(self.doorbell);
        to.number(self.pattern);
        to.number(self.waiting.unwrap_or(0));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let another = StateError("has another test function");
        let written = from.bytes(register::CAPABILITIES)?;
        self.registers = fresh();
        self.registers
            .get_mut(..written.len())
            .filter(|_| written.len() == register::CAPABILITIES)
            .ok_or(another)?
            .copy_from_slice(written);
        for memory in &mut self.behind {
            let bytes = from.bytes(memory.bytes.len())?;
            if bytes.len() != memory.bytes.len() {
                return Err(StateError("has another test function"));
            }
            memory.bytes.copy_from_slice(bytes);
            memory.exchanged = from.flag()?;
        }
        self.doorbell = from.flag()?;
        self.pattern = from.number()?;
        self.waiting = match from.number()? {
            0 => None,
            command @ (command::READ | command::WRITE | command::COPY) => Some(command),
            _ => return Err(another),
        };
        Ok(())
    }
}
