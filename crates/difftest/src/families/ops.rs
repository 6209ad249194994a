//! Random user-level instructions, which fill the blocks of every family.
//!
//! Operations come from the table of `trapless-isa`: a new one is generated without being listed
//! here. `s0` and `s1` are pointers into the data area and are never written; all other registers
//! may have any value.

use std::sync::LazyLock;

use trapless_isa::extension::Ext;
use trapless_isa::inst::CostClass;
use trapless_isa::{Format, Op, semantics};

use crate::asm::{self, Reg, reg};
use crate::program::Block;
use crate::rng::Rng;

/// A pool of operations from which instructions are drawn.
type Pool = LazyLock<Vec<Op>>;

fn pool(belongs: impl Fn(Op) -> bool) -> Vec<Op> {
    Op::ALL.iter().copied().filter(|op| belongs(*op)).collect()
}

/// Operations that compute a result in every model's version, with these formats.
fn computations(formats: &[Format]) -> Vec<Op> {
    pool(|op| {
        semantics::computes(op)
            && op.extension().models().everywhere()
            && formats.contains(&op.format())
            // QEMU 7.2 uses the upper half.
            && op != Op::Ctzw
    })
}

static REGISTERS: Pool = LazyLock::new(|| computations(&[Format::R]));
static UNARY: Pool = LazyLock::new(|| computations(&[Format::Unary]));
static SHIFTS: Pool = LazyLock::new(|| computations(&[Format::Shift, Format::ShiftW]));
static UPPER: Pool = LazyLock::new(|| computations(&[Format::U]));
static IMMEDIATE: Pool = LazyLock::new(|| computations(&[Format::I]));
static BRANCHES: Pool = LazyLock::new(|| pool(|op| op.format() == Format::Branch));
static LOADS: Pool =
    LazyLock::new(|| pool(|op| op.format() == Format::Load && op.class() == CostClass::Load));
static STORES: Pool = LazyLock::new(|| pool(|op| op.format() == Format::Store));
static FLOAT_MEMORY: Pool =
    LazyLock::new(|| pool(|op| matches!(op.format(), Format::FLoad | Format::FStore)));
static FLOAT: Pool = LazyLock::new(|| {
    pool(|op| op.is_fp() && !matches!(op.format(), Format::FLoad | Format::FStore))
});
static AMOS: Pool =
    LazyLock::new(|| pool(|op| op.format() == Format::Amo && !matches!(op, Op::ScW | Op::ScD)));

/// Extensions that not every model has, with operations that compute a result: a program uses those
/// of one extension, and records that it needs it.
pub static EXTRAS: LazyLock<Vec<Ext>> = LazyLock::new(|| {
    let extras = Ext::ALL.iter().copied();
    let extras = extras.filter(|ext| !ext.models().everywhere());
    extras.filter(|ext| extra(*ext).len() > 1).collect()
});

/// Operations of such an extension.
pub fn extra(ext: Ext) -> Vec<Op> {
    let mut ops = pool(|op| op.extension() == ext && semantics::computes(op));
    // Models that are new enough for such an extension also compute this one correctly.
    ops.push(Op::Ctzw);
    ops
}

/// Places of register numbers in an instruction word.
const RD: u32 = 7;
const RS1: u32 = 15;
const RM: u32 = 12;

/// A random instruction with this operation and these fields.
fn instruction(rng: &Rng, op: Op, fields: &[(u32, u32)]) -> u32 {
    let mut word = rng.next() as u32;
    for &(low, value) in fields {
        let width = if low == RM { 7 } else { 0x1f };
        word = word & !(width << low) | value << low;
    }
    let (bits, mask) = op.encoding();
    bits | word & !mask
}

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

/// One arithmetic instruction without side effects beyond `rd`; some are among `extra`.
pub fn arithmetic(rng: &Rng, extra: &[Op]) -> u32 {
    let pool = match rng.below(10) {
        _ if !extra.is_empty() && rng.chance(1, 12) => extra,
        0..=4 => &REGISTERS,
        5 => &UNARY,
        6 => &SHIFTS,
        7 => &UPPER,
        _ => &IMMEDIATE,
    };
    let op = rng.pick(pool);
    let word = instruction(rng, op, &[(RD, dst(rng))]);
    match op.format() {
        Format::I => word & 0xf_ffff | (imm12(rng) as u32) << 20,
        _ => word,
    }
}

/// Offset of an access of `size` bytes from a data pointer.
fn offset(rng: &Rng, size: i32, misaligned: bool) -> i32 {
    let o = rng.below(4096 - 16) as i32 - 2048;
    if misaligned { o } else { o & -size }
}

/// A load or store through a data pointer; `misaligned` allows any offset.
pub fn memory(rng: &Rng, misaligned: bool) -> u32 {
    let op = rng.pick(if rng.chance(1, 2) { &LOADS } else { &STORES });
    access(rng, op, dst(rng), misaligned)
}

