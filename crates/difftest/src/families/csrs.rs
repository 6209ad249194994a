//! CSR accesses: every named CSR from every mode, legality and WARL results.

use trapless_isa::Mode;
use trapless_isa::cause::exception as exc;
use trapless_isa::csr::{self, envcfg, hstatus, stateen0, status};
use trapless_isa::extension::Ext;

use super::ops;
use crate::asm::{self, Reg, reg};
use crate::layout;
use crate::program::{Block, Feature, Program};
use crate::rng::Rng;

/// Writes of a CSR whose result does not depend on the implementation.
#[derive(Clone, Copy)]
enum Write {
    /// Not at all.
    Never,
    /// Any bits of the mask, by any instruction.
    Bits(u64),
    /// Only whole values from a generator.
    Whole(fn(&Rng) -> u64),
}

/// The generator's description of a CSR.
struct Csr {
    addr: u16,
    /// The value read is the same on all models.
    read: bool,
    write: Write,
    /// Can redirect traps or cause interrupts: not in every step.
    group: Group,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// Harmless.
    Plain,
    /// Trap vectors and scratch registers of the handlers below M.
    Vector,
    /// Interrupt pending and enable bits.
    Interrupt,
}

const STATUS: u64 = status::SIE
    | status::MIE
    | status::SPIE
    | status::MPIE
    | status::SPP
    | status::FS
    | status::MPRV
    | status::SUM
    | status::MXR
    | status::TVM
    | status::TW
    | status::TSR;
const SSTATUS: u64 =
    status::SIE | status::SPIE | status::SPP | status::FS | status::SUM | status::MXR;

fn envcfg_value(rng: &Rng) -> u64 {
    let cbie = rng.pick(&[0, 1, 3]) << 4;
    cbie | rng.subset(envcfg::CBCFE | envcfg::CBZE | envcfg::PBMTE | envcfg::STCE | envcfg::ADUE)
}

fn senvcfg_value(rng: &Rng) -> u64 {
    envcfg_value(rng) & (envcfg::CBIE | envcfg::CBCFE | envcfg::CBZE)
}

fn hstatus_value(rng: &Rng) -> u64 {
    hstatus::VSXL_64
        | rng.subset(
            hstatus::SPV
                | hstatus::SPVP
                | hstatus::HU
                | hstatus::VTVM
                | hstatus::VTW
                | hstatus::VTSR,
        )
}

fn mstatus_value(rng: &Rng) -> u64 {
    status::UXL_64 | status::SXL_64 | rng.subset(STATUS) | rng.pick(&[0, 1, 3]) << 11
}

fn sstatus_value(rng: &Rng) -> u64 {
    status::UXL_64 | rng.subset(SSTATUS)
}

fn cause_value(rng: &Rng) -> u64 {
    rng.pick(&[
        exc::ILLEGAL,
        exc::BREAKPOINT,
        exc::LOAD_ACCESS,
        exc::ECALL_U,
        exc::FETCH_PAGE,
        exc::STORE_PAGE,
        1 << 63 | 1,
        1 << 63 | 5,
        1 << 63 | 9,
    ])
}

fn vector_value(rng: &Rng) -> u64 {
    rng.next() & 0xffff_ffc0 | rng.below(2)
}

fn now_or_never(rng: &Rng) -> u64 {
    if rng.chance(1, 2) { 0 } else { u64::MAX }
}

fn never(_: &Rng) -> u64 {
    u64::MAX
}

/// Supported modes only, PPN and ASID at random.
fn atp_value(rng: &Rng) -> u64 {
    paged(rng, rng.next() & ((1 << 60) - 1))
}

fn hgatp_value(rng: &Rng) -> u64 {
    // Bits 59:58 are reserved, the VMID has 14 bits.
    // Roots are 16 KiB aligned; QEMU keeps the low bits of the PPN.
    paged(rng, rng.next() & ((1 << 58) - 4))
}

