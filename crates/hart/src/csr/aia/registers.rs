//! State of Smaia and Ssaia.

use serde::{Deserialize, Serialize};
use trapless_ledger::event::Guest;

/// Registers of Smaia and Ssaia, and the parts of others that exist only with them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Aia {
    /// `miselect`, `siselect`, `vsiselect`.
    pub(in crate::csr) select: [u64; 3],
    pub(in crate::csr) mvien: u64,
    /// Bits of `mvip` that are not an alias of `mip`.
    pub(super) mvip: u64,
    /// Bits of `sie` that are not an alias of `mie`.
    pub(super) sie: u64,
    pub(in crate::csr) hvien: u64,
    /// Bits of `hvip` and `vsie` for interrupts 13 and up.
    pub(super) hvip: u64,
    pub(super) vsie: u64,
    pub(in crate::csr) hvictl: u64,
    pub(in crate::csr) hviprio: [u64; 2],
    /// `iprio` arrays of machine and supervisor level, by interrupt number.
    #[serde(with = "priorities")]
    pub(in crate::csr) priorities: [[u8; 64]; 2],
    /// Whether an array has a number other than 0.
    pub(in crate::csr) prioritised: [bool; 2],
    /// Guest and interrupt file that were entered last.
    pub(super) entered: Option<(Guest, u8)>,
}

impl Default for Aia {
    /// All registers 0.
    fn default() -> Self {
        Self {
            select: [0; 3],
            mvien: 0,
            mvip: 0,
            sie: 0,
            hvien: 0,
            hvip: 0,
            vsie: 0,
            hvictl: 0,
            hviprio: [0; 2],
            priorities: [[0; 64]; 2],
            prioritised: [false; 2],
            entered: None,
        }
    }
}

/// Encoding in checkpoints: serde supports arrays of up to 32 elements only.
mod priorities {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(all: &[[u8; 64]; 2], to: S) -> Result<S::Ok, S::Error> {
        all.as_flattened().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[[u8; 64]; 2], D::Error> {
        let bytes = Vec::<u8>::deserialize(from)?;
        let mut all = [[0; 64]; 2];
        if bytes.len() != all.as_flattened().len() {
            return Err(Error::invalid_length(bytes.len(), &"128 priorities"));
        }
        all.as_flattened_mut().copy_from_slice(&bytes);
        Ok(all)
    }
}
