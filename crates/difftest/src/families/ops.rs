//! Random user-level instructions: what every family's blocks are filled with.
//!
//! `s0` and `s1` are pointers into the data area and are never written; all other registers may
//! hold anything.

use crate::asm::{self, Reg, reg};
use crate::program::Block;
use crate::rng::Rng;

/// (funct7, funct3, opcode) of register-register operations of I, M, Zba, Zbb, Zbs.
const RTYPE: &[(u32, u32, u32)] = &[
    // I
    (0x00, 0, 0x33),
    (0x20, 0, 0x33),
    (0x00, 1, 0x33),
    (0x00, 2, 0x33),
    (0x00, 3, 0x33),
    (0x00, 4, 0x33),
    (0x00, 5, 0x33),
    (0x20, 5, 0x33),
    (0x00, 6, 0x33),
    (0x00, 7, 0x33),
    (0x00, 0, 0x3b),
    (0x20, 0, 0x3b),
    (0x00, 1, 0x3b),
    (0x00, 5, 0x3b),
    (0x20, 5, 0x3b),
    // M
    (0x01, 0, 0x33),
    (0x01, 1, 0x33),
    (0x01, 2, 0x33),
    (0x01, 3, 0x33),
    (0x01, 4, 0x33),
    (0x01, 5, 0x33),
    (0x01, 6, 0x33),
    (0x01, 7, 0x33),
    (0x01, 0, 0x3b),
    (0x01, 4, 0x3b),
    (0x01, 5, 0x3b),
    (0x01, 6, 0x3b),
    (0x01, 7, 0x3b),
    // Zba: sh1add sh2add sh3add and their .uw forms, add.uw
    (0x10, 2, 0x33),
    (0x10, 4, 0x33),
    (0x10, 6, 0x33),
    (0x10, 2, 0x3b),
    (0x10, 4, 0x3b),
    (0x10, 6, 0x3b),
    (0x04, 0, 0x3b),
    // Zbb: andn orn xnor, min/minu/max/maxu, rol ror rolw rorw, zext.h below
    (0x20, 7, 0x33),
    (0x20, 6, 0x33),
    (0x20, 4, 0x33),
    (0x05, 4, 0x33),
    (0x05, 5, 0x33),
    (0x05, 6, 0x33),
    (0x05, 7, 0x33),
    (0x30, 1, 0x33),
    (0x30, 5, 0x33),
    (0x30, 1, 0x3b),
    (0x30, 5, 0x3b),
    // Zbs: bclr bext binv bset
    (0x24, 1, 0x33),
    (0x24, 5, 0x33),
    (0x34, 1, 0x33),
    (0x14, 1, 0x33),
];

/// Zicond: `czero.eqz`, `czero.nez`.
const ZICOND: &[(u32, u32, u32)] = &[(0x07, 5, 0x33), (0x07, 7, 0x33)];

/// (imm[11:0], funct3, opcode) of unary operations of Zbb.
const UNARY: &[(u32, u32, u32)] = &[
    (0x600, 1, 0x13), // clz
    (0x601, 1, 0x13), // ctz
    (0x602, 1, 0x13), // cpop
    (0x604, 1, 0x13), // sext.b
    (0x605, 1, 0x13), // sext.h
    (0x600, 1, 0x1b), // clzw
    (0x601, 1, 0x1b), // ctzw
    (0x602, 1, 0x1b), // cpopw
    (0x080, 4, 0x3b), // zext.h
    (0x287, 5, 0x13), // orc.b
    (0x6b8, 5, 0x13), // rev8
];

/// (imm[11:6], funct3, opcode, shift amounts) of shifts and single-bit operations by immediate.
const SHIFTS: &[(u32, u32, u32, u64)] = &[
    (0x00, 1, 0x13, 64), // slli
    (0x00, 5, 0x13, 64), // srli
    (0x10, 5, 0x13, 64), // srai
    (0x00, 1, 0x1b, 32), // slliw
    (0x00, 5, 0x1b, 32), // srliw
    (0x10, 5, 0x1b, 32), // sraiw
    (0x02, 1, 0x1b, 64), // slli.uw
    (0x18, 5, 0x13, 64), // rori
    (0x18, 5, 0x1b, 32), // roriw
    (0x12, 1, 0x13, 64), // bclri
    (0x12, 5, 0x13, 64), // bexti
    (0x1a, 1, 0x13, 64), // binvi
    (0x0a, 1, 0x13, 64), // bseti
];

