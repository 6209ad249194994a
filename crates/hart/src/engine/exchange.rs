//! State that is exchanged with compiled code: prepared before it runs, read back afterwards.

use std::ptr::{from_ref, null, null_mut};

use trapless_isa::Mode;
use trapless_isa::csr::{envcfg, status};
use trapless_jit::{FLOAT_DIRTY, FLOAT_NEAREST, Options};

use crate::config::HartConfig;
use crate::csr::plain::plain_csrs;
use crate::csr::read::SSTATUS;
use crate::csr::write::VSSTATUS;
use crate::hart::Hart;
use crate::observe::activity::Activity;

/// Compiler options for harts like `config`.
pub(crate) fn options(config: &HartConfig) -> Options {
    Options {
        misaligned: config.misaligned,
        cycles_per_tick: config.cycles_per_tick,
        status_shown: SSTATUS,
        status_written: VSSTATUS as u32,
        float_switchable: config.extensions.fd,
        plain_csrs: plain_csrs(config),
    }
}

impl Hart {
    /// Updates the fields of the context that depend on the turn, and pointers to what others may
    /// have changed since the last one.
    #[inline]
    pub(super) fn prepare_turn(&mut self) {
        self.watch.meter.set(Activity::Compiled);
        let arrays = self.tlb.arrays();
        self.state.data_tlb = arrays.data;
        self.state.twin_tlb = arrays.twin;
        self.state.fetch_tlb = arrays.fetch;
        self.prepare_timer();
    }

    /// Updates the fields of the context that compiled code reads and others change.
    #[inline]
    pub(super) fn prepare(&mut self) {
        self.prepare_turn();
        let (bank, status) = match self.mode {
            Mode::HS => (&raw mut self.csr.hs, &raw mut self.csr.mstatus),
            Mode::VS => (&raw mut self.csr.vs, &raw mut self.csr.vsstatus),
            _ => (null_mut(), null_mut()),
        };
        if self.mode == Mode::HS {
            let register = self.vsie_register();
            self.state.csr.vsie_from = register.map_or(null(), from_ref);
            self.state.csr.vsie_shown = self.vs_view();
        }
        self.state.csr.bank = bank.cast();
        self.state.csr.status = status;
        self.state.csr.hs = u8::from(self.mode == Mode::HS && self.plain_csrs_open());
        self.state.csr.machine = u8::from(self.mode == Mode::M);
        self.state.csr.time_readable = u8::from(self.time_readable());
        self.state.csr.zero_block = u8::from(self.cache_block_fault(envcfg::CBZE).is_none());
        self.state.csr.time_delta = if self.mode.v() {
            self.csr.htimedelta
        } else {
            0
        };
        let dirty = |status: u64| status & status::FS == status::FS;
        let machine = dirty(self.csr.mstatus);
        self.state.float.ready = match (machine || !self.mode.v(), self.state.float.frm) {
            (true, 0) => FLOAT_DIRTY | FLOAT_NEAREST,
            (true, _) => FLOAT_DIRTY,
            (false, _) => 0,
        };
        let on =
            machine && (!self.mode.v() || dirty(self.csr.vsstatus)) && !self.handles(self.mode);
        self.state.float.state = if on { self.state.float.ready } else { 0 };
    }

    /// Reads back changes by compiled code: SUM, and exception flags.
    #[inline]
    pub(super) fn take_changes(&mut self) {
        if self.state.sum_changes != 0 {
            self.tlb.sum_changed(self.state.sum_changes);
            self.state.sum_changes = 0;
        }
        self.state.float.fflags |= self.state.float.raised();
    }
}
