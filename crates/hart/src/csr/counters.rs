//! Counters: `cycle`, `instret`, `time` and the hardware performance monitor.
//!
//! `mhpmcounter3..6` count one of the events of [`HpmEvent`]; the others read zero.

use crate::csr::registers::{HPM_COUNTERS, HPM_EVENTS};
use crate::hart::Hart;

/// Bits of `mcountinhibit` that can be set: CY, IR and the implemented counters.
pub(super) const INHIBIT_MASK: u64 = 0b101 | ((1 << HPM_COUNTERS) - 1) << 3;

impl Hart {
    pub(super) fn mcycle(&self) -> u64 {
        if self.csr.mcountinhibit & 1 != 0 {
            self.csr.cycle_stopped
        } else {
            self.state.cycles.wrapping_add(self.csr.cycle_offset)
        }
    }

    /// Instructions retired before the one that reads; a CSR instruction ends its block, so the
    /// block's whole length has been counted.
    pub(super) fn minstret(&self) -> u64 {
        if self.csr.mcountinhibit & 4 != 0 {
            self.csr.instret_stopped
        } else {
            self.state
                .instret
                .wrapping_sub(1)
                .wrapping_add(self.csr.instret_offset)
        }
    }

    pub(super) fn set_mcycle(&mut self, value: u64) {
        self.csr.cycle_stopped = value;
        self.csr.cycle_offset = value.wrapping_sub(self.state.cycles);
    }

    /// The next instruction reads the written value: the write itself is not counted.
    pub(super) fn set_minstret(&mut self, value: u64) {
        self.csr.instret_stopped = value;
        self.csr.instret_offset = value.wrapping_sub(self.state.instret);
    }

    pub(super) fn set_mcountinhibit(&mut self, value: u64) {
        let (cycle, instret) = (self.mcycle(), self.minstret());
        self.csr.mcountinhibit = value & INHIBIT_MASK;
        self.set_mcycle(cycle);
        self.set_minstret(instret);
    }

    fn hpm_count(&self, index: usize) -> u64 {
        let event = self.csr.hpm_event[index] as usize;
        if event < HPM_EVENTS {
            self.csr.events[event]
        } else {
            0
        }
    }

    /// `mhpmcounter<3 + index>`.
    pub(super) fn hpm_counter(&self, index: usize) -> u64 {
        if index >= HPM_COUNTERS {
            return 0;
        }
        self.hpm_count(index)
            .wrapping_add(self.csr.hpm_offset[index])
    }

    pub(super) fn set_hpm_counter(&mut self, index: usize, value: u64) {
        if index < HPM_COUNTERS {
            self.csr.hpm_offset[index] = value.wrapping_sub(self.hpm_count(index));
        }
    }

    /// `mhpmevent<3 + index>`; unknown events count nothing and read as written.
    pub(super) fn set_hpm_event(&mut self, index: usize, value: u64) {
        if index < HPM_COUNTERS {
            let count = self.hpm_counter(index);
            self.csr.hpm_event[index] = if value < HPM_EVENTS as u64 { value } else { 0 };
            self.set_hpm_counter(index, count);
        }
    }
}
