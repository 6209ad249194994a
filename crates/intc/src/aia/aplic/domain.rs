//! The registers of an interrupt domain (chapter "Advanced PLIC").

mod inspect;

use serde::{Deserialize, Serialize};

use super::message::{Addresses, Message};
use super::source::{Mode, SOURCES, Source};

/// IPRIOLEN, as on QEMU's `virt`.
const PRIORITY: u32 = 7;

// `domaincfg`.
const READ_ONLY: u32 = 0x80 << 24;
const IE: u32 = 1 << 8;
const DM: u32 = 1 << 2;

// `target` and `genmsi`.
const HART_SHIFT: u32 = 18;
const HART: u32 = 0x3FFF << HART_SHIFT;
const GUEST_SHIFT: u32 = 12;
const GUEST: u32 = 0x3F << GUEST_SHIFT;
const IDENTITY: u32 = 0x7FF;

/// Delivery mode of a domain; `domaincfg.DM` is read-only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Delivery {
    /// By a wire to each hart.
    Direct,
    /// By messages to the harts' IMSICs.
    Msi,
}

/// Interrupt delivery control of one hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Idc {
    delivery: bool,
    force: bool,
    threshold: u32,
}

/// Effects of an access to a domain.
#[derive(Default)]
pub(super) struct Outcome {
    /// Messages to send.
    pub messages: Vec<Message>,
    /// A source was delegated to the child domain (true) or taken back.
    pub delegated: Vec<(u32, bool)>,
}

/// An interrupt domain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Domain {
    machine: bool,
    delivery: Delivery,
    /// Whether it has a child domain to delegate to.
    child: bool,
    enabled: bool,
    /// By source number; 0 does not exist.
    pub sources: Vec<Source>,
    /// Which sources the parent delegates to this domain; all for the root.
    given: Vec<bool>,
    idcs: Vec<Idc>,
    pub addresses: Addresses,
    extempore: u32,
}

/// An array of registers with one bit per source.
#[derive(Clone, Copy)]
enum Bits {
    SetPending,
    ClearPending,
    SetEnabled,
    ClearEnabled,
}

/// A register of the first 16 KiB or an IDC.
enum Register {
    Config,
    Source(usize),
    Address(usize),
    Array(Bits, u32),
    ByNumber(Bits),
    ByNumberBigEndian,
    Extempore,
    Target(usize),
    Delivery(usize),
    Force(usize),
    Threshold(usize),
    Top(usize),
    Claim(usize),
    Nothing,
}

impl Domain {
    pub fn root(delivery: Delivery, harts: usize) -> Self {
        Self::new(true, delivery, harts)
    }

    pub fn supervisor(delivery: Delivery, harts: usize) -> Self {
        Self::new(false, delivery, harts)
    }

    fn new(machine: bool, delivery: Delivery, harts: usize) -> Self {
        let count = SOURCES as usize + 1;
        Self {
            machine,
            delivery,
            child: machine,
            enabled: false,
            sources: vec![Source::default(); count],
            given: vec![machine; count],
            idcs: vec![Idc::default(); harts],
            addresses: Addresses::default(),
            extempore: 0,
        }
    }

    fn decode(&self, offset: u64) -> Register {
        let offset = offset as u32;
        let array = |bits, base: u32| Register::Array(bits, (offset - base) / 4);
        let source = |base: u32| ((offset - base) / 4) as usize;
        let known = |number: usize| (1..self.sources.len()).contains(&number);
        match offset {
            0 => Register::Config,
            0x4..0x1000 if known(source(0)) => Register::Source(source(0)),
            0x1BC0..0x1BD0 if self.machine && self.delivery == Delivery::Msi => {
                Register::Address(source(0x1BC0))
            }
            0x1C00..0x1C80 => array(Bits::SetPending, 0x1C00),
            0x1CDC | 0x2000 => Register::ByNumber(Bits::SetPending),
            0x1D00..0x1D80 => array(Bits::ClearPending, 0x1D00),
            0x1DDC => Register::ByNumber(Bits::ClearPending),
            0x1E00..0x1E80 => array(Bits::SetEnabled, 0x1E00),
            0x1EDC => Register::ByNumber(Bits::SetEnabled),
            0x1F00..0x1F80 => array(Bits::ClearEnabled, 0x1F00),
            0x1FDC => Register::ByNumber(Bits::ClearEnabled),
            0x2004 => Register::ByNumberBigEndian,
            0x3000 if self.delivery == Delivery::Msi => Register::Extempore,
            0x3004..0x4000 if known(source(0x3000)) => Register::Target(source(0x3000)),
            0x4000.. if self.delivery == Delivery::Direct => {
                let hart = ((offset - 0x4000) / 32) as usize;
                match offset % 32 {
                    _ if hart >= self.idcs.len() => Register::Nothing,
                    0 => Register::Delivery(hart),
                    4 => Register::Force(hart),
                    8 => Register::Threshold(hart),
                    0x18 => Register::Top(hart),
                    0x1C => Register::Claim(hart),
                    _ => Register::Nothing,
                }
            }
            _ => Register::Nothing,
        }
    }

