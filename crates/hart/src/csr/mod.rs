//! CSR instructions: access rules first ([`check`]), then the register itself.
//!
//! | module | subject |
//! |---|---|
//! | [`check`] | access rights, and exceptions of denied accesses |
//! | [`read`], [`write`] | the registers |
//! | [`interrupts`] | the views of `mip` and `mie` |
//! | [`plain`] | CSRs that compiled code accesses itself |
//! | [`registers`] | their storage |
//! | [`priority`] | default priorities of interrupts |
//! | [`timers`] | when comparators fire |
//! | [`aia`] | Smaia and Ssaia |
//! | [`user`], [`user_traps`] | user-level traps (Xuer): rules, registers |
//! | [`fields`] | what writes leave of fields |
//! | [`counters`] | cycle, instret, time, performance counters |

pub(crate) mod aia;
mod check;
pub(crate) mod counters;
mod fields;
pub(crate) mod interrupts;
pub(crate) mod plain;
pub(crate) mod priority;
pub(crate) mod read;
pub(crate) mod registers;
pub(crate) mod timers;
pub(crate) mod user;
pub(crate) mod user_traps;
pub(crate) mod write;

use trapless_isa::inst::{Inst, Op};
use trapless_isa::port::{CsrAccess, CsrFault, CsrOp};
use trapless_isa::{Priv, csr};

use crate::hart::Hart;
use crate::platform::Platform;
use crate::syndrome::Fault;

/// Whether a CSR shows interrupt inputs of the hart, or depends on them.
fn shows_inputs(target: u16) -> bool {
    matches!(
        target,
        csr::MIP
            | csr::SIP
            | csr::HIP
            | csr::VSIP
            | csr::HGEIP
            | csr::MVIP
            | csr::MTOPI
            | csr::STOPI
            | csr::VSTOPI
    )
}

impl Hart {
    /// Executes one of the six CSR instructions.
    pub(crate) fn csr_instruction(
        &mut self,
        inst: &Inst,
        plat: &mut dyn Platform,
    ) -> Result<(), Fault> {
        let addr = inst.imm as u16 & 0xFFF;
        let immediate = matches!(inst.op, Op::Csrrwi | Op::Csrrsi | Op::Csrrci);
        let operand = if immediate {
            u64::from(inst.rs1)
        } else {
            self.state.x[usize::from(inst.rs1 & 63)]
        };
        match self.csr_access(addr, CsrOp::of(inst, operand), plat) {
            Ok(old) => {
                self.state.x[usize::from(inst.rd & 63)] = old;
                Ok(())
            }
            Err(CsrFault::Illegal) => self.illegal(inst),
            Err(CsrFault::Virtual) => self.virtual_instruction(inst),
        }
    }

    /// Access to one of the hart's own CSRs by the current mode. `None`, without an effect, if it
    /// is denied, if the CSR is not the hart's, or if a write may drop TLB entries.
    pub(crate) fn own_csr(&mut self, addr: u16, op: CsrOp, plat: &mut dyn Platform) -> Option<u64> {
        if addr == csr::SSTATUS && self.mode.privilege() == Priv::S {
            // Frequent, and without further access rights.
            return Some(self.change_sstatus(op));
        }
        self.csr_check(addr, op != CsrOp::Read, plat).ok()?;
        if (csr::PMPCFG0..=0x3EF).contains(&addr) {
            return None;
        }
        self.change_csr(self.csr_alias(addr), op, plat)
    }

    fn csr_access(
        &mut self,
        addr: u16,
        op: CsrOp,
        plat: &mut dyn Platform,
    ) -> Result<u64, CsrFault> {
        self.csr_check(addr, op != CsrOp::Read, plat)?;
        let target = self.csr_alias(addr);
        match self.change_csr(target, op, plat) {
            Some(old) => Ok(old),
            None => self
                .aia_window(target, op, plat)
                .unwrap_or_else(|| self.foreign_csr(addr, op, plat)),
        }
    }

    /// Reads and writes a CSR after aliasing; `None` if the hart does not have it.
    fn change_csr(&mut self, target: u16, op: CsrOp, plat: &mut dyn Platform) -> Option<u64> {
        if shows_inputs(target) && self.inputs.are_outdated(self.state.cycles) {
            // Otherwise done at the end of this block only; a program that has just written
            // `mtimecmp` or `msip` must see the effect.
            self.refresh(plat);
        }
        let old = self.csr_read(target)?;
        if let Some(new) = op.written(self.software_bits(target, old)) {
            if target == csr::VSIP {
                self.write_vsip(op, new, plat);
            } else {
                self.csr_write(target, new, plat);
            }
        }
        Some(old)
    }

    /// The part of a CSR's value that may be written back: bits that interrupt hardware drives must
    /// not be copied into the software bits by a read-modify-write (privileged specification,
    /// "Machine Interrupt (mip and mie) Registers").
    fn software_bits(&self, target: u16, value: u64) -> u64 {
        match target {
            csr::MIP => value & !self.lines_only(),
            _ => value,
        }
    }

    /// The register that a supervisor CSR address accesses: its VS counterpart when V=1.
    pub fn csr_alias(&self, addr: u16) -> u16 {
        let banked = matches!(
            addr,
            csr::SSTATUS
                | csr::SIE
                | csr::STVEC
                | csr::SSCRATCH
                | csr::SEPC
                | csr::SCAUSE
                | csr::STVAL
                | csr::SIP
                | csr::STIMECMP
                | csr::SISELECT
                | csr::SIREG
                | csr::STOPEI
                | csr::STOPI
                | csr::SATP
        );
        if banked && self.mode.v() {
            addr + 0x100
        } else {
            addr
        }
    }

    fn foreign_csr(
        &mut self,
        csr: u16,
        op: CsrOp,
        plat: &mut dyn Platform,
    ) -> Result<u64, CsrFault> {
        let vmid = self.vmid();
        let access = CsrAccess {
            hart: self.id,
            csr,
            mode: self.mode,
            vmid,
            now: self.state.cycles,
            op,
        };
        let value = plat.csr(&access);
        self.state.cycles += u64::from(plat.take_delay());
        let value = value?;
        // The CSR is in the interrupt architecture: the access is priced like that of a device.
        self.state.cycles += u64::from(self.config.cost.device);
        self.lines_changed();
        Ok(value)
    }

    /// Value of a CSR as the current mode would read it, without rights checks or side effects;
    /// `None` if the hart has no such CSR. For debuggers and logs.
    pub fn peek_csr(&self, addr: u16) -> Option<u64> {
        self.csr_read(self.csr_alias(addr))
    }

    /// As [`peek_csr`](Self::peek_csr), but as M-mode would read it: `sstatus` is HS-mode's even
    /// when V=1.
    pub fn peek_csr_as_m(&self, addr: u16) -> Option<u64> {
        self.csr_read(addr)
    }

    /// Writes a CSR as M-mode would. For debuggers, which write back what they have read: bits of
    /// `mip` that interrupt hardware drives now do not become software bits. `false` if the hart
    /// has no such CSR.
    pub fn poke_csr(&mut self, addr: u16, value: u64, plat: &mut dyn Platform) -> bool {
        let known = self.csr_read(addr).is_some() && !check::is_read_only(addr);
        if known {
            let value = self.software_bits(addr, value);
            self.csr_write(addr, value, plat);
            self.attention();
        }
        known
    }
}
