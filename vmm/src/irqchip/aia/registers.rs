//! Registers of APLIC and interrupt files (RISC-V Advanced Interrupt Architecture).

/// Wired sources of the APLIC, enough for all devices and 32 of the test device. KVM offers at
/// least as many identities.
pub const SOURCES: u32 = 63;

/// Offsets of the APLIC's registers (AIA specification, chapter 4).
pub(super) mod aplic {
    pub const DOMAINCFG: u64 = 0;
    pub const SOURCECFG: u64 = 0x0004;
    pub const SETIP: u64 = 0x1c00;
    pub const IN_CLRIP: u64 = 0x1d00;
    pub const SETIE: u64 = 0x1e00;
    pub const CLRIE: u64 = 0x1f00;
    pub const TARGET: u64 = 0x3004;
}

/// Indirectly accessed registers of an interrupt file (AIA specification, chapter 3).
pub(super) mod imsic {
    pub const EIDELIVERY: u64 = 0x70;
    pub const EITHRESHOLD: u64 = 0x72;
    pub const EIP: u64 = 0x80;
    pub const EIE: u64 = 0xc0;
}

/// Bits that the hart index of `cpus` vCPUs takes.
pub fn hart_bits(cpus: u16) -> u32 {
    u16::BITS - cpus.saturating_sub(1).leading_zeros()
}
