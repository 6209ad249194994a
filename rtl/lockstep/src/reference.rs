//! The model of the project, with what a hart adds to it: the latches of `hip`.

use std::sync::Arc;

use trapless_intc::aclint_plic;
use trapless_intc::trapless::{Config, Trapless};
use trapless_intc::{CsrAccess, CsrFault, CsrOp, Effects, InterruptArchitecture, Snapshot};
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{csr, hifmap, limits};

use crate::access::Access;
use crate::memory::Shared;

/// What a hart sees.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Seen {
    /// `vsip.SSIP` and `vsip.SEIP`.
    pub terms: u8,
    /// `hip.VSSIP` and `hip.VSEIP`.
    pub latches: u8,
    /// Interrupt 24.
    pub notify: bool,
    /// `htlcfg.EN`.
    pub split: bool,
    /// `sip.SSIP` has been set since this was last cleared.
    pub ipi: bool,
}

/// An answer: data, or an exception as `rsp_fault` has it.
pub type Answer = Result<u64, u8>;

/// The model.
pub struct Reference {
    intc: Trapless,
    effects: Effects,
    /// Its memory.
    pub memory: Shared,
    /// V of each hart.
    pub v: Vec<bool>,
    /// What each hart sees.
    pub seen: Vec<Seen>,
}

impl Reference {
    /// After reset.
    #[must_use]
    pub fn new(harts: usize) -> Self {
        let config = Config {
            aclint: aclint_plic::Config {
                harts,
                cycles_per_tick: 1,
                sswi: false,
                edge_triggered: 0,
            },
            h: true,
        };
        let memory = Shared::new();
        let mut intc = Trapless::new(config);
        intc.attach_memory(Arc::new(memory.clone()));
        let mut effects = Effects::default();
        effects.steps.record();
        Self {
            intc,
            effects,
            memory,
            v: vec![false; harts],
            seen: vec![Seen::default(); harts],
        }
    }

    /// Carries an access out.
    pub fn access(&mut self, hart: usize, access: Access) -> Answer {
        // BIT-4: without the bit in its operand, an instruction has no business here.
        if access.csr == VSIP {
            if let CsrOp::Read | CsrOp::Set(_) | CsrOp::Clear(_) = access.op {
                if access.value() & 2 == 0 {
                    return Ok(0);
                }
            }
        }
        let access = CsrAccess {
            hart,
            csr: access.csr,
            mode: access.mode,
            vmid: 0,
            now: 0,
            op: access.op,
        };
        let answer = self.intc.csr(&access, &mut self.effects);
        self.effects.steps.drain().for_each(drop);
        self.look();
        answer.map_err(|fault| match fault {
            CsrFault::Illegal => 1,
            CsrFault::Virtual => 2,
        })
    }

    /// Domain and vhart in the slot of a hart.
    pub fn slot(&mut self, hart: usize) -> Option<(u16, u16)> {
        let read = Access {
            csr: csr::HIFMAP,
            mode: Mode::HS,
            op: CsrOp::Read,
        };
        let value = self.access(hart, read).expect("HS-mode may read hifmap");
        let dom = (value & hifmap::DOM) >> hifmap::DOM_SHIFT;
        (value & hifmap::V != 0).then_some((dom as u16, (value & hifmap::VHART) as u16))
    }

    /// Resets one hart (ACC-4).
    pub fn reset(&mut self, hart: usize) {
        let fresh = Self::new(1).intc.save();
        let mut saved = self.intc.save();
        saved["xtrapless"]["harts"][hart] = fresh["xtrapless"]["harts"][0].clone();
        self.intc
            .restore(&saved)
            .expect("it is a state of this model");
        self.seen[hart] = Seen::default();
        self.look();
    }

    /// Changes V of a hart.
    pub fn set_v(&mut self, hart: usize, v: bool) {
        self.v[hart] = v;
        if v {
            self.seen[hart].latches = 0;
        }
    }

    fn look(&mut self) {
        for (hart, seen) in self.seen.iter_mut().enumerate() {
            let lines = self.intc.lines(hart, 0);
            let pair = |bits: u64| (bits >> 2 & 1 | bits >> 9 & 2) as u8;
            seen.terms = pair(lines.level);
            seen.notify = lines.level >> limits::NOTIFY_IRQ & 1 != 0;
            seen.split = lines.split;
            seen.ipi |= lines.pulse & 2 != 0;
            if !self.v[hart] {
                seen.latches |= pair(lines.arrived);
            }
        }
    }
}
