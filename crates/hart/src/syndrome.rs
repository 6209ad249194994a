//! Information of an exception for its handler.

use trapless_isa::{Inst, Mode};

/// An instruction raised an exception, which is in [`Hart::syndrome`](crate::Hart).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault;

/// Values that an exception will write to the trap CSRs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syndrome {
    /// `xcause`.
    pub cause: u64,
    /// `xtval`.
    pub tval: u64,
    /// `tval` is a guest virtual address.
    pub gva: bool,
    /// Guest physical address of a guest-page fault.
    pub gpa: u64,
    /// `htinst`/`mtinst`.
    pub tinst: u64,
    /// Instruction bits for the ledger.
    pub insn: u32,
    /// Physical address of the doorbell page that may handle the access instead (Xvei).
    pub doorbell: Option<u64>,
}

impl Syndrome {
    /// With nothing but a cause.
    pub fn of(cause: u64) -> Self {
        Self {
            cause,
            ..Self::default()
        }
    }

    /// With an address in `xtval`, of an access with the rights of `mode`.
    pub fn at(cause: u64, tval: u64, mode: Mode) -> Self {
        Self {
            cause,
            tval,
            gva: mode.v(),
            ..Self::default()
        }
    }

    /// With an instruction in `xtval`.
    pub fn instruction(cause: u64, inst: &Inst) -> Self {
        Self {
            cause,
            tval: u64::from(inst.raw),
            insn: inst.raw,
            ..Self::default()
        }
    }
}