/// Any register.
pub fn src(rng: &Rng) -> Reg {
    rng.below(32) as Reg
}

/// Any register except the data pointers.
pub fn dst(rng: &Rng) -> Reg {
    loop {
        let r = rng.below(32) as Reg;
        if r != reg::S0 && r != reg::S1 {
            return r;
        }
    }
}

fn imm12(rng: &Rng) -> i32 {
    match rng.below(4) {
        0 => rng.pick(&[0, 1, -1, 2047, -2048, 7, 8]),
        _ => rng.below(4096) as i32 - 2048,
    }
}

/// One arithmetic instruction without side effects beyond `rd`.
pub fn arithmetic(rng: &Rng, zicond: bool) -> u32 {
    let (rd, rs1, rs2) = (dst(rng), src(rng), src(rng));
    match rng.below(10) {
        0..=4 => {
            let (f7, f3, op) = if zicond && rng.chance(1, 12) {
                rng.pick(ZICOND)
            } else {
                rng.pick(RTYPE)
            };
            asm::r(op, f3, f7, rd, rs1, rs2)
        }
        5 => {
            let (mut imm, f3, op) = rng.pick(UNARY);
            if imm == 0x601 && op == 0x1b && !zicond {
                imm = 0x600; // ctzw looks at the upper half on QEMU 7.2, which lacks Zicond
            }
            asm::i(op, f3, rd, rs1, imm as i32)
        }
        6 => {
            let (hi, f3, op, n) = rng.pick(SHIFTS);
            asm::i(op, f3, rd, rs1, (hi << 6 | rng.below(n) as u32) as i32)
        }
        7 => asm::u(rng.pick(&[0x37, 0x17]), rd, rng.next() as u32 & 0xf_ffff),
        8 => asm::i(0x1b, 0, rd, rs1, imm12(rng)), // addiw
        _ => asm::i(0x13, rng.pick(&[0, 2, 3, 4, 6, 7]), rd, rs1, imm12(rng)),
    }
}

/// Offset of an access of `size` bytes from a data pointer.
fn offset(rng: &Rng, size: i32, misaligned: bool) -> i32 {
    let o = rng.below(4096 - 16) as i32 - 2048;
    if misaligned { o } else { o & -size }
}

/// A load or store through a data pointer; `misaligned` allows any offset.
pub fn memory(rng: &Rng, misaligned: bool) -> u32 {
    let base = rng.pick(&[reg::S0, reg::S1]);
    if rng.chance(1, 2) {
        let f3 = rng.below(7) as u32;
        asm::i(
            0x03,
            f3,
            dst(rng),
            base,
            offset(rng, 1 << (f3 & 3), misaligned),
        )
    } else {
        let f3 = rng.below(4) as u32;
        asm::s(0x23, f3, base, src(rng), offset(rng, 1 << f3, misaligned))
    }
}

/// A floating-point load or store through a data pointer.
pub fn float_memory(rng: &Rng) -> u32 {
    let base = rng.pick(&[reg::S0, reg::S1]);
    let f3 = rng.pick(&[2, 3]);
    let off = offset(rng, 1 << f3, false);
    if rng.chance(1, 2) {
        asm::i(0x07, f3, src(rng), base, off)
    } else {
        asm::s(0x27, f3, base, src(rng), off)
    }
}

/// A conditional branch or jump over one to four instructions, and those.
pub fn forward_branch(rng: &Rng, b: &mut Block, zicond: bool) {
    let body: Vec<u32> = (0..rng.range(1, 4))
        .map(|_| arithmetic(rng, zicond))
        .collect();
    let over = 4 * (body.len() as i32 + 1);
    let word = if rng.chance(1, 8) {
        asm::jal(dst(rng), over)
    } else {
        // Equal operands now and then, or `beq` would hardly ever be taken.
        let rs1 = src(rng);
        let rs2 = if rng.chance(1, 3) { rs1 } else { src(rng) };
        asm::b(rng.pick(&[0, 1, 4, 5, 6, 7]), rs1, rs2, over)
    };
    b.w(word);
    body.into_iter().for_each(|w| b.w(w));
}

