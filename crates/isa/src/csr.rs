//! CSR addresses, names and field masks.

macro_rules! csrs {
    ($($name:ident = $addr:literal, $text:literal;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: u16 = $addr;)*
        /// Every individually named CSR with its address, sorted by address.
        pub const NAMES: &[(u16, &str)] = &[$(($addr, $text)),*];
    };
}

csrs! {
    FFLAGS = 0x001, "fflags";
    FRM = 0x002, "frm";
    FCSR = 0x003, "fcsr";
    SSTATUS = 0x100, "sstatus";
    SIE = 0x104, "sie";
    STVEC = 0x105, "stvec";
    SCOUNTEREN = 0x106, "scounteren";
    SENVCFG = 0x10A, "senvcfg";
    SSTATEEN0 = 0x10C, "sstateen0";
    SSTATEEN1 = 0x10D, "sstateen1";
    SSTATEEN2 = 0x10E, "sstateen2";
    SSTATEEN3 = 0x10F, "sstateen3";
    SSCRATCH = 0x140, "sscratch";
    SEPC = 0x141, "sepc";
    SCAUSE = 0x142, "scause";
    STVAL = 0x143, "stval";
    SIP = 0x144, "sip";
    STIMECMP = 0x14D, "stimecmp";
    SISELECT = 0x150, "siselect";
    SIREG = 0x151, "sireg";
    STOPEI = 0x15C, "stopei";
    SATP = 0x180, "satp";
    VSSTATUS = 0x200, "vsstatus";
    VSIE = 0x204, "vsie";
    VSTVEC = 0x205, "vstvec";
    VSSCRATCH = 0x240, "vsscratch";
    VSEPC = 0x241, "vsepc";
    VSCAUSE = 0x242, "vscause";
    VSTVAL = 0x243, "vstval";
    VSIP = 0x244, "vsip";
    VSTIMECMP = 0x24D, "vstimecmp";
    VSISELECT = 0x250, "vsiselect";
    VSIREG = 0x251, "vsireg";
    VSTOPEI = 0x25C, "vstopei";
    VSATP = 0x280, "vsatp";
    MSTATUS = 0x300, "mstatus";
    MISA = 0x301, "misa";
    MEDELEG = 0x302, "medeleg";
    MIDELEG = 0x303, "mideleg";
    MIE = 0x304, "mie";
    MTVEC = 0x305, "mtvec";
    MCOUNTEREN = 0x306, "mcounteren";
    MVIEN = 0x308, "mvien";
    MVIP = 0x309, "mvip";
    MENVCFG = 0x30A, "menvcfg";
    MSTATEEN0 = 0x30C, "mstateen0";
    MSTATEEN1 = 0x30D, "mstateen1";
    MSTATEEN2 = 0x30E, "mstateen2";
    MSTATEEN3 = 0x30F, "mstateen3";
    MCOUNTINHIBIT = 0x320, "mcountinhibit";
    MSCRATCH = 0x340, "mscratch";
    MEPC = 0x341, "mepc";
    MCAUSE = 0x342, "mcause";
    MTVAL = 0x343, "mtval";
    MIP = 0x344, "mip";
    MTINST = 0x34A, "mtinst";
    MTVAL2 = 0x34B, "mtval2";
    MISELECT = 0x350, "miselect";
    MIREG = 0x351, "mireg";
    MTOPEI = 0x35C, "mtopei";
    HSTATUS = 0x600, "hstatus";
    HEDELEG = 0x602, "hedeleg";
    HIDELEG = 0x603, "hideleg";
    HIE = 0x604, "hie";
    HTIMEDELTA = 0x605, "htimedelta";
    HCOUNTEREN = 0x606, "hcounteren";
    HGEIE = 0x607, "hgeie";
    HVIEN = 0x608, "hvien";
    HVICTL = 0x609, "hvictl";
    HENVCFG = 0x60A, "henvcfg";
    HSTATEEN0 = 0x60C, "hstateen0";
    HSTATEEN1 = 0x60D, "hstateen1";
    HSTATEEN2 = 0x60E, "hstateen2";
    HSTATEEN3 = 0x60F, "hstateen3";
    HTVAL = 0x643, "htval";
    HIP = 0x644, "hip";
    HVIP = 0x645, "hvip";
    HVIPRIO1 = 0x646, "hviprio1";
    HVIPRIO2 = 0x647, "hviprio2";
    HTINST = 0x64A, "htinst";
    HGATP = 0x680, "hgatp";
    HUEDELEG = 0x6D0, "huedeleg";
    TSELECT = 0x7A0, "tselect";
    TDATA1 = 0x7A1, "tdata1";
    TDATA2 = 0x7A2, "tdata2";
    TDATA3 = 0x7A3, "tdata3";
    TINFO = 0x7A4, "tinfo";
    USTATUS = 0x880, "ustatus";
    UTVEC = 0x885, "utvec";
    USCRATCH = 0x8C0, "uscratch";
    UEPC = 0x8C1, "uepc";
    UCAUSE = 0x8C2, "ucause";
    UTVAL = 0x8C3, "utval";
    UTINST = 0x8CA, "utinst";
    MCYCLE = 0xB00, "mcycle";
    MINSTRET = 0xB02, "minstret";
    CYCLE = 0xC00, "cycle";
    TIME = 0xC01, "time";
    INSTRET = 0xC02, "instret";
    STOPI = 0xDB0, "stopi";
    HGEIP = 0xE12, "hgeip";
    VSTOPI = 0xEB0, "vstopi";
    MVENDORID = 0xF11, "mvendorid";
    MARCHID = 0xF12, "marchid";
    MIMPID = 0xF13, "mimpid";
    MHARTID = 0xF14, "mhartid";
    MCONFIGPTR = 0xF15, "mconfigptr";
    MTOPI = 0xFB0, "mtopi";
}