/// Bare demands that all other fields be zero.
fn paged(rng: &Rng, fields: u64) -> u64 {
    match rng.pick(&[0, 8, 9, 10]) {
        0 => 0,
        mode => mode << 60 | fields,
    }
}

const ALL: u64 = u64::MAX;
const INTS: u64 = 0x1eee;

const fn c(addr: u16, read: bool, write: Write) -> Csr {
    Csr {
        addr,
        read,
        write,
        group: Group::Plain,
    }
}

const fn v(addr: u16, write: Write) -> Csr {
    Csr {
        addr,
        read: true,
        write,
        group: Group::Vector,
    }
}

const fn i(addr: u16, mask: u64) -> Csr {
    Csr {
        addr,
        read: true,
        write: Write::Bits(mask),
        group: Group::Interrupt,
    }
}

use Write::{Bits, Never, Whole};

const CSRS: &[Csr] = &[
    c(csr::FFLAGS, true, Bits(0x1f)),
    c(csr::FRM, true, Bits(7)),
    c(csr::FCSR, true, Bits(0xff)),
    c(csr::SSTATUS, true, Whole(sstatus_value)),
    c(csr::SSTATUS, true, Bits(SSTATUS)),
    c(csr::SCOUNTEREN, true, Bits(7)),
    c(csr::SENVCFG, true, Whole(senvcfg_value)),
    c(csr::SEPC, true, Bits(ALL & !1)),
    c(csr::SCAUSE, true, Whole(cause_value)),
    c(csr::STVAL, true, Bits(ALL)),
    c(csr::SATP, true, Never),
    c(csr::VSSTATUS, false, Whole(sstatus_value)),
    c(csr::VSSCRATCH, true, Bits(ALL)),
    c(csr::VSEPC, true, Bits(ALL & !1)),
    c(csr::VSCAUSE, true, Whole(cause_value)),
    c(csr::VSTVAL, true, Bits(ALL)),
    c(csr::VSATP, true, Whole(atp_value)),
    c(csr::MSTATUS, true, Whole(mstatus_value)),
    c(csr::MSTATUS, true, Bits(STATUS & !status::MPRV)),
    c(csr::MISA, false, Never),
    c(csr::MEDELEG, true, Bits(0xf0_b7fe)),
    c(csr::MTVEC, false, Never),
    c(csr::MCOUNTEREN, true, Bits(7)),
    c(csr::MENVCFG, true, Whole(envcfg_value)),
    c(csr::MCOUNTINHIBIT, false, Bits(5)),
    c(csr::MSCRATCH, true, Never),
    c(csr::MEPC, true, Bits(ALL & !1)),
    c(csr::MCAUSE, true, Whole(cause_value)),
    c(csr::MTVAL, true, Bits(ALL)),
    c(csr::MTINST, true, Bits(0)),
    c(csr::MTVAL2, true, Bits(ALL >> 6)),
    c(csr::HSTATUS, true, Whole(hstatus_value)),
    c(csr::HEDELEG, true, Bits(0xb1fe)),
    c(csr::HTIMEDELTA, true, Bits(ALL)),
    c(csr::HCOUNTEREN, true, Bits(7)),
    c(csr::HENVCFG, true, Whole(envcfg_value)),
    c(csr::HTVAL, true, Bits(ALL >> 6)),
    c(csr::HTINST, true, Bits(0)),
    c(csr::HGATP, true, Whole(hgatp_value)),
    c(csr::MCYCLE, false, Bits(ALL)),
    c(csr::MINSTRET, false, Bits(ALL)),
    c(csr::CYCLE, false, Bits(ALL)),
    c(csr::TIME, false, Bits(ALL)),
    c(csr::INSTRET, false, Bits(ALL)),
    c(csr::MVENDORID, false, Bits(1)),
    c(csr::MARCHID, false, Bits(1)),
    c(csr::MIMPID, false, Never),
    c(csr::MHARTID, true, Bits(1)),
    c(csr::PMPCFG0, true, Never),
    c(csr::PMPADDR0, true, Never),
    // RV32 only, or not assigned: never exists.
    c(0x3a1, false, Bits(ALL)),
    c(0xc80, false, Bits(ALL)),
    c(0x310, false, Bits(ALL)),
    c(0x61a, false, Bits(ALL)),
    c(0x615, false, Bits(ALL)),
    c(0x190, false, Bits(ALL)),
    c(0x2c0, false, Bits(ALL)),
    c(0x6f0, false, Bits(ALL)),
    c(0x3f5, false, Bits(ALL)),
    v(csr::STVEC, Whole(vector_value)),
    v(csr::SSCRATCH, Bits(ALL)),
    v(csr::VSTVEC, Whole(vector_value)),
    i(csr::SIE, INTS),
    i(csr::SIP, INTS),
    i(csr::MIE, INTS),
    i(csr::MIP, INTS),
    i(csr::HIE, INTS),
    i(csr::HIP, INTS),
    i(csr::HVIP, INTS),
    i(csr::VSIE, 0x222),
    i(csr::VSIP, 0x222),
    i(csr::MIDELEG, 0x222),
    i(csr::HIDELEG, 0x444),
];

