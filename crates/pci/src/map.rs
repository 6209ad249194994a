//! Where the windows of the host are.

use std::ops::Range;

/// Windows of physical addresses that a host answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    /// Configuration spaces: 4 KiB for each function of 256 buses.
    pub ecam: Range<u64>,
    /// I/O ports.
    pub ports: Range<u64>,
    /// Memory below 4 GiB, where bus and physical addresses are the same.
    pub low: Range<u64>,
    /// Memory above RAM, the same.
    pub high: Range<u64>,
}

impl Windows {
    const ECAM: u64 = 0x3000_0000;
    const ECAM_LEN: u64 = 0x1000_0000;
    const PORTS: u64 = 0x300_0000;
    const PORTS_LEN: u64 = 0x1_0000;
    const LOW: u64 = 0x4000_0000;
    const LOW_LEN: u64 = 0x4000_0000;
    /// Length of the window above RAM, and what its first address is a multiple of.
    const HIGH_LEN: u64 = 1 << 34;

    /// Those of QEMU's `virt` machine whose RAM ends before `ram_end`.
    #[must_use]
    pub fn virt(ram_end: u64) -> Self {
        let window = |base, len| base..base + len;
        Self {
            ecam: window(Self::ECAM, Self::ECAM_LEN),
            ports: window(Self::PORTS, Self::PORTS_LEN),
            low: window(Self::LOW, Self::LOW_LEN),
            high: window(ram_end.next_multiple_of(Self::HIGH_LEN), Self::HIGH_LEN),
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> [Range<u64>; 4] {
        [&self.ecam, &self.ports, &self.low, &self.high].map(Clone::clone)
    }
}
