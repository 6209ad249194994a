//! What CSRs keep of a write, compared with the text of the privileged specification (version 1.13)
//! and of the Advanced Interrupt Architecture (1.0), register by register.

#[path = "common/mod.rs"]
mod common;

use common::Nothing;
use trapless_hart::{AiaConfig, Hart, HartConfig, Ram};
use trapless_isa::csr::{self, hstatus, status};

/// A register and the section that says which of its bits can be set; `fixed` ones read as one
/// whatever is written.
struct Row(&'static str, u16, Bits, &'static str);

/// Bits of a register.
struct Bits {
    writable: u64,
    fixed: u64,
}

const fn bits(writable: u64) -> Bits {
    Bits { writable, fixed: 0 }
}

/// `mip`, `mie`: SSI, VSSI, MSI, STI, VSTI, MTI, SEI, VSEI, MEI, SGEI.
const VS: u64 = 1 << 2 | 1 << 6 | 1 << 10;
const S: u64 = 1 << 1 | 1 << 5 | 1 << 9;
const M: u64 = 1 << 3 | 1 << 7 | 1 << 11;
const SGEI: u64 = 1 << 12;
/// Interrupts 16 and up are designated for platform use.
const PLATFORM: u64 = !0xFFFF;
/// Interrupts 13 and up, which AIA adds.
const LOCAL: u64 = !0x1FFF;
/// FIOM, CBIE, CBCFE, CBZE.
const CACHE: u64 = 1 | 3 << 4 | 1 << 6 | 1 << 7;
/// ADUE, PBMTE, STCE.
const HIGH: u64 = 7 << 61;
/// SE0, ENVCFG; with AIA: CSRIND, AIA, IMSIC.
const STATEEN: u64 = 3 << 62;
const STATEEN_AIA: u64 = STATEEN | 7 << 58;
const SE: u64 = 1 << 63;
const SSTATUS: u64 = 1 << 1 | 1 << 5 | 1 << 8 | 3 << 13 | 1 << 18 | 1 << 19;
/// UXL (and SXL): always 2, 64 bits.
const UXL: u64 = 2 << 32;
const SD: u64 = 1 << 63;