const SSTC: &[Csr] = &[
    Csr {
        addr: csr::STIMECMP,
        read: true,
        write: Whole(never),
        group: Group::Interrupt,
    },
    Csr {
        addr: csr::VSTIMECMP,
        read: true,
        write: Whole(never),
        group: Group::Interrupt,
    },
];

const STATEEN: &[Csr] = &[
    c(
        csr::MSTATEEN0,
        false,
        Bits(stateen0::SE0 | stateen0::ENVCFG),
    ),
    c(
        csr::HSTATEEN0,
        false,
        Bits(stateen0::SE0 | stateen0::ENVCFG),
    ),
    c(csr::SSTATEEN0, false, Bits(0)),
];

fn access(rng: &Rng, b: &mut Block, csr: &Csr, mode: Mode, exact: bool, timer: bool) {
    // QEMU shows foreign bits in hvip, and QEMU 10 a GVA in mstatus that nothing can clear.
    let read = csr.read && (exact || !matches!(csr.addr, csr::HVIP | csr::MSTATUS));
    let rd: Reg = if read {
        loop {
            let r = ops::dst(rng);
            if r != reg::A0 {
                break r;
            }
        }
    } else {
        0
    };
    if rng.chance(1, 4) {
        b.w(asm::csrr(rd, csr.addr));
        return;
    }
    match csr.write {
        // Not this mode's own vector, which would lose the handler, unless the write must trap.
        Write::Never if mode == Mode::M => b.w(asm::csrr(rd, csr.addr)),
        Write::Never => {
            let name = csr.addr >> 8 & 3;
            let f3 = if u64::from(name) > mode.privilege() as u64 {
                rng.range(1, 3)
            } else {
                2
            };
            b.w(asm::csr_op(
                f3 as u32,
                rd,
                csr.addr,
                if f3 == 2 { 0 } else { reg::A0 },
            ));
        }
        Write::Bits(mask) => {
            // QEMU lets other bits leak into the VS-level ones, and loses VSTIP under Sstc.
            let mask = match csr.addr {
                csr::SIE | csr::SIP if !exact => mask & 0x222,
                csr::HVIP if !exact => mask & 0x404,
                _ => mask,
            };
            if rng.chance(1, 5) {
                let uimm = (rng.next() & mask & 0x1f) as u32;
                let f3 = rng.range(5, 7) as u32;
                b.w(asm::csr_op(f3, rd, csr.addr, uimm));
            } else {
                b.li(reg::A0, rng.subset(mask));
                // A whole write may only be one if the other bits are known to be zero.
                let whole = rng.chance(1, 2) && !is_status(csr.addr);
                let f3 = if whole { 1 } else { rng.range(2, 3) as u32 };
                b.w(asm::csr_op(f3, rd, csr.addr, reg::A0));
            }
        }
        Write::Whole(value) => {
            let value = if timer && SSTC.iter().any(|s| s.addr == csr.addr) {
                now_or_never
            } else {
                value
            };
            b.li(reg::A0, value(rng));
            b.w(asm::csr_op(1, rd, csr.addr, reg::A0));
        }
    }
    if read && rng.chance(1, 2) {
        b.w(asm::csrr(ops::dst(rng), csr.addr));
    }
}

