//! Kinds of TLB probes.

/// Kind of a probe of the data TLB.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    /// Bytes: 1, 2, 4 or 8.
    pub size: i32,
    pub write: bool,
    /// Misaligned accesses must miss.
    pub aligned: bool,
}

impl Probe {
    /// Number of kinds.
    pub const KINDS: usize = 16;

    /// Number of the kind, less than [`KINDS`](Self::KINDS).
    pub fn number(self) -> usize {
        let size = self.size.trailing_zeros() as usize;
        size << 2 | usize::from(self.write) << 1 | usize::from(self.aligned)
    }

    /// The kind with a number.
    pub fn from_number(number: usize) -> Self {
        Self {
            size: 1 << (number >> 2),
            write: number & 2 != 0,
            aligned: number & 1 != 0,
        }
    }
}
