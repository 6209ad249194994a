//! Numbers of KVM's AIA device (Linux UAPI `asm/kvm.h`).

/// How KVM provides the interrupt files of vCPUs.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Guest interrupt files of the harts while there are free ones, else memory
    Auto,
    /// Guest interrupt files only; a vCPU that finds none ends the guest
    Hwaccel,
    /// Memory only: each access traps
    Emul,
}

impl Mode {
    /// `KVM_DEV_RISCV_AIA_MODE_*`.
    pub fn number(self) -> u64 {
        match self {
            Self::Emul => 0,
            Self::Hwaccel => 1,
            Self::Auto => 2,
        }
    }
}

/// Group: configuration.
pub const GRP_CONFIG: u32 = 0;
/// How interrupt files are provided.
pub const MODE: u64 = 0;
/// Number of interrupt identities of a file.
pub const IDS: u64 = 1;
/// Number of wired sources.
pub const SOURCES: u64 = 2;
/// Bits of the hart index in the address of an interrupt file.
pub const HART_BITS: u64 = 5;
/// Group: guest physical addresses. 0 is the APLIC, 1 + n the interrupt file of vCPU n.
pub const GRP_ADDR: u32 = 1;
/// Group: control; attribute 0 takes the configuration into use.
pub const GRP_CTRL: u32 = 2;
/// Group: registers of the APLIC, by their offset.
pub const GRP_APLIC: u32 = 3;
/// Group: registers of interrupt files: vCPU << 12 | number for `siselect`.
pub const GRP_IMSIC: u32 = 4;
