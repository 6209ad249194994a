//! An interrupt source in one domain.

use serde::{Deserialize, Serialize};

/// Highest source number, as on QEMU's `virt`.
pub const SOURCES: u32 = 96;
/// Source mode: field SM of `sourcecfg` (section "Source configurations").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) enum Mode {
    #[default]
    Inactive,
    Detached,
    Edge1,
    Edge0,
    Level1,
    Level0,
    /// It is delegated to the child domain.
    Delegated,
}

/// `sourcecfg.D`.
const DELEGATE: u32 = 1 << 10;

impl Mode {
    /// Reads `sourcecfg`; reserved modes and, without a child domain, delegation make a source
    /// inactive.
    pub fn decode(value: u32, child: bool) -> Self {
        match value & 7 {
            _ if value & DELEGATE != 0 && child => Self::Delegated,
            _ if value & DELEGATE != 0 => Self::Inactive,
            1 => Self::Detached,
            4 => Self::Edge1,
            5 => Self::Edge0,
            6 => Self::Level1,
            7 => Self::Level0,
            _ => Self::Inactive,
        }
    }

    /// `sourcecfg`. There is one child, with index 0.
    pub fn encode(self) -> u32 {
        match self {
            Self::Inactive => 0,
            Self::Detached => 1,
            Self::Edge1 => 4,
            Self::Edge0 => 5,
            Self::Level1 => 6,
            Self::Level0 => 7,
            Self::Delegated => DELEGATE,
        }
    }

    pub fn active(self) -> bool {
        !matches!(self, Self::Inactive | Self::Delegated)
    }

    pub fn level(self) -> bool {
        matches!(self, Self::Level1 | Self::Level0)
    }

    /// The rectified input value for a wire.
    pub fn rectified(self, wire: bool) -> bool {
        match self {
            Self::Edge1 | Self::Level1 => wire,
            Self::Edge0 | Self::Level0 => !wire,
            _ => false,
        }
    }
}

/// A source in a domain. `target`, `pending` and `enabled` are zero while it is not active.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Source {
    pub mode: Mode,
    pub target: u32,
    pub pending: bool,
    pub enabled: bool,
}

impl Source {
    pub fn ready(&self) -> bool {
        self.pending && self.enabled
    }
}