    /// Loads a register; `wires` holds the level of each source's wire.
    pub fn load(&mut self, offset: u64, wires: &[bool]) -> u32 {
        match self.decode(offset) {
            Register::Config => {
                let ie = if self.enabled { IE } else { 0 };
                let dm = if self.delivery == Delivery::Msi {
                    DM
                } else {
                    0
                };
                READ_ONLY | ie | dm
            }
            Register::Source(number) => self.sources[number].mode.encode(),
            Register::Address(index) => self.addresses.read(index),
            Register::Array(bits, word) => self.load_bits(bits, word, wires),
            Register::Extempore => self.extempore,
            Register::Target(number) => self.sources[number].target,
            Register::Delivery(hart) => self.idcs[hart].delivery.into(),
            Register::Force(hart) => self.idcs[hart].force.into(),
            Register::Threshold(hart) => self.idcs[hart].threshold,
            Register::Top(hart) => self.top(hart),
            Register::Claim(hart) => self.claim(hart),
            Register::ByNumber(_) | Register::ByNumberBigEndian | Register::Nothing => 0,
        }
    }

    fn load_bits(&self, bits: Bits, word: u32, wires: &[bool]) -> u32 {
        let first = word as usize * 32;
        let end = (first + 32).min(self.sources.len());
        (first..end).fold(0, |value, number| {
            let source = &self.sources[number];
            let set = match bits {
                Bits::SetPending => source.pending,
                Bits::ClearPending => source.mode.rectified(wires[number]),
                Bits::SetEnabled => source.enabled,
                Bits::ClearEnabled => false,
            };
            value | u32::from(set) << (number - first)
        })
    }

    /// Stores to a register.
    pub fn store(&mut self, offset: u64, value: u32, wires: &[bool]) -> Outcome {
        let mut outcome = Outcome::default();
        match self.decode(offset) {
            Register::Config => {
                self.enabled = value & IE != 0;
                for number in 1..self.sources.len() {
                    outcome.messages.extend(self.forward(number));
                }
            }
            Register::Source(number) => {
                if self.given[number] {
                    let before = self.sources[number].mode;
                    self.configure(number, Mode::decode(value, self.child), wires[number]);
                    let after = self.sources[number].mode;
                    if (before == Mode::Delegated) != (after == Mode::Delegated) {
                        let given = after == Mode::Delegated;
                        outcome.delegated.push((number as u32, given));
                    }
                    outcome.messages.extend(self.forward(number));
                }
            }
            Register::Address(index) => self.addresses.write(index, value),
            Register::Array(bits, word) => {
                for bit in (0..32).filter(|bit| value >> bit & 1 != 0) {
                    outcome
                        .messages
                        .extend(self.change(bits, word * 32 + bit, wires));
                }
            }
            Register::ByNumber(bits) => outcome.messages.extend(self.change(bits, value, wires)),
            Register::ByNumberBigEndian => {
                let change = self.change(Bits::SetPending, value.swap_bytes(), wires);
                outcome.messages.extend(change);
            }
            Register::Extempore => {
                self.extempore = value & (HART | IDENTITY);
                outcome.messages.push(Message {
                    hart: value >> HART_SHIFT,
                    guest: 0,
                    identity: value & IDENTITY,
                    source: 0,
                });
            }
            Register::Target(number) => {
                if self.sources[number].mode.active() {
                    self.sources[number].target = self.target(value);
                    outcome.messages.extend(self.forward(number));
                }
            }
            Register::Delivery(hart) => self.idcs[hart].delivery = value & 1 != 0,
            Register::Force(hart) => self.idcs[hart].force = value & 1 != 0,
            Register::Threshold(hart) => self.idcs[hart].threshold = value & PRIORITY,
            Register::Top(_) | Register::Claim(_) | Register::Nothing => {}
        }
        outcome
    }