/// A hart with all extensions, with or without AIA.
#[rustfmt::skip]
fn table(aia: bool) -> Vec<Row> {
    let local = if aia { LOCAL } else { 0 };
    let stateen = if aia { STATEEN_AIA } else { STATEEN };
    let vgein = if aia { 0x3F << 12 } else { 0 };
    let mut table = vec![
        Row("mstatus", csr::MSTATUS, Bits {
            // FS = 3 shows as SD as well.
            writable: SSTATUS | SD | 1 << 3 | 1 << 7 | 3 << 11 | 1 << 17 | 7 << 20 | 1 << 38 | 1 << 39,
            fixed: UXL | 2 << 34,
        }, "Machine Status (mstatus and mstatush) Registers"),
        Row("medeleg", csr::MEDELEG, bits(0xF0_B7FE),
            "Machine Trap Delegation (medeleg and mideleg) Registers: 0 with C, 11, 16, and what never occurs"),
        Row("mideleg", csr::MIDELEG, Bits { writable: S | PLATFORM, fixed: VS | SGEI },
            "Machine Interrupt Delegation (mideleg) Register, of the hypervisor extension"),
        Row("mie", csr::MIE, bits(M | S | VS | SGEI | PLATFORM), "Machine Interrupt (mip and mie) Registers"),
        Row("mip", csr::MIP, bits(1 << 1 | 1 << 2 | 1 << 5 | 1 << 9), "Machine Interrupt (mip and mie) Registers"),
        Row("mtvec", csr::MTVEC, bits(!2), "Machine Trap-Vector Base-Address (mtvec) Register"),
        Row("mepc", csr::MEPC, bits(!1), "Machine Exception Program Counter (mepc) Register"),
        Row("mcounteren", csr::MCOUNTEREN, bits(0xFFFF_FFFF), "Machine Counter-Enable (mcounteren) Register"),
        Row("mcountinhibit", csr::MCOUNTINHIBIT, bits(0b111_1101), "Machine Counter-Inhibit (mcountinhibit) Register"),
        Row("menvcfg", csr::MENVCFG, bits(HIGH | CACHE), "Machine Environment Configuration (menvcfg) Register"),
        Row("mstateen0", csr::MSTATEEN0, bits(stateen), "State Enable 0 Registers"),
        Row("mstateen1", csr::MSTATEEN0 + 1, bits(SE), "State Enable Extensions"),
        Row("pmpaddr0", csr::PMPADDR0, bits(u64::MAX >> 10), "Physical Memory Protection CSRs"),
        Row("satp", csr::SATP, bits(8 << 60 | u64::MAX >> 4), "Supervisor Address Translation and Protection (satp) Register"),
        Row("stvec", csr::STVEC, bits(!2), "Supervisor Trap Vector Base Address (stvec) Register"),
        Row("sepc", csr::SEPC, bits(!1), "Supervisor Exception Program Counter (sepc) Register"),
        Row("scounteren", csr::SCOUNTEREN, bits(0xFFFF_FFFF), "Counter-Enable (scounteren) Register"),
        Row("senvcfg", csr::SENVCFG, bits(CACHE), "Supervisor Environment Configuration (senvcfg) Register"),
        Row("sstateen0", csr::SSTATEEN0, bits(0), "State Enable 0 Registers"),
        Row("sstatus", csr::SSTATUS, Bits { writable: SSTATUS | SD, fixed: UXL }, "Supervisor Status (sstatus) Register"),
        Row("hstatus", csr::HSTATUS, Bits {
            writable: 7 << 20 | 1 << 9 | 1 << 8 | 1 << 7 | 1 << 6 | vgein,
            fixed: hstatus::VSXL_64,
        }, "Hypervisor Status (hstatus) Register"),
        Row("hedeleg", csr::HEDELEG, bits(0xC_B1FF),
            "Hypervisor Trap Delegation (hedeleg and hideleg) Registers, bits that must be writable or zero"),
        Row("hideleg", csr::HIDELEG, bits(VS), "Hypervisor Trap Delegation (hedeleg and hideleg) Registers"),
        Row("hie", csr::HIE, bits(VS | SGEI), "Hypervisor Interrupt (hvip, hip, and hie) Registers"),
        Row("hip", csr::HIP, bits(1 << 2), "Hypervisor Interrupt (hvip, hip, and hie) Registers"),
        Row("hvip", csr::HVIP, bits(VS | local), "Hypervisor Interrupt (hvip, hip, and hie) Registers"),
        Row("hgeie", csr::HGEIE, bits(if aia { 0xFE } else { 0 }), "Hypervisor Guest External Interrupt Registers"),
        Row("henvcfg", csr::HENVCFG, bits(HIGH | CACHE), "Hypervisor Environment Configuration Register (henvcfg)"),
        Row("hcounteren", csr::HCOUNTEREN, bits(0xFFFF_FFFF), "Hypervisor Counter-Enable (hcounteren) Register"),
        Row("hstateen0", csr::HSTATEEN0, bits(stateen), "State Enable 0 Registers"),
        Row("hstateen1", csr::HSTATEEN0 + 1, bits(SE), "State Enable Extensions"),
        Row("hgatp", csr::HGATP, bits(8 << 60 | u64::MAX >> 6 & !3),
            "Hypervisor Guest Address Translation and Protection (hgatp) Register"),
        Row("vsatp", csr::VSATP, bits(8 << 60 | u64::MAX >> 4),
            "Virtual Supervisor Address Translation and Protection (vsatp) Register"),
        Row("vsstatus", csr::VSSTATUS, Bits { writable: SSTATUS | SD, fixed: UXL },
            "Virtual Supervisor Status (vsstatus) Register"),
        Row("vsie", csr::VSIE, bits(S), "Virtual Supervisor Interrupt (vsip and vsie) Registers"),
        Row("vsip", csr::VSIP, bits(1 << 1), "Virtual Supervisor Interrupt (vsip and vsie) Registers"),
        Row("vstvec", csr::VSTVEC, bits(!2), "Virtual Supervisor Trap Vector Base Address (vstvec) Register"),
        Row("vsepc", csr::VSEPC, bits(!1), "Virtual Supervisor Exception Program Counter (vsepc) Register"),
    ];
    for full in [csr::MSCRATCH, csr::MCAUSE, csr::MTVAL, csr::MTVAL2, csr::MTINST, csr::SSCRATCH, csr::SCAUSE,
        csr::STVAL, csr::VSSCRATCH, csr::VSCAUSE, csr::VSTVAL, csr::HTVAL, csr::HTINST, csr::HTIMEDELTA,
        csr::STIMECMP, csr::VSTIMECMP]
    {
        table.push(Row("a register of 64 bits", full, bits(u64::MAX), "all values are legal"));
    }
    if aia {
        table.extend([
            Row("mvien", csr::MVIEN, bits(1 << 1 | 1 << 9 | LOCAL), "AIA, Virtual interrupts for supervisor level"),
            Row("hvien", csr::HVIEN, bits(LOCAL), "AIA, Virtual interrupts for VS level"),
            Row("hvictl", csr::HVICTL, bits(1 << 30 | 0xFFF << 16 | 0x3FF), "AIA, Hypervisor virtual interrupt control"),
            Row("hviprio1", csr::HVIPRIO1, bits(0xFFFF_FF00_FF00_FF00), "AIA, Hypervisor VS-level interrupt priorities"),
            Row("hviprio2", csr::HVIPRIO2, bits(u64::MAX), "AIA, Hypervisor VS-level interrupt priorities"),
        ]);
    }
    table
}

