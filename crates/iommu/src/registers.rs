//! Offsets and fields of registers (chapter "Memory-mapped register interface").

/// Length of the register window in bytes.
pub const LEN: u64 = 0x1000;

/// Offsets.
pub(crate) mod at {
    pub const CAPABILITIES: u64 = 0x000;
    pub const FCTL: u64 = 0x008;
    pub const DDTP: u64 = 0x010;
    pub const CQB: u64 = 0x018;
    pub const CQH: u64 = 0x020;
    pub const CQT: u64 = 0x024;
    pub const FQB: u64 = 0x028;
    pub const FQH: u64 = 0x030;
    pub const FQT: u64 = 0x034;
    pub const PQB: u64 = 0x038;
    pub const PQH: u64 = 0x040;
    pub const PQT: u64 = 0x044;
    pub const CQCSR: u64 = 0x048;
    pub const FQCSR: u64 = 0x04c;
    pub const PQCSR: u64 = 0x050;
    pub const IPSR: u64 = 0x054;
    pub const IOCOUNTOVF: u64 = 0x058;
    pub const IOCOUNTINH: u64 = 0x05c;
    pub const IOHPMCYCLES: u64 = 0x060;
    /// `iohpmctr1`, and the others.
    pub const IOHPMCTR: u64 = 0x068;
    /// `iohpmevt1`, and the others.
    pub const IOHPMEVT: u64 = 0x160;
    pub const TR_REQ_IOVA: u64 = 0x258;
    pub const TR_REQ_CTL: u64 = 0x260;
    pub const TR_RESPONSE: u64 = 0x268;
    pub const ICVEC: u64 = 0x2f8;
    pub const MSI_CFG_TBL: u64 = 0x300;
    pub const MSI_CFG_TBL_END: u64 = 0x400;
}

/// `capabilities`: see the crate's documentation.
pub(crate) const CAPABILITIES: u64 = 0x10 // version 1.0
    | 0b111 << 9 // Sv39, Sv48, Sv57
    | 0b111 << 17 // Sv39x4, Sv48x4, Sv57x4
    | 1 << 21 // AMO_MRIF: harts and devices access memory one after the other
    | 1 << 22 // MSI_FLAT
    | 1 << 23 // MSI_MRIF
    | 1 << 24 // AMO_HWAD
    | 1 << 25 // ATS
    | 1 << 26 // T2GPA
    | 2 << 28 // IGS: wires and messages
    | 1 << 30 // HPM
    | 1 << 31 // DBG
    | 56 << 32 // PAS
    | 0b111 << 38; // PD8, PD17, PD20

/// `fctl.WSI`: interrupts by wire.
pub(crate) const FCTL_WSI: u32 = 1 << 1;

/// A physical page number as registers and directory entries have it, bits 53:10, as an address.
pub(crate) const fn address_of(register: u64) -> u64 {
    (register >> 10 & PPN) << 12
}

/// Bits of a physical page number.
pub(crate) const PPN: u64 = (1 << 44) - 1;

/// `ddtp`.
pub(crate) mod ddtp {
    pub const MODE: u64 = 0xf;
    pub const OFF: u64 = 0;
    pub const BARE: u64 = 1;
    pub const LAST: u64 = 4;
    pub const WRITABLE: u64 = super::PPN << 10 | MODE;
}

/// `tr_req_ctl` and `tr_response`.
pub(crate) mod debug {
    pub const GO: u64 = 1;
    pub const PRIVILEGED: u64 = 1 << 1;
    pub const EXECUTE: u64 = 1 << 2;
    pub const NO_WRITE: u64 = 1 << 3;
    pub const PROCESS_VALID: u64 = 1 << 32;
    pub const WRITABLE: u64 = !(0xff << 4 | 0x7f << 33);
    pub const FAULT: u64 = 1;
}