/// First of the 16 `pmpcfg` CSRs (even ones exist on RV64).
pub const PMPCFG0: u16 = 0x3A0;
/// Last of the `pmpcfg` CSRs.
pub const PMPCFG15: u16 = 0x3AF;
/// First of the `pmpaddr` CSRs.
pub const PMPADDR0: u16 = 0x3B0;
/// Last of the `pmpaddr` CSRs.
pub const PMPADDR63: u16 = 0x3EF;
/// First of the 29 `mhpmevent` CSRs (3..=31).
pub const MHPMEVENT3: u16 = 0x323;
/// First of the 29 `mhpmcounter` CSRs (3..=31).
pub const MHPMCOUNTER3: u16 = 0xB03;
/// First of the 29 `hpmcounter` CSRs (3..=31).
pub const HPMCOUNTER3: u16 = 0xC03;

/// Name of a CSR; numbered families (`pmpaddr5`) and unknown addresses (`csr_5c0`) are spelled out.
pub fn name(csr: u16) -> String {
    if let Some((_, n)) = NAMES.iter().find(|(a, _)| *a == csr) {
        return (*n).to_string();
    }
    match csr {
        PMPCFG0..=PMPCFG15 => format!("pmpcfg{}", csr - PMPCFG0),
        PMPADDR0..=PMPADDR63 => format!("pmpaddr{}", csr - PMPADDR0),
        0x323..=0x33F => format!("mhpmevent{}", csr - MHPMEVENT3 + 3),
        0xB03..=0xB1F => format!("mhpmcounter{}", csr - MHPMCOUNTER3 + 3),
        0xC03..=0xC1F => format!("hpmcounter{}", csr - HPMCOUNTER3 + 3),
        _ => format!("csr_{csr:03x}"),
    }
}

/// Fields of `mstatus`, `sstatus` and `vsstatus`.
pub mod status {
    /// Supervisor interrupt enable.
    pub const SIE: u64 = 1 << 1;
    /// Machine interrupt enable.
    pub const MIE: u64 = 1 << 3;
    /// Previous SIE.
    pub const SPIE: u64 = 1 << 5;
    /// Big-endian U-mode (read-only zero here).
    pub const UBE: u64 = 1 << 6;
    /// Previous MIE.
    pub const MPIE: u64 = 1 << 7;
    /// Previous privilege of a trap into S.
    pub const SPP: u64 = 1 << 8;
    /// Vector state (read-only zero here).
    pub const VS: u64 = 3 << 9;
    /// Previous privilege of a trap into M.
    pub const MPP: u64 = 3 << 11;
    /// Floating-point state.
    pub const FS: u64 = 3 << 13;
    /// Modify privilege of loads and stores.
    pub const MPRV: u64 = 1 << 17;
    /// Supervisor access to user pages.
    pub const SUM: u64 = 1 << 18;
    /// Make executable pages readable.
    pub const MXR: u64 = 1 << 19;
    /// Trap virtual memory.
    pub const TVM: u64 = 1 << 20;
    /// Timeout wait.
    pub const TW: u64 = 1 << 21;
    /// Trap SRET.
    pub const TSR: u64 = 1 << 22;
    /// UXL = 64 bits.
    pub const UXL_64: u64 = 2 << 32;
    /// SXL = 64 bits.
    pub const SXL_64: u64 = 2 << 34;
    /// The trap wrote a guest virtual address to `mtval`.
    pub const GVA: u64 = 1 << 38;
    /// Previous V of a trap into M.
    pub const MPV: u64 = 1 << 39;
    /// Dirty summary of FS, VS, XS.
    pub const SD: u64 = 1 << 63;
}