/// A hart on which M-mode has enabled and delegated everything, as far as registers of lower modes
/// depend on that.
fn hart(aia: bool) -> Hart {
    let config = HartConfig {
        aia: aia.then_some(AiaConfig { guests: 7 }),
        ..HartConfig::default()
    };
    let mut hart = Hart::new(0, config, Ram::new(0x8000_0000, 0x1000).unwrap());
    for (addr, value) in [
        (csr::MSTATEEN0, u64::MAX),
        (csr::MSTATEEN0 + 1, u64::MAX),
        (csr::MENVCFG, HIGH),
        (csr::HIDELEG, u64::MAX),
        (csr::SATP, 8 << 60),
        (csr::VSATP, 8 << 60),
        (csr::HGATP, 8 << 60),
    ] {
        assert!(hart.poke_csr(addr, value, &mut Nothing));
    }
    hart
}

#[test]
fn registers_keep_the_bits_that_the_specifications_say() {
    for aia in [false, true] {
        for Row(name, addr, Bits { writable, fixed }, section) in table(aia) {
            for bit in 0..64 {
                let mut hart = hart(aia);
                if matches!(addr, csr::MIP) {
                    hart.poke_csr(csr::MENVCFG, 0, &mut Nothing);
                }
                let mut keeps = |value: u64| {
                    hart.poke_csr(addr, value, &mut Nothing);
                    hart.peek_csr_as_m(addr).unwrap()
                };
                // Fields of several bits that have reserved values stand below.
                let field = match addr {
                    csr::SATP | csr::VSATP | csr::HGATP if bit >= 60 => continue,
                    csr::MENVCFG | csr::HENVCFG | csr::SENVCFG if (4..6).contains(&bit) => continue,
                    csr::MTVEC | csr::STVEC | csr::VSTVEC if bit < 2 => continue,
                    csr::MSTATUS if (11..13).contains(&bit) => 3 << 11,
                    csr::MSTATUS | csr::SSTATUS | csr::VSSTATUS if matches!(bit, 13 | 14 | 63) => {
                        SD | 3 << 13
                    }
                    _ => 1 << bit,
                };
                let mode = match addr {
                    csr::SATP | csr::VSATP | csr::HGATP => 8 << 60,
                    _ => 0,
                };
                assert_eq!(keeps(mode), mode | fixed, "{name}: {section}");
                assert_eq!(
                    keeps(mode | field),
                    mode | fixed | field & writable,
                    "{name}, bit {bit}, AIA {aia}: {section}"
                );
            }
        }
    }
}

