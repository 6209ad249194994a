//! Pairs of instructions that compute one thing, as compilers write them for processors without
//! Zba and Zbb, and for constants of 32 bits.

use trapless_isa::{Inst, Op};

/// What two instructions compute, in the register that both write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pair {
    /// A part of a register, extended and shifted left: `zext.w` is `slli` and `srli` by 32.
    Extension {
        rs1: u8,
        /// The low 8, 16 or 32.
        bits: u8,
        signed: bool,
        /// 0..=56.
        left: u8,
    },
    /// `lui` and `addi`, or `addiw`.
    Constant(i32),
    /// The address of the first instruction plus a distance: `auipc` and `addi`.
    PcRelative(i32),
}

impl Pair {
    /// That of the first two of `insts`, if they are one.
    pub fn of(insts: &[Inst]) -> Option<Self> {
        let [first, second, ..] = insts else {
            return None;
        };
        let rd = first.rd;
        let alone = insts[..2].iter().any(Inst::moves_to_tp);
        if second.rs1 != rd || second.rd != rd || rd == 0 || alone {
            return None;
        }
        match (first.op, second.op) {
            (Op::Slli, Op::Srli) => Self::shifts(first, second, 64, false),
            (Op::Slli, Op::Srai) => Self::shifts(first, second, 64, true),
            (Op::Slliw, Op::Srliw) => Self::shifts(first, second, 32, false),
            (Op::Slliw, Op::Sraiw) => Self::shifts(first, second, 32, true),
            (Op::Lui, Op::Addi) => first.imm.checked_add(second.imm).map(Self::Constant),
            (Op::Lui, Op::Addiw) => Some(Self::Constant(first.imm.wrapping_add(second.imm))),
            (Op::Auipc, Op::Addi) => first.imm.checked_add(second.imm).map(Self::PcRelative),
            _ => None,
        }
    }

    /// Left and then right, in `width` bits.
    fn shifts(first: &Inst, second: &Inst, width: u8, signed: bool) -> Option<Self> {
        let (up, down) = (first.imm as u8 & 63, second.imm as u8 & 63);
        let bits = width - up;
        // What is shifted left in 32 bits would have to be extended once more.
        let left = up
            .checked_sub(down)
            .filter(|&left| left == 0 || width == 64)?;
        (matches!(bits, 8 | 16 | 32) && bits < width).then_some(Self::Extension {
            rs1: first.rs1,
            bits,
            signed,
            left,
        })
    }
}
