//! Families of traps: delegation, interrupts, privileged instructions and their gates.

use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::extension::Ext;

use super::{ops, pages};
use crate::asm::{self, reg};
use crate::layout::{self, Policy};
use crate::program::{Block, Feature, Program};
use crate::rng::Rng;

/// An instruction that raises an exception in some mode.
fn exception(rng: &Rng, b: &mut Block) {
    match rng.below(14) {
        0 | 1 => {
            b.w(asm::addi(reg::A7, 0, 1));
            b.w(asm::ECALL);
        }
        2 => b.w(asm::EBREAK),
        3 => b.h(0x9002), // c.ebreak
        4 => b.h(0),      // defined illegal
        5 => b.w(u32::MAX),
        6 => {
            b.li(reg::A0, pages::NOWHERE + rng.below(64) * 8);
            b.w(asm::ld(ops::dst(rng), reg::A0, 0));
        }
        7 => {
            b.li(reg::A0, pages::NOWHERE + rng.below(64) * 8);
            b.w(asm::sd(ops::src(rng), reg::A0, 0));
        }
        8 => {
            b.li(reg::A0, pages::NOWHERE);
            b.w(asm::jalr(reg::RA, reg::A0, 0));
        }
        // No misaligned AMO: which of its two causes it raises is not specified, and with it the
        // handler.
        9 => b.w(asm::csrw(
            rng.pick(&[csr::STVAL, csr::MTVAL, csr::MCYCLE]),
            0,
        )),
        10 => b.w(asm::csrr(
            0,
            rng.pick(&[csr::MSTATUS, csr::HSTATUS, csr::VSSTATUS, csr::SATP]),
        )),
        11 => b.w(asm::csrw(
            rng.pick(&[csr::CYCLE, csr::HTVAL, csr::VSTVAL, csr::MHARTID]),
            0,
        )),
        12 => {
            b.li(reg::A0, layout::DATA);
            b.w(asm::r(0x73, 4, 0x36, ops::dst(rng), reg::A0, 0)); // hlv.d
        }
        _ => b.w(ops::arithmetic(rng, &[])),
    }
}

/// Random `medeleg`, `hedeleg`; every exception from every mode.
pub fn delegation(rng: &Rng, p: &mut Program) {
    for _ in 0..12 {
        let mode = rng.pick(&Mode::ALL);
        let mut s = p.step(rng, mode);
        s.note = "exceptions under delegation".into();
        // The HS handler leaves by an ecall, or, if that is delegated to itself, by an illegal
        // instruction: one of them must reach M.
        let mut m = rng.subset(0xf0_b7fe);
        m &= !rng.pick(&[1 << 2, 1 << 9]);
        s.set(csr::MEDELEG, m);
        s.set(csr::HEDELEG, rng.subset(0xb1fe));
        if rng.chance(1, 8) {
            s.policy = Policy::EndStep;
        }
        let mut b = p.block();
        while b.len() < 25 {
            exception(rng, &mut b);
        }
        p.add(s, b, false);
    }
}

/// Interrupts of every level at once, under random delegation and enables.
pub fn interrupts(rng: &Rng, p: &mut Program) {
    let exact = p.exact(rng);
    let timer = rng.chance(1, 3);
    if timer {
        p.needs
            .extend([Feature::Has(Ext::Sstc), Feature::PreciseTimer]);
    }
    for _ in 0..14 {
        let mode = rng.pick(&Mode::ALL);
        let mut s = p.step(rng, mode);
        s.note = "interrupts".into();
        s.set(csr::MIDELEG, rng.subset(0x222));
        s.set(csr::HIDELEG, rng.subset(0x444));
        s.set(csr::MIE, rng.subset(0x0eee));
        s.set(csr::MIP, rng.subset(0x222));
        s.set(csr::HVIP, rng.subset(0x444));
        s.interrupts(rng.chance(2, 3));
        let sie = rng.subset(status::SIE);
        s.set(csr::MSTATUS, s.get(csr::MSTATUS) | sie);
        s.set(
            csr::VSSTATUS,
            s.get(csr::VSSTATUS) | rng.subset(status::SIE),
        );
        let mut hvip = 0x444;
        if timer && rng.chance(1, 2) {
            // Supervisor timers: pending at once or never.
            let m = rng.subset(csr::envcfg::STCE);
            let h = if exact {
                rng.subset(csr::envcfg::STCE) & m
            } else {
                0
            };
            s.set(csr::MENVCFG, m);
            s.set(csr::HENVCFG, h);
            // QEMU's comparators stay active when they are disabled.
            let compare = |on: u64| {
                if on != 0 && rng.chance(1, 2) {
                    0
                } else {
                    u64::MAX
                }
            };
            s.set(csr::STIMECMP, compare(m));
            if exact {
                s.set(csr::VSTIMECMP, compare(h));
            } else {
                // QEMU's own VSTIP sticks, and with a comparator it loses hvip.VSTIP.
                s.set(csr::HVIP, s.get(csr::HVIP) & 0x404);
                hvip = 0x404;
            }
        }
        if timer && rng.chance(1, 3) {
            s.pokes.push((layout::MTIMECMP, 0));
        }
        let mut b = p.block();
        while b.len() < 24 {
            match rng.below(6) {
                0 | 1 => b.w(ops::arithmetic(rng, &[])),
                2 => {
                    b.li(reg::A0, rng.subset(status::SIE | status::SPIE));
                    b.w(asm::csr_op(
                        rng.range(2, 3) as u32,
                        0,
                        csr::SSTATUS,
                        reg::A0,
                    ));
                }
                _ => {
                    let (csr, mask) = rng.pick(&[
                        (csr::SIE, 0x222),
                        (csr::SIP, 0x222),
                        (csr::HVIP, hvip),
                        (csr::HIE, 0x1444),
                        (csr::VSIE, 0x222),
                        (csr::VSIP, 0x222),
                        (csr::HIDELEG, 0x444),
                        (csr::MIP, 0x222),
                        (csr::MIE, 0xeee),
                    ]);
                    b.li(reg::A0, rng.subset(mask));
                    // A whole write to mip also reaches VSTIP and VSEIP on QEMU.
                    let from = if csr == csr::MIP && !exact { 2 } else { 1 };
                    b.w(asm::csr_op(rng.range(from, 3) as u32, 0, csr, reg::A0));
                }
            }
        }
        p.add(s, b, false);
    }
}

