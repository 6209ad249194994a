//! State of the controller for each hart.

use serde::{Deserialize, Serialize};
use trapless_isa::haiov::{event, hucontext, hucsave, hveiq, hveitab};

use super::share::Share;
use crate::ring::Ring;
use crate::words::field;

/// Maximum number of entries of an event table as a power of two.
const MAX_SIZE: u64 = 10;

/// Registers of one hart.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Hart {
    /// `hveitab`.
    pub table: u64,
    pub queue: Ring,
    /// `hveiq.FLT`.
    pub fault: bool,
    /// The oldest entry of the queue.
    pub next: Option<u64>,
    /// `hucsave`.
    pub save: u64,
    /// `hucontext`.
    pub context: u64,
    pub suatp: u64,
    pub suscratch: u64,
    /// Virtual time in cycles at which the budget of the context is used up.
    pub budget_ends: u64,
    pub share: Share,
}

impl Hart {
    /// Writes `hveitab`. The table is aligned to its size (VEI-3).
    pub fn set_table(&mut self, value: u64) {
        let size = field(value, hveitab::SIZE, hveitab::SIZE_SHIFT).min(MAX_SIZE);
        let ppn = value & hveitab::PPN & !((event::SIZE << size) - 1);
        self.table = value & hveitab::V | ppn | size << hveitab::SIZE_SHIFT;
    }

    /// `hveiq`.
    pub fn queue_register(&self) -> u64 {
        self.queue.base() | if self.fault { hveiq::FLT } else { 0 }
    }

    /// Writes `hveiq`. Only the controller sets FLT; writing 1 leaves it as it is.
    pub fn set_queue(&mut self, value: u64) {
        self.fault &= value & hveiq::FLT != 0;
        self.queue.set_base(value);
        if self.queue.is_empty() {
            self.next = None;
        }
    }

    /// Writes `hucontext`, by which a context can only be removed from the hart.
    pub fn set_context(&mut self, value: u64, now: u64) {
        if value & hucontext::ADDRESS == 0 && self.context != 0 {
            self.context = 0;
            self.share.end(now);
        }
    }

    /// `hucshare`.
    pub fn share_register(&self, now: u64) -> u64 {
        // A running handler is counted when it has ended
        let now = if self.context == 0 { now } else { 0 };
        self.share.read(now)
    }

    /// Address of the entry of a request in the table; `None` if there is no such entry.
    pub fn entry(&self, request: u64) -> Option<u64> {
        let entries = 1 << field(self.table, hveitab::SIZE, hveitab::SIZE_SHIFT).min(MAX_SIZE);
        (self.table & hveitab::V != 0 && request < entries)
            .then(|| (self.table & hveitab::PPN) + request * event::SIZE)
    }

    /// Whether a restored hart can have come from this controller.
    pub fn is_sound(&self) -> bool {
        let mut same = self.clone();
        same.set_table(self.table);
        same.save &= hucsave::V | hucsave::ADDRESS;
        same.context &= hucontext::ADDRESS;
        same == *self
            && self.share.is_sound()
            && self.queue.is_sound()
            && self.next.is_some() != self.queue.is_empty()
    }
}