/// A register of the compressed three-bit set that is not a data pointer.
fn c_dst(rng: &Rng) -> u16 {
    rng.range(2, 7) as u16
}

/// One compressed instruction.
pub fn compressed(rng: &Rng) -> u16 {
    let rd = loop {
        let r = dst(rng) as u16;
        if r != 0 {
            break r;
        }
    };
    let rs2 = rng.range(1, 31) as u16;
    let imm6 = rng.below(64) as u16;
    let imm = (imm6 >> 5) << 12 | (imm6 & 0x1f) << 2;
    let bits = rng.next() as u16;
    let nz = if imm == 0 { 4 } else { imm };
    match rng.below(17) {
        0 => 0x0001 | rd << 7 | nz,                        // c.addi
        1 => 0x2001 | rd << 7 | imm,                       // c.addiw
        2 => 0x4001 | rd << 7 | imm,                       // c.li
        3 if rd != 2 => 0x6001 | rd << 7 | nz,             // c.lui
        3 | 4 => 0x8001 | c_dst(rng) << 7 | imm,           // c.srli
        5 => 0x8401 | c_dst(rng) << 7 | imm,               // c.srai
        6 => 0x8801 | c_dst(rng) << 7 | imm,               // c.andi
        7 => 0x8c01 | c_dst(rng) << 7 | (bits & 0x7c),     // c.sub xor or and
        8 => 0x9c01 | c_dst(rng) << 7 | (bits & 0x3c),     // c.subw c.addw
        9 => 0x0002 | rd << 7 | imm,                       // c.slli
        10 => 0x8002 | rd << 7 | rs2 << 2,                 // c.mv
        11 => 0x9002 | rd << 7 | rs2 << 2,                 // c.add
        12 => (bits & 0x1fe0).max(0x20) | c_dst(rng) << 2, // c.addi4spn
        13 => 0x4000 | (bits & 0x1c60) | (bits & 0x80) | c_dst(rng) << 2, // c.lw (s0 or s1)
        14 => 0x6000 | (bits & 0x1c60) | (bits & 0x80) | c_dst(rng) << 2, // c.ld
        15 => 0xc000 | (bits & 0x1c7c) | (bits & 0x80),    // c.sw
        // c.sd c.fld c.fsd
        _ => rng.pick(&[0xe000, 0x2000, 0xa000]) | (bits & 0x1c7c) | (bits & 0x80),
    }
}

/// A double- or single-precision bit pattern worth computing with, NaN-boxed as the case may be.
pub fn float_operand(rng: &Rng) -> u64 {
    let double = match rng.below(10) {
        0 => 0,
        1 => 1 << 63,
        2 => 0x7ff0_0000_0000_0000,
        3 => 0x7ff8_0000_0000_0000 | rng.next() >> 13,
        4 => 0x7ff0_0000_0000_0001 | rng.next() >> 14,
        5 => rng.next() >> rng.range(12, 63),
        6 => 0x3ff0_0000_0000_0000 + (rng.below(7) << 51),
        7 => (rng.below(64) as i64 - 32) as f64 as u64,
        8 => (rng.operand() as i64 as f64).to_bits(),
        _ => rng.next(),
    } | rng.below(2) << 63;
    if rng.chance(1, 2) {
        return double;
    }
    let single = match rng.below(9) {
        0 => 0,
        1 => 0x7f80_0000,
        2 => 0x7fc0_0000 | rng.next() as u32 >> 10,
        3 => 0x7f80_0001 | rng.next() as u32 >> 11,
        4 => rng.next() as u32 >> rng.range(9, 31),
        5 => 0x3f80_0000 + (rng.below(7) << 22) as u32,
        6 => (rng.operand() as i32 as f32).to_bits(),
        7 => 0x0080_0000 - rng.below(2) as u32,
        _ => rng.next() as u32,
    } | (rng.below(2) as u32) << 31;
    // Now and then a badly boxed one.
    let box_bits = if rng.chance(1, 12) {
        rng.next() as u32
    } else {
        u32::MAX
    };
    u64::from(box_bits) << 32 | u64::from(single)
}

