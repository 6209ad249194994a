//! Traps and their returns (privileged specification, "Privilege and Global Interrupt-Enable Stack
//! in mstatus register" and "Traps" of the hypervisor extension).

use trapless_isa::cause::{INTERRUPT, exception};
use trapless_isa::csr::{hstatus, status};
use trapless_isa::inst::Inst;
use trapless_isa::{Mode, Priv};
use trapless_ledger::event::{Event, Return, Trap};

use crate::csr::interrupts::VS_BITS;
use crate::csr::priority::{RAW, first};
use crate::csr::registers::{Csrs, HpmEvent};
use crate::hart::Hart;
use crate::observe::activity::Activity;
use crate::platform::Platform;
use crate::syndrome::{Fault, Syndrome};

/// Position of `mstatus.MPP`.
const MPP_SHIFT: u32 = status::MPP.trailing_zeros();
/// Position of `hstatus.SPVP`.
const SPVP_SHIFT: u32 = hstatus::SPVP.trailing_zeros();
/// Distance of MPIE and SPIE from MIE and SIE.
const PIE_SHIFT: u32 = status::SPIE.trailing_zeros() - status::SIE.trailing_zeros();

impl Hart {
    /// The interrupt to take now, and the mode that takes it.
    pub(crate) fn pending_interrupt(&self) -> Option<(u64, Mode)> {
        if !self.state.interrupts.enabled_pending() {
            return None;
        }
        if self.has_aia() {
            // `aia_choice` determines which one it is.
            return self.aia_pending().map(|to| (0, to));
        }
        let c = &self.csr;
        let mut pending = self.state.interrupts.mip & self.state.interrupts.mie & !self.withheld();
        let mideleg = self.mideleg();
        let m = pending & !mideleg;
        if m != 0 && (self.mode != Mode::M || c.mstatus & status::MIE != 0) {
            return first(m).map(|irq| (irq, Mode::M));
        }
        if self.mode == Mode::M {
            return None;
        }
        // With separate bits, the host takes its own VS-level interrupts at V=0, delegated or not,
        // and those of the guest have their own registers.
        let (mut hideleg, mut guest) = (c.hideleg, pending & mideleg & c.hideleg);
        if self.inputs.lines().split {
            hideleg &= !VS_BITS;
            if self.mode.v() || self.handles(self.mode) {
                pending &= !VS_BITS;
            }
            guest = self.state.interrupts.vsip & self.state.interrupts.vsie & c.hideleg;
        }
        let hs = pending & mideleg & !hideleg;
        if hs != 0 && (self.mode != Mode::HS || c.mstatus & status::SIE != 0) {
            return first(hs).map(|irq| (irq, Mode::HS));
        }
        let vs_enabled = match self.mode {
            Mode::VU => true,
            Mode::VS => c.vsstatus & status::SIE != 0,
            _ => false,
        };
        if guest != 0 && vs_enabled {
            return first(guest).map(|irq| (irq, Mode::VS));
        }
        None
    }

    /// Takes an interrupt at the current `pc`.
    pub(crate) fn take_interrupt(&mut self, irq: u64, to: Mode, plat: &mut dyn Platform) {
        // VS-mode sees its interrupts under their supervisor numbers.
        let code = if irq & RAW != 0 {
            irq & !RAW
        } else if to == Mode::VS && VS_BITS >> irq & 1 != 0 {
            irq - 1
        } else {
            irq
        };
        self.syndrome = Syndrome::of(INTERRUPT | code);
        self.enter(to, self.state.pc, plat);
    }

    /// Takes the exception described by [`Hart::syndrome`], raised by the instruction at `epc`.
    pub(crate) fn take_exception(&mut self, epc: u64, plat: &mut dyn Platform) {
        let bit = 1u64
            << match self.syndrome.cause {
                exception::HANDLER_END => exception::ECALL_U,
                cause => cause & 63,
            };
        let to = if self.redirects(self.syndrome.cause) {
            Mode::U
        } else if self.mode == Mode::M || self.csr.medeleg & bit == 0 {
            Mode::M
        } else if self.mode.v() && self.csr.hedeleg & bit != 0 {
            Mode::VS
        } else {
            Mode::HS
        };
        self.enter(to, epc, plat);
    }

