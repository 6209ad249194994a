//! CSR accesses, for the circuit and for the model.

use std::fmt;

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::csr;

/// `stimecmp`.
pub const STIMECMP: u16 = 0x14d;
/// `vstimecmp`.
pub const VSTIMECMP: u16 = 0x24d;

/// An access of a hart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// CSR.
    pub csr: u16,
    /// Mode of the hart.
    pub mode: Mode,
    /// What the instruction does.
    pub op: CsrOp,
}

impl Access {
    /// HS-mode writes.
    #[must_use]
    pub fn hs(csr: u16, value: u64) -> Self {
        Self {
            csr,
            mode: Mode::HS,
            op: CsrOp::Write(value),
        }
    }

    /// `req_mode`.
    #[must_use]
    pub fn port_mode(self) -> u8 {
        match self.mode {
            Mode::M => 0b011,
            Mode::HS => 0b001,
            Mode::U => 0b000,
            Mode::VS => 0b101,
            Mode::VU => 0b100,
        }
    }

    /// `req_op` and `req_operand`.
    #[must_use]
    pub fn port_op(self) -> (u8, u64) {
        port_op(self.op)
    }

    /// `stimecmp` or `vstimecmp`, which the model of the controller does not have.
    #[must_use]
    pub fn is_timer(self) -> bool {
        matches!(self.csr, STIMECMP | VSTIMECMP)
    }

    /// A guest's `sgenipi` with a mask.
    #[must_use]
    pub fn sends(self) -> bool {
        self.csr == csr::SGENIPI && self.mode == Mode::VS && self.op != CsrOp::Read
    }

    /// The value that is written, if the instruction only writes or swaps.
    #[must_use]
    pub fn value(self) -> u64 {
        self.port_op().1
    }
}

/// `req_op` and `req_operand`.
#[must_use]
pub fn port_op(op: CsrOp) -> (u8, u64) {
    match op {
        CsrOp::Read => (0, 0),
        CsrOp::Write(value) => (1, value),
        CsrOp::Swap(value) => (2, value),
        CsrOp::Set(bits) => (3, bits),
        CsrOp::Clear(bits) => (4, bits),
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.csr {
            csr::UGENVSEI => "ugenvsei",
            csr::SGENIPI => "sgenipi",
            csr::VSCLAIM => "vsclaim",
            csr::VSENABLE => "vsenable",
            csr::VSTHRESHOLD => "vsthreshold",
            csr::HIFMAP => "hifmap",
            csr::HTLCFG => "htlcfg",
            csr::HGENVSI => "hgenvsi",
            csr::HNOTIFY => "hnotify",
            csr::HGRANT => "hgrant",
            csr::HNQBASE => "hnqbase",
            csr::HVTABLEBASE => "hvtablebase",
            VSIP => "vsip",
            STIMECMP => "stimecmp",
            VSTIMECMP => "vstimecmp",
            other => return write!(f, "{:?} {:?} {other:#x}", self.mode, self.op),
        };
        match self.op {
            CsrOp::Read => write!(f, "{:?} reads {name}", self.mode),
            CsrOp::Write(value) => write!(f, "{:?} writes {name}, {value:#x}", self.mode),
            CsrOp::Swap(value) => write!(f, "{:?} swaps {name}, {value:#x}", self.mode),
            CsrOp::Set(bits) => write!(f, "{:?} sets {name}, {bits:#x}", self.mode),
            CsrOp::Clear(bits) => write!(f, "{:?} clears {name}, {bits:#x}", self.mode),
        }
    }
}
