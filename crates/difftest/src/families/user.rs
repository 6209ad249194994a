//! Families of user-level instructions: integer, compressed, atomic, floating point, misaligned.

use trapless_isa::csr;
use trapless_isa::extension::Ext;
use trapless_isa::{Mode, Op};

use super::ops;
use crate::asm::{self, reg};
use crate::layout;
use crate::program::{Block, Feature, Program, Step};
use crate::rng::Rng;

/// Fills the data area with noise and points `s0`, `s1` into it.
pub fn with_data(rng: &Rng, p: &mut Program, s: &mut Step) {
    if p.data.iter().all(|b| *b == 0) {
        for w in p.data.chunks_exact_mut(8) {
            w.copy_from_slice(&rng.operand().to_le_bytes());
        }
    }
    s.x[reg::S0 as usize] = layout::DATA + 0x1800;
    s.x[reg::S1 as usize] = layout::DATA + 0x9800;
}

fn any_mode(rng: &Rng) -> Mode {
    rng.pick(&Mode::ALL)
}

/// RV64IMC, Zba, Zbb, Zbs, Zicond.
pub fn integer(rng: &Rng, p: &mut Program) {
    let mut extra = Vec::new();
    if rng.chance(1, 2) {
        let ext = rng.pick(&ops::EXTRAS);
        p.needs.insert(Feature::Has(ext));
        extra = ops::extra(ext);
    }
    for _ in 0..6 {
        let mut s = p.step(rng, any_mode(rng));
        s.note = "integer".into();
        with_data(rng, p, &mut s);
        let mut b = p.block();
        while b.len() < 150 {
            match rng.below(10) {
                0 => ops::forward_branch(rng, &mut b, &extra),
                1 | 2 => b.w(ops::memory(rng, false)),
                3..=5 => b.h(ops::compressed(rng)),
                _ => b.w(ops::arithmetic(rng, &extra)),
            }
        }
        p.add(s, b, false);
    }
}

/// Instructions retired between reads of the counter, from every mode, under `mcountinhibit`.
pub fn counters(rng: &Rng, p: &mut Program) {
    // QEMU's instret counts host time.
    p.needs.insert(Feature::Exact);
    for _ in 0..8 {
        let mode = any_mode(rng);
        let mut s = p.step(rng, mode);
        s.note = "counters".into();
        with_data(rng, p, &mut s);
        let counter = if mode == Mode::M {
            csr::MINSTRET
        } else {
            csr::INSTRET
        };
        let mut b = p.block();
        while b.len() < 60 {
            if mode == Mode::M && rng.chance(1, 4) {
                // Write, then read back: the write itself is not counted.
                b.li(reg::A0, rng.operand());
                b.w(asm::csrw(csr::MINSTRET, reg::A0));
                b.w(asm::csrr(ops::dst(rng), csr::MINSTRET));
            }
            if mode == Mode::M && rng.chance(1, 4) {
                b.w(asm::csr_op(
                    rng.range(6, 7) as u32,
                    0,
                    csr::MCOUNTINHIBIT,
                    4,
                ));
            }
            // Kept in memory: the instructions between may write any register.
            let slot = rng.below(200) as i32 * 8;
            b.w(asm::csrr(reg::T0, counter));
            b.w(asm::sd(reg::T0, reg::S0, slot));
            b.w(asm::addi(reg::T0, 0, 0));
            for _ in 0..rng.below(6) {
                match rng.below(3) {
                    0 => ops::forward_branch(rng, &mut b, &[]),
                    // No loads or stores: the slots hold absolute values.
                    1 => b.h(loop {
                        let half = ops::compressed(rng);
                        if half & 3 != 0 || half >> 13 == 0 {
                            break half;
                        }
                    }),
                    _ => b.w(ops::arithmetic(rng, &[])),
                }
            }
            // The difference must not depend on the absolute value.
            b.w(asm::csrr(reg::T2, counter));
            b.w(asm::ld(reg::T0, reg::S0, slot));
            b.w(asm::r(0x33, 0, 0x20, reg::A0, reg::T2, reg::T0)); // sub
            b.w(asm::sd(reg::A0, reg::S0, slot));
            for r in [reg::T0, reg::T2, reg::A0] {
                b.w(asm::addi(r, 0, 0));
            }
        }
        p.add(s, b, false);
    }
}