    /// Value of `target` after `value` was written.
    fn target(&self, value: u32) -> u32 {
        match (self.delivery, self.machine) {
            (Delivery::Direct, _) => value & HART | (value & PRIORITY).max(1),
            (Delivery::Msi, true) => value & (HART | IDENTITY),
            (Delivery::Msi, false) => value & (HART | GUEST | IDENTITY),
        }
    }

    fn configure(&mut self, number: usize, mode: Mode, wire: bool) {
        let was_active = self.sources[number].mode.active();
        let target = self.target(0);
        let direct = self.delivery == Delivery::Direct;
        let source = &mut self.sources[number];
        source.mode = mode;
        if !mode.active() {
            *source = Source {
                mode,
                ..Source::default()
            };
            return;
        }
        if !was_active {
            source.target = target;
        }
        // A write may make the source pending if its input is high; this one does.
        let high = mode.rectified(wire);
        source.pending |= high;
        if mode.level() {
            source.pending &= high;
            source.pending |= direct && high;
        }
    }

    /// The parent delegates a source to this domain or takes it back.
    pub fn give(&mut self, number: u32, given: bool) {
        let number = number as usize;
        self.given[number] = given;
        self.sources[number] = Source::default();
    }

    /// Sets or clears a bit of a source, if it has one (section "Precise effects on
    /// interrupt-pending bits").
    fn change(&mut self, bits: Bits, number: u32, wires: &[bool]) -> Option<Message> {
        let index = number as usize;
        let direct = self.delivery == Delivery::Direct;
        let source = self.sources.get_mut(index).filter(|_| index != 0)?;
        if !source.mode.active() {
            return None;
        }
        let level = source.mode.level();
        match bits {
            Bits::SetEnabled => source.enabled = true,
            Bits::ClearEnabled => source.enabled = false,
            // In direct mode the pending bit of a level is a copy of its input.
            _ if level && direct => {}
            Bits::SetPending => {
                source.pending |= !level || source.mode.rectified(wires[index]);
            }
            Bits::ClearPending => source.pending = false,
        }
        self.forward(index)
    }

    /// The wire of a source of this domain went high or low.
    pub fn edge(&mut self, number: usize, high: bool) -> Option<Message> {
        let source = self.sources.get_mut(number)?;
        if source.mode.rectified(high) {
            source.pending = true;
        } else if source.mode.level() {
            source.pending = false;
        }
        self.forward(number)
    }

    /// Forwards a source that is ready: returns its message and clears its pending bit.
    fn forward(&mut self, number: usize) -> Option<Message> {
        let source = self.sources.get_mut(number)?;
        if self.delivery != Delivery::Msi || !self.enabled || !source.ready() {
            return None;
        }
        source.pending = false;
        Some(Message {
            hart: source.target >> HART_SHIFT,
            guest: (source.target & GUEST) >> GUEST_SHIFT,
            identity: source.target & IDENTITY,
            source: number as u32,
        })
    }

    /// `topi`: in direct mode, the source of highest priority for a hart.
    fn top(&self, hart: usize) -> u32 {
        let threshold = self.idcs[hart].threshold;
        let ready = self.sources.iter().enumerate().filter(|(_, source)| {
            let priority = source.target & PRIORITY;
            source.ready()
                && (source.target >> HART_SHIFT) as usize == hart
                && (threshold == 0 || priority < threshold)
        });
        ready
            .min_by_key(|(number, source)| (source.target & PRIORITY, *number))
            .map_or(0, |(number, source)| {
                (number as u32) << 16 | source.target & PRIORITY
            })
    }

    fn claim(&mut self, hart: usize) -> u32 {
        let top = self.top(hart);
        if top == 0 {
            self.idcs[hart].force = false;
        } else {
            let source = &mut self.sources[(top >> 16) as usize];
            if !source.mode.level() {
                source.pending = false;
            }
        }
        top
    }

    /// Level of the external interrupt of `hart` in direct mode.
    pub fn raised(&self, hart: usize) -> bool {
        let Some(idc) = self.idcs.get(hart) else {
            return false;
        };
        self.delivery == Delivery::Direct
            && self.enabled
            && idc.delivery
            && (idc.force || self.top(hart) != 0)
    }

    /// Whether a saved state could be one of `self`.
    pub fn fits(&self, saved: &Self) -> bool {
        let sound =
            |source: &Source| source.target == self.target(source.target) || source.target == 0;
        saved.machine == self.machine
            && saved.delivery == self.delivery
            && saved.child == self.child
            && saved.sources.len() == self.sources.len()
            && saved.given.len() == self.given.len()
            && saved.idcs.len() == self.idcs.len()
            && saved.sources.iter().all(sound)
    }
}
