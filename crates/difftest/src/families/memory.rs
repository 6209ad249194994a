//! Families of physical memory: PMP, cache-block operations, self-modifying code.

use trapless_isa::Mode;
use trapless_isa::csr::{self, envcfg, status};
use trapless_isa::extension::Ext;

use super::{ops, user};
use crate::asm::{self, reg};
use crate::layout;
use crate::program::{Block, Feature, Program};
use crate::rng::Rng;

/// PMP: NA4, NAPOT and TOR entries over the data area, some of them locked.
pub fn pmp(rng: &Rng, p: &mut Program) {
    let lock = rng.chance(1, 3);
    for n in 0..10 {
        let mode = rng.pick(&[Mode::M, Mode::HS, Mode::U, Mode::VS, Mode::VU]);
        let mut s = p.step(rng, mode);
        s.note = "PMP".into();
        user::with_data(rng, p, &mut s);
        s.set(csr::MEDELEG, rng.subset(0xf0_b1fe) & !(1 << 2));
        // Entry 15 permits everything that no other entry matches.
        let mut cfg = [0u8; 16];
        for (e, cfg) in cfg.iter_mut().enumerate().take(15) {
            let addr = layout::DATA + (rng.below(layout::DATA_SIZE) & !7);
            let (a, value) = match rng.below(5) {
                0 => (2, addr >> 2), // NA4
                1 | 2 => {
                    let ones = rng.range(0, 10);
                    (3, addr >> 2 & !((2 << ones) - 1) | ((1 << ones) - 1)) // NAPOT
                }
                3 => (1, addr >> 2), // TOR
                _ => (0, addr >> 2),
            };
            s.set(csr::PMPADDR0 + e as u16, value);
            *cfg = (a << 3) as u8 | rng.pick(&[0, 1, 3, 4, 5, 7]);
            // A TOR entry without a lower neighbour in the data area would cover the harness.
            if a == 1 && (e == 0 || s.get(csr::PMPADDR0 + e as u16 - 1) < layout::DATA >> 2) {
                *cfg = 0;
            }
            if lock && n == 4 && rng.chance(1, 8) {
                *cfg |= 0x80;
            }
        }
        cfg[15] = 0x1f;
        s.set(csr::PMPADDR0 + 15, (1 << 54) - 1);
        s.set(
            csr::PMPCFG0,
            u64::from_le_bytes(cfg[..8].try_into().expect("eight")),
        );
        s.set(
            csr::PMPCFG0 + 2,
            u64::from_le_bytes(cfg[8..].try_into().expect("eight")),
        );
        let mut b = p.block();
        for _ in 0..20 {
            // Near the edge of an entry, or anywhere.
            let e = rng.below(15) as u16;
            let near = s.get(csr::PMPADDR0 + e) << 2;
            let addr = if rng.chance(1, 2) {
                near.wrapping_add(rng.below(8) * 8).wrapping_sub(32)
            } else {
                layout::DATA + rng.below(layout::DATA_SIZE - 8)
            };
            let addr = (addr & !7).clamp(layout::DATA, layout::DATA + layout::DATA_SIZE - 8);
            b.li(reg::A0, addr);
            if rng.chance(1, 2) {
                let f3 = rng.below(7) as u32;
                let off = if f3 & 3 == 3 {
                    0
                } else {
                    rng.below(2) as i32 * 4
                };
                b.w(asm::i(0x03, f3, ops::dst(rng), reg::A0, off));
            } else {
                let f3 = rng.below(4) as u32;
                let off = if f3 == 3 { 0 } else { rng.below(2) as i32 * 4 };
                b.w(asm::s(0x23, f3, reg::A0, ops::src(rng), off));
            }
        }
        p.add(s, b, false);
    }
}

/// `cbo.*` and prefetches under the enables of `menvcfg`, `henvcfg`, `senvcfg`.
pub fn cache_blocks(rng: &Rng, p: &mut Program) {
    p.needs.insert(Feature::Has(Ext::Zicbom));
    let value =
        |rng: &Rng| rng.pick(&[0, 1, 1, 3, 3]) << 4 | rng.subset(envcfg::CBCFE | envcfg::CBZE);
    for _ in 0..12 {
        let mode = rng.pick(&Mode::ALL);
        let mut s = p.step(rng, mode);
        s.note = "cache-block operations".into();
        user::with_data(rng, p, &mut s);
        s.set(csr::MEDELEG, rng.subset(0xf0_b1fe) & !(1 << 2));
        for e in [csr::MENVCFG, csr::HENVCFG, csr::SENVCFG] {
            s.set(e, value(rng));
        }
        let mut b = p.block();
        for _ in 0..12 {
            let addr = layout::DATA + 0x1000 + rng.below(0x2000);
            b.li(reg::A0, addr);
            match rng.below(6) {
                // cbo.inval, clean, flush, zero
                n @ 0..=4 => {
                    b.w(asm::i(0x0f, 2, 0, reg::A0, rng.pick(&[n as i32, 4]).min(4)));
                }
                // prefetch.i, .r, .w
                _ => {
                    b.w(asm::i(0x13, 6, 0, reg::A0, rng.pick(&[0, 1, 3])));
                }
            }
        }
        p.add(s, b, false);
    }
}

/// Code that writes code and runs it after `fence.i`.
pub fn self_modifying(rng: &Rng, p: &mut Program) {
    for _ in 0..8 {
        let mut s = p.step(rng, rng.pick(&Mode::ALL));
        s.note = "fence.i".into();
        s.set(csr::MSTATUS, s.get(csr::MSTATUS) | status::FS);
        let mut b: Block = p.block();
        for _ in 0..6 {
            // The word to overwrite is eight instructions ahead.
            let new = ops::arithmetic(rng, &[]);
            let old = ops::arithmetic(rng, &[]);
            let mut probe = p.block();
            probe.li(reg::A0, u64::from(new));
            let n = probe.len() as i32;
            b.li(reg::A0, u64::from(new));
            b.w(asm::u(0x17, reg::T0, 0)); // auipc
            b.w(asm::s(0x23, 2, reg::T0, reg::A0, 12)); // sw
            b.w(asm::FENCE_I);
            b.w(old);
            let _ = n;
            for _ in 0..rng.below(4) {
                b.w(ops::arithmetic(rng, &[]));
            }
        }
        p.add(s, b, false);
    }
}
