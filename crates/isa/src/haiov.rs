//! HA-IOV 0.1: CSRs, fields, operations and memory structures.
//!
//! Written by `cargo run -p trapless-spec` from `spec/haiov.toml`; do not edit.

/// Name of the extension in ISA strings.
pub const ISA_NAME: &str = "xuer";

/// CSR addresses.
pub mod csr {
    /// State of user-level traps.
    pub const USTATUS: u16 = 0x0;
    /// Address of the handler.
    pub const UTVEC: u16 = 0x5;
    /// For the handler.
    pub const USCRATCH: u16 = 0x40;
    /// Address of the instruction that trapped, and to which URET returns.
    pub const UEPC: u16 = 0x41;
    /// Cause of the trap.
    pub const UCAUSE: u16 = 0x42;
    /// Guest physical address of the access, or the instruction.
    pub const UTVAL: u16 = 0x43;
    /// The instruction that trapped, transformed.
    pub const UTINST: u16 = 0x4a;
    /// Exceptions of the guest that U-mode handles, by code.
    pub const HUEDELEG: u16 = 0x6d0;
}

/// Fields of `ustatus`.
pub mod ustatus {
    /// A handler has not returned yet; read-only in U-mode.
    pub const UH: u64 = 0x400;
    /// Virtualization mode before the trap; read-only in U-mode.
    pub const UPV: u64 = 0x200;
    /// Privilege before the trap: 1 supervisor, 0 user; read-only in U-mode.
    pub const UPP: u64 = 0x100;
    /// UIE before the trap.
    pub const UPIE: u64 = 0x10;
    /// User interrupts are enabled.
    pub const UIE: u64 = 0x1;
}

/// Fields of `utvec`.
pub mod utvec {
    /// Address divided by 4.
    pub const BASE: u64 = 0xffff_ffff_ffff_fffc;
    /// Lowest bit of `BASE`.
    pub const BASE_SHIFT: u32 = 2;
    /// As in `stvec`: 0 direct, 1 vectored; writes of other values are ignored.
    pub const MODE: u64 = 0x3;
    /// Lowest bit of `MODE`.
    pub const MODE_SHIFT: u32 = 0;
}

/// Fields of `uscratch`.
pub mod uscratch {
    /// Anything.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `uepc`.
pub mod uepc {
    /// Virtual address; low bits as in `sepc`.
    pub const ADDRESS: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `ADDRESS`.
    pub const ADDRESS_SHIFT: u32 = 0;
}

/// Fields of `ucause`.
pub mod ucause {
    /// The cause is an interrupt.
    pub const INTERRUPT: u64 = 0x8000_0000_0000_0000;
    /// As in `scause`.
    pub const CODE: u64 = 0x7fff_ffff_ffff_ffff;
    /// Lowest bit of `CODE`.
    pub const CODE_SHIFT: u32 = 0;
}

/// Fields of `utval`.
pub mod utval {
    /// What `UER-6` says.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `utinst`.
pub mod utinst {
    /// As in `htinst`.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `huedeleg`.
pub mod huedeleg {
    /// Store/AMO MMIO page fault.
    pub const STORE_MMIO: u64 = 0x200_0000;
    /// Load MMIO page fault.
    pub const LOAD_MMIO: u64 = 0x100_0000;
    /// Store/AMO guest-page fault.
    pub const STORE_GUEST: u64 = 0x80_0000;
    /// Virtual instruction.
    pub const VIRTUAL: u64 = 0x40_0000;
    /// Load guest-page fault.
    pub const LOAD_GUEST: u64 = 0x20_0000;
    /// Environment call from VS-mode.
    pub const ECALL_VS: u64 = 0x400;
}

/// Exception codes that the extension adds.
pub mod cause {
    /// Load MMIO page fault.
    pub const LOAD_MMIO: u64 = 24;
    /// Store/AMO MMIO page fault.
    pub const STORE_MMIO: u64 = 25;
}

/// Type of a G-stage leaf (bits 58:57 of the entry).
pub mod leaf {
    /// Memory: accesses go to the physical address.
    pub const MEMORY: u64 = 0;
    /// Accesses are for a handler in U-mode.
    pub const MMIO: u64 = 1;
}

/// Limits and numbers.
pub mod limits {
    /// Bit of `hstatus` that switches the redirection on.
    pub const HSTATUS_HUR_BIT: u64 = 10;
    /// Lowest bit of the type in a G-stage leaf.
    pub const LEAF_TYPE_SHIFT: u64 = 57;
}
