//! Levels that handle traps, and their registers.

use trapless_isa::csr;

use crate::asm::reg::{SP, T0, T1};
use crate::asm::{self, Asm};
use crate::layout::{ctx, kind};

/// Differences between the handlers of M, HS and VS.
pub(super) struct Level {
    /// Kind of its entries in the log.
    pub kind: u64,
    /// Offset of its registers in the context.
    pub frame: i32,
    scratch: u16,
    cause: u16,
    pub epc: u16,
    /// CSRs logged after cause and epc.
    pub logged: &'static [u16],
    /// Instruction that returns from a trap.
    pub ret: u32,
    /// CSRs in which an interrupt is disabled.
    pub enables: &'static [u16],
}

pub(super) const M: Level = Level {
    kind: kind::M,
    frame: ctx::FRAME_M,
    scratch: csr::MSCRATCH,
    cause: csr::MCAUSE,
    epc: csr::MEPC,
    logged: &[csr::MTVAL, csr::MTVAL2, csr::MTINST, csr::MSTATUS],
    enables: &[csr::MIE],
    ret: asm::MRET,
};
pub(super) const HS: Level = Level {
    kind: kind::HS,
    frame: ctx::FRAME_HS,
    scratch: csr::SSCRATCH,
    cause: csr::SCAUSE,
    epc: csr::SEPC,
    logged: &[
        csr::STVAL,
        csr::HTVAL,
        csr::HTINST,
        csr::SSTATUS,
        csr::HSTATUS,
    ],
    enables: &[csr::SIE, csr::HIE],
    ret: asm::SRET,
};
/// In VS-mode the supervisor CSR names refer to the VS CSRs.
pub(super) const VS: Level = Level {
    kind: kind::VS,
    frame: ctx::FRAME_VS,
    scratch: csr::SSCRATCH,
    cause: csr::SCAUSE,
    epc: csr::SEPC,
    logged: &[csr::STVAL, csr::SSTATUS],
    enables: &[csr::SIE],
    ret: asm::SRET,
};

/// Saves the registers in the level's frame; `sp` is the context. Leaves `t0` = epc, `t1` = cause.
pub(super) fn save(a: &mut Asm, level: &Level) {
    a.csrrw(SP, level.scratch, SP);
    for r in 1..32 {
        if r != SP {
            a.sd(r, SP, level.frame + 8 * r as i32);
        }
    }
    a.csrr(T0, level.scratch);
    a.sd(T0, SP, level.frame + 8 * SP as i32);
    a.csrw(level.scratch, SP);
    a.csrr(T0, level.epc);
    a.csrr(T1, level.cause);
}

/// Restores the registers.
pub(super) fn restore(a: &mut Asm, level: &Level) {
    for r in 1..32 {
        if r != SP {
            a.ld(r, SP, level.frame + 8 * r as i32);
        }
    }
    a.ld(SP, SP, level.frame + 8 * SP as i32);
}