/// A floating-point load or store through a data pointer.
pub fn float_memory(rng: &Rng) -> u32 {
    let op = rng.pick(&FLOAT_MEMORY);
    access(rng, op, src(rng), false)
}

/// A load to `rd`, or a store.
fn access(rng: &Rng, op: Op, rd: Reg, misaligned: bool) -> u32 {
    let base = rng.pick(&[reg::S0, reg::S1]);
    let (bits, _) = op.encoding();
    let (opcode, f3) = (bits & 0x7f, bits >> 12);
    let off = offset(rng, 1 << (f3 & 3), misaligned);
    match op.format() {
        Format::Store | Format::FStore => asm::s(opcode, f3, base, src(rng), off),
        _ => asm::i(opcode, f3, rd, base, off),
    }
}

/// A conditional branch or jump over one to four instructions, and those.
pub fn forward_branch(rng: &Rng, b: &mut Block, extra: &[Op]) {
    let body: Vec<u32> = (0..rng.range(1, 4))
        .map(|_| arithmetic(rng, extra))
        .collect();
    let over = 4 * (body.len() as i32 + 1);
    let word = if rng.chance(1, 8) {
        asm::jal(dst(rng), over)
    } else {
        // Equal operands now and then, or `beq` would hardly ever be taken.
        let rs1 = src(rng);
        let rs2 = if rng.chance(1, 3) { rs1 } else { src(rng) };
        asm::b(rng.pick(&BRANCHES).encoding().0 >> 12, rs1, rs2, over)
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
    let rm = match rng.below(10) {
        0 => rng.below(8) as u32,
        1..=5 => rng.below(5) as u32,
        _ => 7,
    };
    let op = rng.pick(&FLOAT);
    let rd = match op.format() {
        Format::FCompare | Format::FToX | Format::FToXRm => dst(rng),
        _ => src(rng),
    };
    instruction(rng, op, &[(RD, rd), (RM, rm)])
}

/// An AMO on a data word, its address computed into `a0` first.
pub fn amo(rng: &Rng, b: &mut Block) {
    let op = rng.pick(&AMOS);
    let size = 1 << (op.encoding().0 >> 12 & 7);
    let off = rng.below(2000) as i32 & -size;
    b.w(asm::addi(reg::A0, rng.pick(&[reg::S0, reg::S1]), off));
    b.w(instruction(rng, op, &[(RD, dst(rng)), (RS1, reg::A0)]));
}

/// A load-reserved / store-conditional sequence whose outcome the specification fixes.
pub fn lr_sc(rng: &Rng, b: &mut Block) {
    let (lr, sc, size) = rng.pick(&[(Op::LrW, Op::ScW, 4), (Op::LrD, Op::ScD, 8)]);
    let off = rng.below(2000) as i32 & -size;
    b.w(asm::addi(reg::A0, reg::S0, off));
    let sc = |rng: &Rng, rd| instruction(rng, sc, &[(RD, rd), (RS1, reg::A0)]);
    let not_a0 = |rng: &Rng| loop {
        let r = dst(rng);
        if r != reg::A0 {
            return r;
        }
    };
    let old = not_a0(rng);
    b.w(instruction(rng, lr, &[(RD, old), (RS1, reg::A0)]));
    for _ in 0..rng.below(3) {
        let op = rng.pick(&[Op::Add, Op::Xor, Op::Or, Op::And]);
        b.w(instruction(rng, op, &[(RD, not_a0(rng))]));
    }
    match rng.below(3) {
        // To another page: outside of any reservation set, must fail.
        0 => {
            b.w(asm::addi(reg::A0, reg::S1, off));
            b.w(sc(rng, dst(rng)));
        }
        // The pair of a constrained sequence, and a second SC that has no reservation any more.
        _ => {
            b.w(sc(rng, not_a0(rng)));
            if rng.chance(1, 2) {
                b.w(sc(rng, not_a0(rng)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use trapless_isa::decode;

    use super::*;

    /// Promise: whatever computes, loads, stores, branches or is atomic is generated, without being
    /// listed.
    #[test]
    fn every_user_level_operation_is_generated() {
        let rng = Rng::new(1);
        let mut generated = BTreeSet::new();
        let extras: Vec<Op> = EXTRAS.iter().flat_map(|ext| extra(*ext)).collect();
        for _ in 0..10_000 {
            let mut block = crate::program::Program::new(0, "ops").block();
            amo(&rng, &mut block);
            lr_sc(&rng, &mut block);
            forward_branch(&rng, &mut block, &extras);
            let words = [memory(&rng, false), float_memory(&rng), float(&rng)];
            let words = words.into_iter().chain(block.words());
            generated.extend(words.map(|word| decode(word).op));
        }
        let user_level = |op: Op| {
            semantics::computes(op)
                || op.is_fp()
                || op.extension() == Ext::A
                || matches!(op.format(), Format::Store | Format::Branch)
                || op.format() == Format::Load && op.class() == CostClass::Load
        };
        for op in pool(user_level) {
            assert!(generated.contains(&op), "{op:?}");
        }
    }
}