/// Fields of `hstatus`.
pub mod hstatus {
    /// The trap wrote a guest virtual address to `stval`.
    pub const GVA: u64 = 1 << 6;
    /// Previous V of a trap into HS.
    pub const SPV: u64 = 1 << 7;
    /// Previous privilege while V=1.
    pub const SPVP: u64 = 1 << 8;
    /// Hypervisor loads and stores allowed in U-mode.
    pub const HU: u64 = 1 << 9;
    /// User-level exception redirection is on, and U-mode may access its registers (Xuer).
    pub const HUR: u64 = 1 << crate::haiov::limits::HSTATUS_HUR_BIT;
    /// Guest external interrupt number selected for VSEIP.
    pub const VGEIN: u64 = 0x3F << 12;
    /// Trap virtual memory of VS.
    pub const VTVM: u64 = 1 << 20;
    /// Trap WFI of VS.
    pub const VTW: u64 = 1 << 21;
    /// Trap SRET of VS.
    pub const VTSR: u64 = 1 << 22;
    /// VSXL = 64 bits.
    pub const VSXL_64: u64 = 2 << 32;
}

/// Fields of `hvictl` (Advanced Interrupt Architecture, section "Virtual interrupts for VS level").
pub mod hvictl {
    /// Virtual trap interrupt control: IID takes the place of `vsip` and `vsie`.
    pub const VTI: u64 = 1 << 30;
    /// Interrupt identity.
    pub const IID: u64 = 0xFFF << 16;
    /// Lower default priority than an external interrupt.
    pub const DPR: u64 = 1 << 9;
    /// `vstopi` shows the priority number.
    pub const IPRIOM: u64 = 1 << 8;
    /// Priority number.
    pub const IPRIO: u64 = 0xFF;
}

/// Fields of `menvcfg`, `henvcfg` and `senvcfg`.
pub mod envcfg {
    /// Fence of I/O implies memory.
    pub const FIOM: u64 = 1 << 0;
    /// `cbo.inval` enable: 0 trap, 1 flush, 3 invalidate.
    pub const CBIE: u64 = 3 << 4;
    /// `cbo.clean`/`cbo.flush` enable.
    pub const CBCFE: u64 = 1 << 6;
    /// `cbo.zero` enable.
    pub const CBZE: u64 = 1 << 7;
    /// Hardware A/D updating (Svadu).
    pub const ADUE: u64 = 1 << 61;
    /// Page-based memory types (Svpbmt).
    pub const PBMTE: u64 = 1 << 62;
    /// `stimecmp` enable (Sstc).
    pub const STCE: u64 = 1 << 63;
}

/// Fields of `mstateen0`, `hstateen0`.
pub mod stateen0 {
    /// Custom state.
    pub const C: u64 = 1 << 0;
    /// AIA's IMSIC state.
    pub const IMSIC: u64 = 1 << 58;
    /// Ssaia state not covered by others.
    pub const AIA: u64 = 1 << 59;
    /// Indirect CSRs.
    pub const CSRIND: u64 = 1 << 60;
    /// `henvcfg`/`senvcfg`.
    pub const ENVCFG: u64 = 1 << 62;
    /// `hstateen0`/`sstateen0`.
    pub const SE0: u64 = 1 << 63;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_specification() {
        use crate::haiov::csr as haiov;
        let both = [
            (USTATUS, haiov::USTATUS),
            (UTVEC, haiov::UTVEC),
            (USCRATCH, haiov::USCRATCH),
            (UEPC, haiov::UEPC),
            (UCAUSE, haiov::UCAUSE),
            (UTVAL, haiov::UTVAL),
            (UTINST, haiov::UTINST),
            (HUEDELEG, haiov::HUEDELEG),
        ];
        assert!(both.iter().all(|(name, number)| name == number));
    }
}