    fn enter(&mut self, to: Mode, epc: u64, plat: &mut dyn Platform) {
        let before = self.watch.meter.enter(Activity::Trap);
        let from = self.mode;
        // Events come first, while mode, registers and time are those of the trapping instruction;
        // the trap is one of the thread that was running.
        if to == Mode::HS {
            self.note_thread(from, plat);
        }
        self.record_trap(to, epc, plat);
        if from.v() && !to.v() {
            // Whatever the guest has changed: `masked` is about the host.
            self.state.csr.status_changed = 0;
        }
        let s = self.syndrome;
        let c = &mut self.csr;
        let tvec = match to {
            Mode::M => c.enter_m(from, epc, &s),
            Mode::VS => c.enter_vs(from, epc, &s),
            Mode::U => c.user.enter(from, epc, &s),
            _ => c.enter_hs(from, epc, &s, self.config.extensions.h),
        };
        let vectored = tvec & 1 != 0 && s.cause & INTERRUPT != 0;
        self.state.pc = (tvec & !3)
            + if vectored {
                4 * (s.cause & !INTERRUPT)
            } else {
                0
            };
        self.state.cycles += u64::from(self.config.cost.trap);
        // Last: it selects contexts and checks interrupts by the CSRs written above.
        self.set_mode(to);
        self.watch.meter.leave(before);
    }

    /// Records the trap in the ledger.
    fn record_trap(&self, to: Mode, epc: u64, plat: &mut dyn Platform) {
        let s = &self.syndrome;
        let is_ecall = matches!(
            s.cause,
            exception::ECALL_U | exception::ECALL_S | exception::ECALL_VS | exception::ECALL_M
        );
        plat.record(&Event::Trap(Trap {
            time: self.state.cycles,
            hart: self.id,
            from: self.mode,
            to,
            guest: self.guest(),
            cause: s.cause,
            epc,
            tval: s.tval,
            gpa: s.gpa,
            insn: s.insn,
            args: if is_ecall {
                [10, 11, 16, 17].map(|register| self.state.x[register])
            } else {
                [0; 4]
            },
            htimedelta: self.csr.htimedelta,
            instret: self.state.instret,
        }));
    }

    /// `mret`.
    pub(crate) fn mret(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<u64, Fault> {
        if self.mode != Mode::M {
            return self.illegal(inst);
        }
        let m = self.csr.mstatus;
        let privilege = Priv::from_bits(m >> MPP_SHIFT);
        let to = Mode::new(privilege, m & status::MPV != 0);
        let mut new = m & !(status::MPP | status::MPV | status::MIE | status::MPIE);
        new |= (m & status::MPIE) >> PIE_SHIFT | status::MPIE;
        if to != Mode::M {
            new &= !status::MPRV;
        }
        self.csr.mstatus = new;
        let target = self.csr.mepc & self.pc_mask();
        self.leave(to, target, plat);
        Ok(target)
    }

    /// `sret` in M-, HS- and VS-mode.
    pub(crate) fn sret(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<u64, Fault> {
        let c = &mut self.csr;
        match self.mode {
            Mode::U => return self.illegal(inst),
            Mode::VU => return self.virtual_instruction(inst),
            Mode::HS if c.mstatus & status::TSR != 0 => return self.illegal(inst),
            Mode::VS if c.hstatus & hstatus::VTSR != 0 => {
                return self.virtual_instruction(inst);
            }
            _ => {}
        }
        let (to, target) = if self.mode == Mode::VS {
            let (new, privilege) = popped(c.vsstatus);
            c.vsstatus = new;
            (Mode::new(privilege, true), c.vs.epc)
        } else {
            let (new, privilege) = popped(c.mstatus);
            c.mstatus = new & !status::MPRV;
            let v = c.hstatus & hstatus::SPV != 0;
            c.hstatus &= !hstatus::SPV;
            (Mode::new(privilege, v), c.hs.epc)
        };
        let target = target & self.pc_mask();
        self.leave(to, target, plat);
        Ok(target)
    }

    /// `uret` in U-mode, at the end of a user-level handler (Xuer).
    pub(crate) fn uret(&mut self, inst: &Inst, plat: &mut dyn Platform) -> Result<u64, Fault> {
        if !self.handles(self.mode) {
            return self.illegal(inst);
        }
        if self.config.extensions.xhcs && self.csr.user.began_in_hs() {
            return self.raise(Syndrome::of(exception::HANDLER_END));
        }
        let to = self.csr.user.interrupted();
        let target = if self.csr.user.in_context() {
            match self.leave_context(plat) {
                Some(target) => target,
                // HCS-15: no context runs here, or its guest cannot be accessed.
                None => return self.illegal(inst),
            }
        } else {
            self.csr.user.leave();
            self.csr.user.epc & self.pc_mask()
        };
        self.leave(to, target, plat);
        Ok(target)
    }

    pub(super) fn leave(&mut self, to: Mode, pc: u64, plat: &mut dyn Platform) {
        self.state.cycles += u64::from(self.config.cost.xret);
        if to.v() && matches!(self.mode, Mode::M | Mode::HS) {
            self.csr.events[HpmEvent::GuestEntry as usize] += 1;
        }
        if to.v() && !self.mode.v() && self.has_aia() {
            self.note_file(plat);
        }
        if self.mode == Mode::HS {
            self.note_thread(to, plat);
        }
        plat.record(&Event::Return(Return {
            time: self.state.cycles,
            hart: self.id,
            from: self.mode,
            to,
            guest: self.guest(),
            pc,
            instret: self.state.instret,
            masked: self.mode == Mode::HS
                && to.v()
                && u64::from(self.state.csr.status_changed) & status::SIE == 0,
        }));
        self.set_mode(to);
    }

    /// Changes the mode and everything that depends on it.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        if (mode.v() || self.handles(mode)) && !self.mode.v() && self.csr.host_pending != 0 {
            // Interrupts that arrived meanwhile are pending for the guest as well.
            self.csr.host_pending = 0;
            self.attention();
        }
        self.mode = mode;
        self.select_contexts();
        self.recheck();
    }
}