/// Fields whose values are not all legal: what is there before, what is written, what is there
/// then.
#[test]
fn fields_hold_legal_values_only() {
    let sv39 = |fields: u64| 8 << 60 | fields;
    let rows = [
        (
            "mstatus.MPP",
            csr::MSTATUS,
            UXL | 2 << 34 | status::MPP,
            UXL | 2 << 34 | 2 << 11,
            UXL | 2 << 34 | 3 << 11,
        ),
        (
            "mtvec.MODE",
            csr::MTVEC,
            0x8000_0001,
            0x8000_1002,
            0x8000_0001,
        ),
        (
            "stvec.MODE",
            csr::STVEC,
            0x8000_0001,
            0x8000_1003,
            0x8000_0001,
        ),
        (
            "vstvec.MODE",
            csr::VSTVEC,
            0x8000_0000,
            0x8000_1002,
            0x8000_0000,
        ),
        ("menvcfg.CBIE", csr::MENVCFG, 1 << 4, 2 << 4, 1 << 4),
        ("henvcfg.CBIE", csr::HENVCFG, 3 << 4, 2 << 4, 3 << 4),
        ("senvcfg.CBIE", csr::SENVCFG, 0, 2 << 4, 0),
        ("pmpcfg0, R=0 and W=1", csr::PMPCFG0, 0x19, 0x1A, 0x19),
        ("pmpcfg0, reserved bits", csr::PMPCFG0, 0, 0x7F, 0x1F),
        // "The entire write has no effect."
        (
            "satp.MODE",
            csr::SATP,
            sv39(3 << 44 | 0x80010),
            7 << 60 | 5 << 44 | 0x80020,
            sv39(3 << 44 | 0x80010),
        ),
        // With V=0 a write may be ignored as well.
        (
            "vsatp.MODE",
            csr::VSATP,
            sv39(3 << 44 | 0x80010),
            11 << 60 | 5 << 44 | 0x80020,
            sv39(3 << 44 | 0x80010),
        ),
        // "Not ignored as it is for satp": VMID and PPN are taken, MODE stays a legal one.
        (
            "hgatp.MODE",
            csr::HGATP,
            sv39(3 << 44 | 0x80010),
            7 << 60 | 5 << 44 | 0x80020,
            sv39(5 << 44 | 0x80020),
        ),
        (
            "hgatp.MODE",
            csr::HGATP,
            0,
            1 << 60 | 5 << 44 | 0x80020,
            5 << 44 | 0x80020,
        ),
        (
            "hgatp, 14 bits of VMID",
            csr::HGATP,
            0,
            sv39(0xFFFF << 44 | 3),
            sv39(0x3FFF << 44),
        ),
        ("hgatp, Sv57x4", csr::HGATP, 0, 10 << 60 | 4, 10 << 60 | 4),
    ];
    for (name, addr, before, written, after) in rows {
        let mut hart = hart(false);
        assert!(hart.poke_csr(addr, before, &mut Nothing));
        assert_eq!(hart.peek_csr_as_m(addr), Some(before), "{name}");
        hart.poke_csr(addr, written, &mut Nothing);
        assert_eq!(hart.peek_csr_as_m(addr), Some(after), "{name}");
    }
}

/// What M-mode does not have, lower modes cannot set.
#[test]
fn lower_registers_follow_those_above() {
    let mut hart = hart(true);
    for (above, below) in [
        (csr::MENVCFG, csr::HENVCFG),
        (csr::MSTATEEN0, csr::HSTATEEN0),
        (csr::MSTATEEN0 + 1, csr::HSTATEEN0 + 1),
    ] {
        hart.poke_csr(below, u64::MAX, &mut Nothing);
        assert_ne!(hart.peek_csr_as_m(below).unwrap() >> 32, 0);
        hart.poke_csr(above, 0, &mut Nothing);
        assert_eq!(hart.peek_csr_as_m(below).unwrap() >> 32, 0);
        hart.poke_csr(below, u64::MAX, &mut Nothing);
        assert_eq!(hart.peek_csr_as_m(below).unwrap() >> 32, 0);
    }
    for (deleg, views) in [
        (csr::HIDELEG, [csr::VSIE, csr::VSIP]),
        (csr::MIDELEG, [csr::SIE, csr::SIP]),
    ] {
        hart.poke_csr(deleg, 0, &mut Nothing);
        for view in views {
            hart.poke_csr(view, u64::MAX, &mut Nothing);
            assert_eq!(hart.peek_csr_as_m(view), Some(0), "{view:#x}");
        }
    }
}