/// Fences, WFI, SRET, MRET in every mode under TVM, TW, TSR, VTVM, VTW, VTSR, HU.
pub fn privileged(rng: &Rng, p: &mut Program) {
    let exact = p.exact(rng);
    for _ in 0..12 {
        let mode = rng.pick(&Mode::ALL);
        let mut s = p.step(rng, mode);
        s.note = "privileged instructions".into();
        let mut m = rng.subset(status::TVM | status::TW | status::TSR);
        m |= rng.subset(status::SPP | status::SPIE | status::MPIE | status::SUM | status::MXR);
        if !exact {
            // QEMU applies TSR to VS-mode, too.
            m &= !status::TSR;
            // It also gives hstatus.VTW and VU-mode precedence over TW.
            if mode.v() {
                m &= !status::TW;
            }
        }
        if !s.by_sret {
            s.set(csr::MSTATUS, s.get(csr::MSTATUS) | m);
        } else {
            s.set(csr::MSTATUS, s.get(csr::MSTATUS) | m & !status::SPP);
        }
        let h = hstatus::VTVM | hstatus::VTW | hstatus::VTSR | hstatus::HU | hstatus::SPVP;
        s.set(csr::HSTATUS, s.get(csr::HSTATUS) | rng.subset(h));
        s.set(
            csr::VSSTATUS,
            s.get(csr::VSSTATUS) | rng.subset(status::SPP | status::SPIE),
        );
        // WFI must find a pending interrupt that is not taken.
        let wfi = match mode {
            Mode::M | Mode::HS => {
                s.set(csr::MIDELEG, 2);
                s.set(csr::MIP, 2);
                s.set(csr::MIE, 2);
                mode == Mode::M || !(s.by_sret && m & status::SPIE != 0)
            }
            Mode::VS | Mode::VU => {
                s.set(csr::HIDELEG, 4);
                s.set(csr::HVIP, 4);
                s.set(csr::MIE, 4);
                s.set(csr::VSIE, 2); // an alias, written later
                mode == Mode::VU || s.get(csr::VSSTATUS) & status::SIE == 0
            }
            Mode::U => true,
        };
        let mut b = p.block();
        if wfi && rng.chance(1, 2) {
            b.w(asm::WFI);
        }
        while b.len() < 30 {
            let (rs1, rs2) = (rng.pick(&[0, reg::A0]), rng.pick(&[0, reg::A0]));
            match rng.below(9) {
                0 => b.w(asm::sfence_vma(rs1, rs2)),
                1 => b.w(asm::hfence_vvma(rs1, rs2)),
                2 => b.w(asm::hfence_gvma(rs1, rs2)),
                3 => b.w(asm::r(0x73, 0, rng.pick(&[0x0b, 0x13, 0x33]), 0, rs1, rs2)),
                // QEMU lets U- and VU-mode execute these.
                4 if exact => b.w(rng.pick(&[0x1800_0073, 0x1810_0073])),
                6 => return_to_next(&mut b, csr::SEPC, asm::SRET),
                7 if rng.chance(1, 2) => return_to_next(&mut b, csr::MEPC, asm::MRET),
                _ => b.w(ops::arithmetic(rng, &[])),
            }
        }
        p.add(s, b, false);
    }
}

/// Sets an `epc` to the instruction after a return, and returns.
fn return_to_next(b: &mut Block, epc: u16, ret: u32) {
    b.w(asm::u(0x17, reg::A0, 0)); // auipc a0, 0
    b.w(asm::addi(reg::A0, reg::A0, 16));
    b.w(asm::csrw(epc, reg::A0));
    b.w(ret);
}