/// CSR writes of a trap from `from` with the syndrome `s`, for each mode that it may enter. Each
/// returns `xtvec`.
impl Csrs {
    fn enter_m(&mut self, from: Mode, epc: u64, s: &Syndrome) -> u64 {
        self.events[HpmEvent::TrapM as usize] += 1;
        self.mepc = epc;
        self.mcause = s.cause;
        self.mtval = s.tval;
        self.mtval2 = s.gpa >> 2;
        self.mtinst = s.tinst;
        let mut m =
            self.mstatus & !(status::MPP | status::MPIE | status::MIE | status::MPV | status::GVA);
        m |= (from.privilege() as u64) << MPP_SHIFT;
        m |= (self.mstatus & status::MIE) << PIE_SHIFT;
        if from.v() {
            m |= status::MPV;
        }
        if s.gva {
            m |= status::GVA;
        }
        self.mstatus = m;
        self.mtvec
    }

    fn enter_vs(&mut self, from: Mode, epc: u64, s: &Syndrome) -> u64 {
        self.events[HpmEvent::TrapVs as usize] += 1;
        self.vs.epc = epc;
        self.vs.cause = s.cause;
        self.vs.tval = s.tval;
        self.vsstatus = pushed(self.vsstatus, from);
        self.vs.tvec
    }

    /// `h`: there is the hypervisor extension.
    fn enter_hs(&mut self, from: Mode, epc: u64, s: &Syndrome, h: bool) -> u64 {
        let event = if from.v() {
            HpmEvent::GuestExit
        } else {
            HpmEvent::TrapHs
        };
        self.events[event as usize] += 1;
        self.hs.epc = epc;
        self.hs.cause = s.cause;
        self.hs.tval = s.tval;
        self.mstatus = pushed(self.mstatus, from);
        if h {
            self.htval = s.gpa >> 2;
            self.htinst = s.tinst;
            let mut h = self.hstatus & !(hstatus::SPV | hstatus::GVA);
            if from.v() {
                h |= hstatus::SPV;
                h = h & !hstatus::SPVP | (from.privilege() as u64) << SPVP_SHIFT;
            }
            if s.gva {
                h |= hstatus::GVA;
            }
            self.hstatus = h;
        }
        self.hs.tvec
    }
}

/// `sstatus`-like register after a trap from `from`.
fn pushed(old: u64, from: Mode) -> u64 {
    let mut new = old & !(status::SPP | status::SPIE | status::SIE);
    if from.privilege() == Priv::S {
        new |= status::SPP;
    }
    new | (old & status::SIE) << PIE_SHIFT
}

/// `sstatus`-like register after `sret`, and the privilege to return to.
fn popped(old: u64) -> (u64, Priv) {
    let privilege = if old & status::SPP != 0 {
        Priv::S
    } else {
        Priv::U
    };
    let new = old & !(status::SPP | status::SIE);
    (
        new | (old & status::SPIE) >> PIE_SHIFT | status::SPIE,
        privilege,
    )
}
