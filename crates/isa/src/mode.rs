//! Privilege modes (privileged specification, "Privilege Levels", and "Privilege Modes" of the H
//! extension).

use serde::{Deserialize, Serialize};

/// Nominal privilege as encoded in `xPP` fields; says nothing about V.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Priv {
    /// User.
    U = 0,
    /// Supervisor (HS when V=0, VS when V=1).
    S = 1,
    /// Machine.
    M = 3,
}

impl Priv {
    /// Decodes a two-bit `MPP`-style field; the reserved value 2 reads as user.
    pub const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            3 => Self::M,
            1 => Self::S,
            _ => Self::U,
        }
    }
}

/// Privilege mode of a hart including the virtualization mode V.
///
/// Numbered so that it can index per-mode tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum Mode {
    /// Virtual user: V=1, U.
    VU = 0,
    /// Virtual supervisor: V=1, S.
    VS = 1,
    /// User: V=0, U.
    U = 2,
    /// Hypervisor-extended supervisor: V=0, S (plain S without the H extension).
    HS = 3,
    /// Machine.
    M = 4,
}

impl Mode {
    /// All modes, in index order.
    pub const ALL: [Mode; 5] = [Mode::VU, Mode::VS, Mode::U, Mode::HS, Mode::M];

    /// The mode with nominal privilege `privilege` and virtualization mode `v`; M-mode ignores V.
    pub const fn new(privilege: Priv, v: bool) -> Self {
        match (privilege, v) {
            (Priv::M, _) => Self::M,
            (Priv::S, false) => Self::HS,
            (Priv::S, true) => Self::VS,
            (Priv::U, false) => Self::U,
            (Priv::U, true) => Self::VU,
        }
    }

    /// Virtualization mode V.
    pub const fn v(self) -> bool {
        matches!(self, Self::VU | Self::VS)
    }

    /// Nominal privilege.
    pub const fn privilege(self) -> Priv {
        match self {
            Self::VU | Self::U => Priv::U,
            Self::VS | Self::HS => Priv::S,
            Self::M => Priv::M,
        }
    }

    /// The specification's abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VU => "VU",
            Self::VS => "VS",
            Self::U => "U",
            Self::HS => "HS",
            Self::M => "M",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