/// One F or D computation; `rm` may be any of the eight encodings, two of them reserved.
pub fn float(rng: &Rng) -> u32 {
    let fmt = rng.below(2) as u32; // 0 = S, 1 = D
    let rm = match rng.below(10) {
        0 => rng.below(8) as u32,
        1..=5 => rng.below(5) as u32,
        _ => 7,
    };
    let (rd, rs1, rs2, rs3) = (src(rng), src(rng), src(rng), src(rng));
    let xd = dst(rng);
    let op = |f5: u32, f3: u32, rd: u32, rs2: u32| asm::r(0x53, f3, f5 << 2 | fmt, rd, rs1, rs2);
    match rng.below(16) {
        0..=4 => op(rng.below(4) as u32, rm, rd, rs2), // fadd fsub fmul fdiv
        5 => op(0x0b, rm, rd, 0),                      // fsqrt
        6 => op(0x04, rng.below(3) as u32, rd, rs2),   // fsgnj
        7 => op(0x05, rng.below(2) as u32, rd, rs2),   // fmin fmax
        8 => op(0x14, rng.below(3) as u32, xd, rs2),   // fle flt feq
        9 => op(0x18, rm, xd, rng.below(4) as u32),    // fcvt to integer
        10 => op(0x1a, rm, rd, rng.below(4) as u32),   // fcvt from integer
        11 => op(0x08, rm, rd, 1 - fmt),               // fcvt.s.d fcvt.d.s
        12 => op(0x1c, rng.below(2) as u32, xd, 0),    // fmv.x fclass
        13 => op(0x1e, 0, rd, 0),                      // fmv from x
        _ => {
            let opcode = rng.pick(&[0x43, 0x47, 0x4b, 0x4f]); // fmadd fmsub fnmsub fnmadd
            asm::r(opcode, rm, rs3 << 2 | fmt, rd, rs1, rs2)
        }
    }
}

/// An AMO on a data word, its address computed into `a0` first.
pub fn amo(rng: &Rng, b: &mut Block) {
    let f3 = rng.pick(&[2, 3]);
    let off = rng.below(2000) as i32 & -(1 << f3);
    b.w(asm::addi(reg::A0, rng.pick(&[reg::S0, reg::S1]), off));
    let f5 = rng.pick(&[0x01, 0x00, 0x04, 0x0c, 0x08, 0x10, 0x14, 0x18, 0x1c]);
    let aqrl = rng.below(4) as u32;
    b.w(asm::r(
        0x2f,
        f3,
        f5 << 2 | aqrl,
        dst(rng),
        reg::A0,
        src(rng),
    ));
}

/// A load-reserved / store-conditional sequence whose outcome the specification fixes.
pub fn lr_sc(rng: &Rng, b: &mut Block) {
    let f3: u32 = rng.pick(&[2, 3]);
    let off = rng.below(2000) as i32 & -(1 << f3);
    let aqrl = rng.below(4) as u32;
    b.w(asm::addi(reg::A0, reg::S0, off));
    let lr = |rd| asm::r(0x2f, f3, 0x02 << 2 | aqrl, rd, reg::A0, 0);
    let sc = |rd, rs1, rs2| asm::r(0x2f, f3, 0x03 << 2 | aqrl, rd, rs1, rs2);
    let not_a0 = |rng: &Rng| loop {
        let r = dst(rng);
        if r != reg::A0 {
            return r;
        }
    };
    let old = not_a0(rng);
    b.w(lr(old));
    for _ in 0..rng.below(3) {
        let (rd, rs1, rs2) = (not_a0(rng), src(rng), src(rng));
        b.w(asm::r(0x33, rng.pick(&[0, 4, 6, 7]), 0, rd, rs1, rs2));
    }
    match rng.below(3) {
        // To another page: outside of any reservation set, must fail.
        0 => {
            b.w(asm::addi(reg::A0, reg::S1, off));
            b.w(sc(dst(rng), reg::A0, src(rng)));
        }
        // The pair of a constrained sequence, and a second SC that has no reservation any more.
        _ => {
            b.w(sc(not_a0(rng), reg::A0, src(rng)));
            if rng.chance(1, 2) {
                b.w(sc(not_a0(rng), reg::A0, src(rng)));
            }
        }
    }
}
