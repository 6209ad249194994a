//! State of the controller for each hart.

use serde::{Deserialize, Serialize};
use trapless_isa::port::Lines;
use trapless_isa::xtrapless::{hgrant, htlcfg, hvtablebase, limits};

use super::layout::{SSI_HS, is_vs_level};
use super::queue::Queue;
use super::slot::Slot;
use crate::words::field;

/// Bits of state that the controller has for each hart, for comparing what hardware costs:
/// registers, slot, position in the queue, and unreported arrivals. Pending interrupts are in
/// memory.
pub const HART_STATE_BITS: u32 = (htlcfg::EN | htlcfg::ANY | htlcfg::ERR | htlcfg::FLT)
    .count_ones()
    + (hgrant::V | hgrant::DOM | hgrant::COUNT | hgrant::FIRST).count_ones()
    + (hvtablebase::V | hvtablebase::PPN | hvtablebase::SIZE).count_ones()
    + SLOT_BITS
    + super::queue::STATE_BITS
    + ARRIVED_BITS;
/// V, domain, vhart, `vsip.SSIP` and `vsip.SEIP`.
const SLOT_BITS: u32 = 1 + 16 + 16 + 2;
/// VS-level interrupts that arrived, and a software interrupt for HS-mode.
const ARRIVED_BITS: u32 = 3 + 1;

/// Registers of one hart, and interrupts that were not reported to it yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Hart {
    /// `htlcfg`.
    pub config: u64,
    /// `hgrant`.
    pub grant: u64,
    /// `hvtablebase`.
    pub tables: u64,
    pub slot: Option<Slot>,
    pub queue: Queue,
    /// VS-level interrupts that arrived since the last report to the hart.
    pub arrived: u64,
    /// A software interrupt for HS-mode, likewise.
    pub ipi: bool,
}

impl Hart {
    /// The extension is on.
    pub fn enabled(&self) -> bool {
        self.config & htlcfg::EN != 0
    }

    /// Adds this hart's inputs to `lines`; arrivals and the software interrupt are cleared by that.
    pub fn drive(&mut self, lines: &mut Lines) {
        lines.level |= self.slot.map_or(0, |slot| slot.lines);
        lines.level |= u64::from(self.queue.raised()) << limits::NOTIFY_IRQ;
        lines.pulse |= u64::from(std::mem::take(&mut self.ipi)) << SSI_HS;
        lines.arrived |= std::mem::take(&mut self.arrived);
        lines.split = self.enabled();
    }

    /// Writes `hgrant`.
    pub fn set_grant(&mut self, value: u64) {
        self.grant = value & (hgrant::V | hgrant::DOM | hgrant::COUNT | hgrant::FIRST);
    }

    /// Writes `hvtablebase`; sizes above the maximum become the maximum.
    pub fn set_tables(&mut self, value: u64) {
        let size = field(value, hvtablebase::SIZE, hvtablebase::SIZE_SHIFT).min(MAX_DOMAINS);
        self.tables = value & (hvtablebase::V | hvtablebase::PPN) | size << hvtablebase::SIZE_SHIFT;
    }

    /// Whether a restored hart can have come from this controller.
    pub fn is_sound(&self) -> bool {
        let mut same = self.clone();
        same.set_grant(self.grant);
        same.set_tables(self.tables);
        same == *self
            && self.config & !(htlcfg::EN | htlcfg::ANY | htlcfg::ERR | htlcfg::FLT) == 0
            && (self.enabled() || self.slot.is_none())
            && self.slot.is_none_or(Slot::is_sound)
            && is_vs_level(self.arrived)
            && self.queue.is_sound()
    }
}

/// Maximum number of entries of the domain table as a power of two.
const MAX_DOMAINS: u64 = 16;
