//! User contexts (Xhcs): a handler in user mode interrupts a guest, in an address space of its own.

use trapless_isa::Mode;
use trapless_isa::cause::INTERRUPT;
use trapless_isa::csr::hstatus;
use trapless_isa::haiov::limits::VEI_IRQ;
use trapless_isa::port::{ContextAccess, Exchanged};
use trapless_jit::Reservation;
use trapless_ledger::event::{Event, Trap};

use crate::hart::Hart;
use crate::platform::Platform;

/// Saved words of the interrupted guest: integer registers and five others.
const KEPT: u32 = 31 + 5;
/// Words of a context that are read at its entry.
const READ: u32 = 8;

impl Hart {
    /// Interrupts by which neither the guest nor its handler is interrupted.
    pub(crate) fn withheld(&self) -> u64 {
        if self.mode.v() || self.handles(self.mode) {
            self.inputs.lines().withheld
        } else {
            0
        }
    }

    /// Whether the handler of a user context interrupts the guest now, if no interrupt does.
    pub(crate) fn context_due(&self) -> bool {
        let interrupts = &self.state.interrupts;
        self.inputs.lines().context
            && self.mode.v()
            && self.csr.hstatus & hstatus::HUR != 0
            && (interrupts.mip & interrupts.mie) >> VEI_IRQ & 1 != 0
    }

    /// Enters the handler of a user context, unless nothing is pending for it. Both take time.
    pub(super) fn enter_context(&mut self, plat: &mut dyn Platform) {
        let mut registers = self.exchanged();
        let entered = plat.enter_context(&self.exchange(), &mut registers);
        self.lines_changed();
        let reads = READ * self.config.cost.load;
        let Some(pending) = entered else {
            self.state.cycles += u64::from(reads);
            return;
        };
        let (from, epc) = (self.mode, self.state.pc);
        plat.record(&Event::Trap(Trap {
            time: self.state.cycles,
            hart: self.id,
            from,
            to: Mode::U,
            guest: self.guest(),
            cause: INTERRUPT | VEI_IRQ,
            epc,
            tval: pending,
            gpa: 0,
            insn: 0,
            args: [0; 4],
            htimedelta: self.csr.htimedelta,
            instret: self.state.instret,
        }));
        self.take_over(&registers);
        self.state.pc = self.csr.user.enter_context(from, pending);
        let cost = &self.config.cost;
        self.state.cycles += u64::from(cost.trap + KEPT * cost.store + reads);
        self.set_mode(Mode::U);
    }

    /// Ends it. Returns the address at which the guest continues; `None`, without an effect, if
    /// there is no guest to continue.
    pub(super) fn leave_context(&mut self, plat: &mut dyn Platform) -> Option<u64> {
        let mut registers = self.exchanged();
        let left = plat.leave_context(&self.exchange(), &mut registers);
        if !left {
            return None;
        }
        self.take_over(&registers);
        self.csr.user.forget_trap();
        self.state.cycles += u64::from(KEPT * self.config.cost.load);
        self.lines_changed();
        Some(registers.pc & self.pc_mask())
    }

    fn exchange(&self) -> ContextAccess {
        ContextAccess {
            hart: self.id,
            mode: self.mode,
            now: self.state.cycles,
        }
    }

    fn exchanged(&self) -> Exchanged {
        let mut x = [0; 32];
        x[1..].copy_from_slice(&self.state.x[1..32]);
        Exchanged {
            pc: self.state.pc,
            x,
            ustatus: self.csr.user.status,
            utvec: self.csr.user.tvec,
            uscratch: self.csr.user.scratch,
            satp: self.csr.hs.atp,
            sscratch: self.csr.hs.scratch,
        }
    }

    fn take_over(&mut self, registers: &Exchanged) {
        self.state.x[1..32].copy_from_slice(&registers.x[1..]);
        self.csr.user.status = registers.ustatus;
        self.csr.user.tvec = registers.utvec;
        self.csr.user.scratch = registers.uscratch;
        self.csr.hs.atp = registers.satp;
        self.csr.hs.scratch = registers.sscratch;
        self.state.reservation = Reservation::NONE;
    }
}