/// A: LR/SC with fixed outcome, AMOs.
pub fn atomic(rng: &Rng, p: &mut Program) {
    let zawrs = rng.chance(1, 3);
    if zawrs {
        p.needs.insert(Feature::Has(Ext::Zawrs));
    }
    for _ in 0..6 {
        let mut s = p.step(rng, any_mode(rng));
        s.note = "atomic".into();
        with_data(rng, p, &mut s);
        let mut b = p.block();
        while b.len() < 100 {
            match rng.below(4) {
                0 => ops::lr_sc(rng, &mut b),
                // Without a reservation, wrs.nto and wrs.sto do not wait.
                1 if zawrs => b.w(rng.pick(&[Op::WrsNto, Op::WrsSto]).encoding().0),
                1 => b.w(ops::arithmetic(rng, &[])),
                _ => ops::amo(rng, &mut b),
            }
        }
        p.add(s, b, false);
    }
}

/// F and D: every operation, rounding mode and class of operand; the flags.
pub fn float(rng: &Rng, p: &mut Program) {
    for _ in 0..8 {
        let mut s = p.step(rng, any_mode(rng));
        s.note = "float".into();
        with_data(rng, p, &mut s);
        s.f = std::array::from_fn(|_| ops::float_operand(rng));
        s.fcsr = rng.below(if rng.chance(1, 8) { 8 } else { 5 }) << 5;
        let mut b = p.block();
        while b.len() < 80 {
            match rng.below(12) {
                0 => b.w(ops::float_memory(rng)),
                1 => {
                    // A new operand, so that NaNs do not dominate.
                    b.li(reg::A0, ops::float_operand(rng));
                    b.w(asm::r(0x53, 0, 0x1e << 2 | 1, ops::src(rng), reg::A0, 0));
                }
                2 => b.w(asm::csr_op(
                    rng.range(1, 3) as u32,
                    ops::dst(rng),
                    rng.pick(&[csr::FFLAGS, csr::FRM, csr::FCSR]),
                    ops::src(rng),
                )),
                3 => b.w(asm::csr_op(5, ops::dst(rng), csr::FRM, rng.below(5) as u32)),
                4 => b.w(asm::csr_op(5, ops::dst(rng), csr::FFLAGS, 0)),
                _ => b.w(ops::float(rng)),
            }
        }
        p.add(s, b, false);
    }
}

/// Loads and stores at any address; AMOs and LR/SC at misaligned ones.
pub fn misaligned(rng: &Rng, p: &mut Program) {
    let atomics = rng.chance(2, 3);
    if atomics {
        p.needs.insert(Feature::AlignedAtomics);
    }
    let any_sc = atomics && p.may_need(rng, Feature::ScAlignment);
    for _ in 0..4 {
        let mut s = p.step(rng, any_mode(rng));
        s.note = "misaligned".into();
        with_data(rng, p, &mut s);
        let mut b = p.block();
        while b.len() < 60 {
            if atomics && rng.chance(1, 8) {
                misaligned_amo(rng, &mut b, any_sc);
            } else {
                b.w(ops::memory(rng, true));
            }
        }
        p.add(s, b, false);
    }
}

fn misaligned_amo(rng: &Rng, b: &mut Block, any_sc: bool) {
    let f3: u32 = rng.pick(&[2, 3]);
    let off = rng.range(1, (1 << f3) - 1) as i32;
    b.w(asm::addi(reg::A0, reg::S0, off));
    // QEMU lets an SC without reservation fail before it looks at the address.
    let f5 = if any_sc && rng.chance(1, 4) {
        0x03
    } else {
        rng.pick(&[0x01, 0x00, 0x04, 0x0c, 0x02, 0x1c])
    };
    let rs2 = if f5 == 2 { 0 } else { ops::src(rng) };
    b.w(asm::r(0x2f, f3, f5 << 2, ops::dst(rng), reg::A0, rs2));
}
