//! Ranks of tracks: their order below the machine.

/// Rank of the track of phases below the machine's.
pub const PHASES: u32 = 0;
/// The same of hart 0.
pub const FIRST_HART: u32 = 1;
/// The same of the VM with VMID 0.
pub const FIRST_VM: u32 = 1 << 24;

/// Rank of the track with `number` among those that begin at `first`. At most 2^24 have different
/// ranks.
pub fn rank(first: u32, number: u64) -> u32 {
    first + number.min((1 << 24) - 2) as u32
}
