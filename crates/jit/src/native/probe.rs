//! Kinds of TLB probes.

/// Bytes of a cache block.
pub(super) const CACHE_BLOCK: i32 = crate::CACHE_BLOCK as i32;

/// Kind of a probe of the data TLB.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    /// Bytes: 1, 2, 4, 8, or those of a cache block.
    pub size: i32,
    pub write: bool,
    /// Misaligned accesses must miss.
    pub aligned: bool,
}

impl Probe {
    /// Number of kinds.
    pub const KINDS: usize = 20;
    /// Number of the size of a cache block.
    const BLOCK: usize = 4;

    /// Number of the kind, less than [`KINDS`](Self::KINDS).
    pub fn number(self) -> usize {
        let size = match self.size {
            CACHE_BLOCK => Self::BLOCK,
            size => size.trailing_zeros() as usize,
        };
        size << 2 | usize::from(self.write) << 1 | usize::from(self.aligned)
    }

    /// The kind with a number.
    pub fn from_number(number: usize) -> Self {
        Self {
            size: match number >> 2 {
                Self::BLOCK => CACHE_BLOCK,
                size => 1 << size,
            },
            write: number & 2 != 0,
            aligned: number & 1 != 0,
        }
    }

    /// Name of its slow probe, for listings.
    pub fn name(self) -> String {
        let kind = if self.write { "store" } else { "load" };
        let aligned = if self.aligned { "_aligned" } else { "" };
        format!("probe_{kind}{}{aligned}", 8 * self.size)
    }
}