fn is_status(addr: u16) -> bool {
    matches!(addr, csr::SSTATUS | csr::MSTATUS | csr::VSSTATUS)
}

/// CSR instructions in every mode under random gates.
pub fn csrs(rng: &Rng, p: &mut Program) {
    let stateen = rng.chance(1, 3);
    if stateen {
        p.needs.insert(Feature::Has(Ext::Smstateen));
    }
    let exact = p.exact(rng);
    // QEMU's comparators stay active when they are disabled.
    let timer = exact && rng.chance(1, 2);
    p.needs.insert(Feature::Has(Ext::Sstc));
    if timer {
        p.needs.insert(Feature::PreciseTimer);
    }
    // QEMU 7.2 has fewer bits of menvcfg.
    if rng.chance(1, 2) {
        p.needs.insert(Feature::Has(Ext::Svadu));
        p.needs.insert(Feature::Has(Ext::Zicbom));
    }
    for _ in 0..12 {
        let mode = rng.pick(&Mode::ALL);
        // QEMU does not let mstateen0 turn a virtual-instruction exception into an illegal one.
        let stateen = stateen && (exact || !mode.v());
        let mut s = p.step(rng, mode);
        let group = rng.pick(&[Group::Vector, Group::Interrupt]);
        s.note = "CSR accesses".into();
        s.set(
            csr::MSTATUS,
            s.get(csr::MSTATUS) | rng.subset(status::TVM | status::TW | status::TSR),
        );
        s.set(
            csr::HSTATUS,
            s.get(csr::HSTATUS) | rng.subset(hstatus::VTVM | hstatus::HU),
        );
        for e in [csr::MCOUNTEREN, csr::HCOUNTEREN, csr::SCOUNTEREN] {
            s.set(e, rng.subset(7));
        }
        s.set(csr::MENVCFG, rng.subset(envcfg::STCE));
        s.set(csr::HENVCFG, rng.subset(envcfg::STCE) & s.get(csr::MENVCFG));
        if rng.chance(1, 4) {
            s.set(csr::MSTATUS, s.get(csr::MSTATUS) & !status::FS);
        }
        if rng.chance(1, 4) {
            s.set(csr::VSSTATUS, s.get(csr::VSSTATUS) & !status::FS);
        }
        if stateen {
            for e in [csr::MSTATEEN0, csr::HSTATEEN0] {
                s.set(e, rng.subset(stateen0::SE0 | stateen0::ENVCFG));
            }
        }
        if group == Group::Interrupt {
            s.set(csr::HIDELEG, rng.subset(0x444));
            s.set(csr::MIDELEG, rng.subset(0x222));
        }
        let mut b = p.block();
        while b.len() < 60 {
            let csr = match rng.below(20) {
                0 => &SSTC[rng.below(2) as usize],
                1 | 2 if stateen => &STATEEN[rng.below(3) as usize],
                _ => &CSRS[rng.below(CSRS.len() as u64) as usize],
            };
            // QEMU forgets henvcfg bits that menvcfg masks, and lets whole writes of mip and sip
            // reach bits that they must not.
            if !exact && matches!(csr.addr, csr::MENVCFG | csr::MIP) && mode == Mode::M {
                continue;
            }
            // It also sometimes reads the VS-level ones as 0.
            if !exact && mode.v() && matches!(csr.addr, csr::SIE | csr::SIP) {
                continue;
            }
            if csr.group == Group::Plain || csr.group == group {
                access(rng, &mut b, csr, mode, exact, timer);
            }
        }
        p.add(s, b, false);
    }
    let _ = layout::CTX;
}
