//! Registers of message windows and wired windows (MSG-7), and contents of a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trapless_isa::xtrapless::{limits, wcontrol, window};

use super::wires::Given;
use crate::aclint_plic::SOURCES;
use crate::mmio::{NoRegister, check_access};
use crate::words::field;

/// Most entries of a table, as a power of two.
const MOST: u64 = limits::MAX_WINDOWS.ilog2() as u64;

/// State of the windows; entries are in memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in super::super) struct Windows {
    /// There are 2^`size` message windows.
    size: u8,
    domains: u64,
    table: u64,
    /// `STATUS.FLT`.
    pub failed: bool,
    /// Hart that wrote `DOMAINS` last.
    hart: usize,
    /// Wires that are given to a domain.
    pub wires: BTreeMap<u32, Given>,
}

/// A store that is more than a new value of a register: a wire is given or taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct WireStore {
    pub wire: u32,
    /// Domain and source; `None` to take it back.
    pub to: Option<(u16, u16)>,
}

impl Windows {
    /// After reset, with 2^`size` message windows.
    ///
    /// # Panics
    /// If these are more than there can be.
    pub fn new(size: u8) -> Self {
        assert!(u64::from(size) <= MOST, "at most 2^16 message windows");
        Self {
            size,
            domains: 0,
            table: 0,
            failed: false,
            hart: 0,
            wires: BTreeMap::new(),
        }
    }

    /// Number of windows, as a power of two.
    pub fn size(&self) -> u8 {
        self.size
    }

    /// Hart on whose behalf memory is accessed.
    pub fn hart(&self) -> usize {
        self.hart
    }

    /// `DOMAINS`, in the format of `hvtablebase`.
    pub fn domains(&self) -> u64 {
        self.domains
    }

    /// Address of the entry of a window, if it has one.
    pub fn entry(&self, number: u16) -> Option<u64> {
        let entries = 1u64 << field(self.table, wcontrol::TABLE_SIZE, wcontrol::TABLE_SIZE_SHIFT);
        let some = self.table & wcontrol::TABLE_V != 0 && u64::from(number) < entries;
        some.then(|| (self.table & wcontrol::TABLE_PPN) + u64::from(number) * window::SIZE)
    }

    /// Loads a register.
    pub fn load(&self, offset: u64, size: u8) -> Result<u64, NoRegister> {
        check_access(offset, size, 8)?;
        Ok(match offset {
            wcontrol::CAP => {
                limits::VERSION << wcontrol::CAP_VERSION_SHIFT
                    | u64::from(SOURCES) << wcontrol::CAP_WIRES_SHIFT
                    | u64::from(self.size)
            }
            wcontrol::DOMAINS => self.domains,
            wcontrol::TABLE => self.table,
            wcontrol::STATUS => u64::from(self.failed) * wcontrol::STATUS_FLT,
            _ => wire_of(offset)
                .and_then(|wire| self.wires.get(&wire))
                .map_or(0, Given::encode),
        })
    }

    /// A store of `hart` to a register. Returns what is to be done with a wire.
    pub fn store(
        &mut self,
        hart: usize,
        offset: u64,
        size: u8,
        value: u64,
    ) -> Result<Option<WireStore>, NoRegister> {
        check_access(offset, size, 8)?;
        match offset {
            wcontrol::DOMAINS => {
                self.domains = base(value);
                self.hart = hart;
            }
            wcontrol::TABLE => self.table = base(value),
            wcontrol::STATUS => self.failed &= value & wcontrol::STATUS_FLT != 0,
            _ => {
                return Ok(wire_of(offset).map(|wire| {
                    let field = |mask, shift| field(value, mask, shift) as u16;
                    let domain = field(wcontrol::WIRE_DOM, wcontrol::WIRE_DOM_SHIFT);
                    let source = field(wcontrol::WIRE_ID, wcontrol::WIRE_ID_SHIFT);
                    let given = value & wcontrol::WIRE_V != 0;
                    let to = given.then_some((domain, source));
                    WireStore { wire, to }
                }));
            }
        }
        Ok(None)
    }

    /// Whether restored windows can have come from this controller with so many harts.
    pub fn is_sound(&self, harts: usize) -> bool {
        let wires = self.wires.keys().all(|wire| (1..=SOURCES).contains(wire));
        let bases = [self.domains, self.table];
        wires && bases.iter().all(|&value| base(value) == value) && self.hart < harts
    }
}

/// WARL fields of `DOMAINS` and `TABLE`, which have the same.
fn base(value: u64) -> u64 {
    let size = field(value, wcontrol::TABLE_SIZE, wcontrol::TABLE_SIZE_SHIFT).min(MOST);
    value & (wcontrol::TABLE_V | wcontrol::TABLE_PPN) | size << wcontrol::TABLE_SIZE_SHIFT
}

/// The wire whose register is at `offset`, if there is one.
fn wire_of(offset: u64) -> Option<u32> {
    let wire = u32::try_from(offset.checked_sub(wcontrol::WIRE)? / wcontrol::WIRE_STRIDE).ok()?;
    (1..=SOURCES).contains(&wire).then_some(wire)
}
