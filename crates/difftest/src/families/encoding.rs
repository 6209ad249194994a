//! Reserved encodings: valid instructions with a few bits flipped, and random compressed ones.

use trapless_isa::Mode;

use super::{ops, user};
use crate::asm::{self, reg};
use crate::program::{Block, Program};
use crate::rng::Rng;

/// True if the word is left to other families: it would leave the block, wait, or access a CSR.
fn elsewhere(word: u32) -> bool {
    let f3 = word >> 12 & 7;
    match word & 0x7f {
        0x63 => !matches!(f3, 2 | 3),
        0x67 => f3 == 0,
        0x6f => true,
        // Everything with funct3 = 0 depends on privilege; 4 is hlv, hsv and reserved.
        0x73 => f3 != 4,
        // The result of an SC depends on the state of the reservation.
        0x2f => matches!(word >> 27, 2 | 3),
        // fence.i, pause and the cache-block operations.
        0x0f => f3 == 1 || f3 == 2,
        _ => false,
    }
}

fn flipped(rng: &Rng, b: &mut Block) {
    let base = match rng.below(8) {
        0 => ops::memory(rng, false),
        1 => ops::float_memory(rng),
        2 | 3 => ops::float(rng),
        4 => asm::r(
            0x2f,
            rng.pick(&[2, 3]),
            rng.below(128) as u32,
            ops::dst(rng),
            reg::S0,
            ops::src(rng),
        ),
        5 => asm::r(
            0x73,
            4,
            0x30 | rng.below(8) as u32,
            ops::dst(rng),
            reg::S0,
            rng.below(4) as u32,
        ),
        _ => ops::arithmetic(rng, &[]),
    };
    // Flip bits that determine the operation: opcode, funct3, funct7, rs2.
    let mut word = base;
    for _ in 0..rng.range(1, 3) {
        word ^= 1
            << rng.pick(&[
                2, 3, 4, 5, 6, 12, 13, 14, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
            ]);
    }
    // Only the base register of loads, stores and AMOs may be used as an address.
    let rd = word >> 7 & 31;
    let rs1 = word >> 15 & 31;
    let store = matches!(word & 0x7f, 0x23 | 0x27);
    let memory = store || matches!(word & 0x7f, 0x03 | 0x07 | 0x2f | 0x73);
    let base = rs1 == reg::S0 || rs1 == reg::S1;
    let keeps = store || rd != reg::S0 && rd != reg::S1 && rd != reg::SP;
    if !elsewhere(word) && keeps && (base || !memory) {
        b.w(word);
    }
}

/// True if a compressed encoding changes the flow of control.
fn jumps(half: u16) -> bool {
    let f3 = half >> 13;
    match half & 3 {
        1 => f3 >= 5,
        2 => f3 == 4,
        _ => false,
    }
}

/// Reserved and neighbouring encodings in every mode.
pub fn encodings(rng: &Rng, p: &mut Program) {
    for _ in 0..8 {
        let mut s = p.step(rng, rng.pick(&Mode::ALL));
        s.note = "encodings".into();
        user::with_data(rng, p, &mut s);
        s.x[reg::SP as usize] = s.x[reg::S1 as usize];
        let mut b = p.block();
        while b.len() < 60 {
            if rng.chance(1, 4) {
                let half = rng.next() as u16;
                let rd = u32::from(half >> 7 & 31);
                let (low, high) = (u32::from(half >> 2 & 7) + 8, u32::from(half >> 7 & 7) + 8);
                let pointer = |r: u32| r == reg::S0 || r == reg::S1;
                let fine = match half & 3 {
                    // Loads and stores through x8 or x9; c.addi4spn.
                    0 => !pointer(low) && (pointer(high) || half >> 13 == 0),
                    1 => !pointer(rd) && !pointer(high) && rd != reg::SP,
                    2 => !pointer(rd) && rd != reg::SP,
                    _ => false,
                };
                if fine && !jumps(half) {
                    b.h(half);
                }
            } else {
                flipped(rng, &mut b);
            }
        }
        p.add(s, b, false);
    }
}
