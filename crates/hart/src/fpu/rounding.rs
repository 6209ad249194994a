//! Rounding modes and exception flags.

/// Accrued exception flags, at their positions in `fflags`.
pub mod flag {
    /// Inexact.
    pub const NX: u8 = 1 << 0;
    /// Underflow.
    pub const UF: u8 = 1 << 1;
    /// Overflow.
    pub const OF: u8 = 1 << 2;
    /// Division by zero.
    pub const DZ: u8 = 1 << 3;
    /// Invalid operation.
    pub const NV: u8 = 1 << 4;
}

/// Rounding mode, numbered as in `frm` and in the `rm` field of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rounding {
    /// To nearest, ties to even.
    Rne = 0,
    /// Towards zero.
    Rtz = 1,
    /// Down.
    Rdn = 2,
    /// Up.
    Rup = 3,
    /// To nearest, ties away from zero.
    Rmm = 4,
}

impl Rounding {
    /// Decodes `frm` or a static `rm`; `None` for the reserved values and for 7 (dynamic).
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Rne,
            1 => Self::Rtz,
            2 => Self::Rdn,
            3 => Self::Rup,
            4 => Self::Rmm,
            _ => return None,
        })
    }
}
