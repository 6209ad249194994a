//! Formats of floating-point numbers, and the result of operations that make no number.

use dynasmrt::DynamicLabel;

/// A format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Precision {
    Single,
    Double,
}

impl Precision {
    /// Size in bytes.
    pub fn bytes(self) -> i32 {
        match self {
            Self::Single => 4,
            Self::Double => 8,
        }
    }

    /// Bits of a register with the canonical NaN (unprivileged specification, "NaN Generation and
    /// Propagation"), a single in its box ("NaN Boxing of Narrower Values").
    pub fn canonical_nan(self) -> u64 {
        match self {
            Self::Single => 0xFFFF_FFFF_7FC0_0000,
            Self::Double => 0x7FF8_0000_0000_0000,
        }
    }
}

/// Code for a result that is NaN: the register gets the canonical one.
pub(super) struct Nan {
    pub from: DynamicLabel,
    pub back: DynamicLabel,
    pub precision: Precision,
    /// The register.
    pub f: u8,
}
