//! Performance counters (`capabilities.HPM`): cycles of the IOMMU, and events of the transactions
//! that it processes.
//!
//! A walk counts each entry that is read, or that is changed by an update of A and D. That cycles
//! overflow is noticed when a hart stores to a register or a device makes an access: until then
//! `OF` reads as 1, and there is no interrupt.

use serde::{Deserialize, Serialize};

use crate::Iommu;
use crate::interrupts::Source;
use crate::registers::at;

/// Counters of events: `iohpmctr1` and so on.
const COUNTERS: usize = 8;
/// `OF` of `iohpmcycles` and of event selectors.
const OVERFLOW: u64 = 1 << 63;

/// What is counted; the value is its number in an event selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An untranslated request.
    Request = 1,
    /// A translated request.
    Translated = 2,
    /// A translation request.
    Translation = 3,
    /// A translation that the cache does not have.
    Miss = 4,
    /// An entry of the device directory.
    Device = 5,
    /// An entry of a process directory.
    Process = 6,
    /// An entry of a table of the first stage.
    First = 7,
    /// An entry of a table of the second stage.
    Second = 8,
}

/// What a transaction can be told by, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transaction {
    pub device: u32,
    /// Its process ID, or that which its device has for transactions without one.
    pub process: Option<u32>,
    /// PSCID.
    pub first: Option<u32>,
    /// GSCID.
    pub guest: Option<u16>,
}

/// Registers.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    inhibited: u32,
    /// `iohpmcycles` at `since`.
    cycles: u64,
    /// Time in ns, which are cycles.
    since: u64,
    counts: [u64; COUNTERS],
    selectors: [u64; COUNTERS],
    /// The transaction that is being processed; without meaning between transactions.
    #[serde(skip)]
    pub current: Transaction,
}

/// A field of an event selector.
const fn field(selector: u64, low: u32, bits: u32) -> u32 {
    (selector >> low & ((1 << bits) - 1)) as u32
}

impl Event {
    /// Whether it may be told by PSCID and GSCID, too.
    const fn is_of_a_space(self) -> bool {
        matches!(self, Self::Miss | Self::First | Self::Second)
    }
}

impl Counters {
    /// Bits of `iocountinh` and `iocountovf`: cycles, and each counter.
    const ALL: u32 = (2 << COUNTERS) - 1;

    /// Whether a selector wants an event of the current transaction.
    fn wants(&self, selector: u64, event: Event) -> bool {
        let set = |bit: u32| selector >> bit & 1 != 0;
        if field(selector, 0, 15) != event as u32 {
            return false;
        }
        let (first, second) = (field(selector, 16, 20), field(selector, 36, 24));
        let now = &self.current;
        // Bits up to the lowest one that is 0 do not count with DMASK.
        let ignored = if set(15) { second ^ (second + 1) } else { 0 };
        let alike = |id: u32| (id ^ second) & !ignored & 0xff_ffff == 0;
        let (process, device) = match set(62) {
            false => (now.process, Some(now.device)),
            true if event.is_of_a_space() => (now.first, now.guest.map(u32::from)),
            true => (None, None),
        };
        (!set(60) || process == Some(first)) && (!set(61) || device.is_some_and(alike))
    }

    /// Counts an event. Answers whether a counter has overflowed for the first time.
    fn count(&mut self, event: Event) -> bool {
        let mut overflow = false;
        for at in 0..COUNTERS {
            let selector = self.selectors[at];
            if self.inhibited >> (at + 1) & 1 != 0 || !self.wants(selector, event) {
                continue;
            }
            self.counts[at] = self.counts[at].wrapping_add(1);
            if self.counts[at] == 0 {
                self.selectors[at] |= OVERFLOW;
                overflow |= selector & OVERFLOW == 0;
            }
        }
        overflow
    }

    fn cycles_at(&self, now: u64) -> u64 {
        let passed = match self.inhibited & 1 {
            // Harts run ahead of each other.
            0 => now.saturating_sub(self.since),
            _ => 0,
        };
        let (count, overflow) = (self.cycles & !OVERFLOW, self.cycles & OVERFLOW);
        // 63 bits and a time of 64: the sum overflows into OF.
        overflow | count.saturating_add(passed) & OVERFLOW | count.wrapping_add(passed) & !OVERFLOW
    }

    /// Brings the cycles up to date. Answers whether they have overflowed for the first time.
    fn pass(&mut self, now: u64) -> bool {
        let before = self.cycles;
        (self.cycles, self.since) = (self.cycles_at(now), now.max(self.since));
        (before ^ self.cycles) & OVERFLOW != 0
    }

    /// The word at an offset, of those from `iocountovf` to the last selector.
    pub fn load(&self, offset: u64, now: u64) -> u32 {
        let half = |register: u64| (register >> (8 * (offset & 4))) as u32;
        match offset {
            at::IOCOUNTOVF => {
                let selectors = self.selectors.iter().rev();
                let events = selectors.fold(0, |bits, s| bits << 1 | (s >> 63) as u32);
                events << 1 | (self.cycles_at(now) >> 63) as u32
            }
            at::IOCOUNTINH => self.inhibited,
            _ => match offset & !7 {
                at::IOHPMCYCLES => half(self.cycles_at(now)),
                place => half(self.event_register(place).copied().unwrap_or(0)),
            },
        }
    }

    fn event_register(&self, place: u64) -> Option<&u64> {
        match place.checked_sub(at::IOHPMEVT) {
            Some(offset) => self.selectors.get((offset / 8) as usize),
            None => self
                .counts
                .get((place.checked_sub(at::IOHPMCTR)? / 8) as usize),
        }
    }

    /// A store to such a word, after [`pass`](Self::pass).
    pub fn store(&mut self, offset: u64, value: u32) {
        let with = |register: u64| match offset & 4 {
            0 => register & !0xffff_ffff | u64::from(value),
            _ => register & 0xffff_ffff | u64::from(value) << 32,
        };
        let place = offset & !7;
        match (offset, place.checked_sub(at::IOHPMEVT)) {
            (at::IOCOUNTOVF, _) => {}
            (at::IOCOUNTINH, _) => self.inhibited = value & Self::ALL,
            (_, Some(selector)) => {
                if let Some(selector) = self.selectors.get_mut((selector / 8) as usize) {
                    let new = with(*selector);
                    // An event that there is not leaves the old one.
                    let event = match new & 0x7fff {
                        event @ 0..=8 => event,
                        _ => *selector & 0x7fff,
                    };
                    *selector = new & !0x7fff | event;
                }
            }
            (..) if place == at::IOHPMCYCLES => self.cycles = with(self.cycles),
            (..) => {
                let counter = place.checked_sub(at::IOHPMCTR).map(|at| (at / 8) as usize);
                if let Some(counter) = counter.and_then(|at| self.counts.get_mut(at)) {
                    *counter = with(*counter);
                }
            }
        }
    }
}

impl Iommu {
    /// Counts an event of the current transaction.
    pub(crate) fn count(&mut self, event: Event) {
        if self.state.counters.count(event) {
            self.raise(Source::Counters);
        }
    }

    /// Brings the cycles up to date.
    pub(crate) fn pass(&mut self) {
        if self.state.counters.pass(self.clock.now_ns()) {
            self.raise(Source::Counters);
        }
    }
}
