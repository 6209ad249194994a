//! Idioms of compilers for processors without Zba and Zbb: several instructions that compute what
//! one of these extensions' does, and constants of 32 bits.
//!
//! A block is rewritten before it is compiled. The one instruction takes the place of one of them,
//! and the others do nothing, so that positions and lengths stay. Instructions in between only
//! compute: whatever leaves the block finds registers as the original would leave them.

use std::borrow::Cow;

use trapless_isa::inst::NO_REG;
use trapless_isa::{Inst, Op, semantics};

/// How far apart the instructions of an idiom may be.
const REACH: usize = 8;
/// How far ahead a register must be written anew to be no longer in use.
const AHEAD: usize = 16;

/// Whether an instruction reads integer register `x`, other than `x0`.
fn reads(inst: &Inst, x: u8) -> bool {
    let [_, rs1, rs2] = inst.op.format().integers();
    rs1 && inst.rs1 == x || rs2 && inst.rs2 == x
}

/// Whether it writes it.
fn writes(inst: &Inst, x: u8) -> bool {
    let [rd, _, _] = inst.op.format().integers();
    rd && inst.rd == x
}

/// Whether it only computes.
fn computes(inst: &Inst) -> bool {
    semantics::computes(inst.op) && !inst.moves_to_tp()
}

/// Whether register `x` keeps what is written to it.
fn keeps(x: u8) -> bool {
    x != 0 && x != NO_REG
}

/// The amount of a shift.
fn amount(inst: &Inst) -> u32 {
    inst.imm as u32 & 63
}

/// The instructions of a block, rewritten; `None`: there is nothing to rewrite.
pub(super) fn rewrite(insts: &[Inst]) -> Option<Vec<Inst>> {
    let mut block = Block(Cow::Borrowed(insts));
    for first in 0..insts.len() {
        if !block.rotate(first) {
            block.combine(first);
        }
    }
    match block.0 {
        Cow::Borrowed(_) => None,
        Cow::Owned(insts) => Some(insts),
    }
}

/// A block so far.
struct Block<'a>(Cow<'a, [Inst]>);

/// A result, without a place.
struct Computation {
    op: Op,
    rd: u8,
    rs1: u8,
    rs2: u8,
    imm: i32,
}

impl Computation {
    fn unary(op: Op, rd: u8, rs1: u8, imm: i32) -> Self {
        let rs2 = 0;
        Self {
            op,
            rd,
            rs1,
            rs2,
            imm,
        }
    }

    /// A part of a register that is shifted left and then right, in `width` bits. `None`: there is
    /// no such instruction.
    fn extension(first: &Inst, second: &Inst, width: u32, signed: bool) -> Option<Self> {
        let (up, down) = (amount(first), amount(second));
        let left = up.checked_sub(down)? as i32;
        let bits = width.checked_sub(up)?;
        let (op, imm) = match (bits, signed, left) {
            (8, false, 0) => (Op::Andi, 0xFF),
            (16, false, 0) => (Op::ZextH, 0),
            (32, false, 0) if width == 64 => (Op::AddUw, 0),
            (32, false, left) if width == 64 => (Op::SlliUw, left),
            (8, true, 0) => (Op::SextB, 0),
            (16, true, 0) => (Op::SextH, 0),
            (32, true, 0) if width == 64 => (Op::Addiw, 0),
            _ => return None,
        };
        Some(Self::unary(op, second.rd, first.rs1, imm))
    }

    /// Both instructions in one, if the second one overwrites what the first one computes.
    fn of_both(first: &Inst, second: &Inst) -> Option<Self> {
        let sum = |op| {
            let imm = first.imm.checked_add(second.imm)?;
            Some(Self::unary(op, second.rd, 0, imm))
        };
        match (first.op, second.op) {
            (Op::Slli, Op::Srli) => Self::extension(first, second, 64, false),
            (Op::Slli, Op::Srai) => Self::extension(first, second, 64, true),
            (Op::Slliw, Op::Srliw) => Self::extension(first, second, 32, false),
            (Op::Slliw, Op::Sraiw) => Self::extension(first, second, 32, true),
            (Op::Lui, Op::Addi) => sum(Op::Lui),
            (Op::Lui, Op::Addiw) => {
                let imm = first.imm.wrapping_add(second.imm);
                Some(Self::unary(Op::Lui, second.rd, 0, imm))
            }
            (Op::Auipc, Op::Addi) => sum(Op::Auipc),
            _ => None,
        }
    }

    /// `sh1add` to `sh3add`, if the second instruction adds to what the first one shifts, and
    /// overwrites it.
    fn sum(first: &Inst, second: &Inst) -> Option<Self> {
        let (Op::Slli, Op::Add) = (first.op, second.op) else {
            return None;
        };
        let op = match amount(first) {
            1 => Op::Sh1add,
            2 => Op::Sh2add,
            3 => Op::Sh3add,
            _ => return None,
        };
        let other = match (second.rs1 == first.rd, second.rs2 == first.rd) {
            (true, false) => second.rs2,
            (false, true) => second.rs1,
            _ => return None,
        };
        Some(Self {
            op,
            rd: second.rd,
            rs1: first.rs1,
            rs2: other,
            imm: 0,
        })
    }
}

impl Block<'_> {
    fn put(&mut self, at: usize, what: &Computation) {
        let inst = &mut self.0.to_mut()[at];
        (inst.op, inst.rd, inst.imm) = (what.op, what.rd, what.imm);
        (inst.rs1, inst.rs2) = (what.rs1, what.rs2);
    }

    /// Lets an instruction do nothing.
    fn clear(&mut self, at: usize) {
        self.put(at, &Computation::unary(Op::Addi, NO_REG, 0, 0));
    }

    /// The next instruction in reach of `at` of which `is` holds, if it and all before it compute.
    fn next(&self, at: usize, is: impl Fn(&Inst) -> bool) -> Option<usize> {
        let end = self.0.len().min(at + 1 + REACH);
        let mut ahead = (at + 1..end).take_while(|&index| computes(&self.0[index]));
        ahead.find(|&index| is(&self.0[index]))
    }

    /// Whether an instruction between two writes register `x`.
    fn changed(&self, x: u8, first: usize, second: usize) -> bool {
        self.0[first + 1..second].iter().any(|inst| writes(inst, x))
    }

    /// Whether the value of register `x` is not seen after instruction `at`.
    fn dead(&self, x: u8, at: usize) -> bool {
        for inst in self.0[at + 1..].iter().take(AHEAD) {
            if reads(inst, x) || !computes(inst) {
                return false;
            }
            if writes(inst, x) {
                return true;
            }
        }
        false
    }

    /// Rewrites an idiom of two instructions that begins here.
    fn combine(&mut self, at: usize) {
        let first = self.0[at];
        let begins = matches!(first.op, Op::Slli | Op::Slliw | Op::Lui | Op::Auipc);
        let x = first.rd;
        if !begins || !keeps(x) {
            return;
        }
        let Some(then) = self.next(at, |inst| reads(inst, x) || writes(inst, x)) else {
            return;
        };
        let second = self.0[then];
        if second.rd == x {
            if let Some(sum) = Computation::sum(&first, &second) {
                if !self.changed(sum.rs1, at, then) {
                    self.put(then, &sum);
                    self.clear(at);
                } else if !self.changed(sum.rs2, at, then) {
                    self.put(at, &sum);
                    self.clear(then);
                }
            } else if second.rs1 == x
                && let Some(both) = Computation::of_both(&first, &second)
            {
                self.put(at, &both);
                self.clear(then);
            }
        } else if second.rs1 == x
            && first.rs1 != x
            && first.op == Op::Slli
            && second.op == Op::Srli
            && let Some(both) = Computation::of_both(&first, &second)
            && !self.changed(first.rs1, at, then)
        {
            // The first one stays; the second one need not wait for it.
            self.put(then, &both);
        }
    }

    /// Rewrites a rotation whose first shift is here. Returns whether there is one.
    fn rotate(&mut self, at: usize) -> bool {
        let first = self.0[at];
        let (opposite, width, op) = match first.op {
            Op::Srliw => (Op::Slliw, 32, Op::Roriw),
            Op::Slliw => (Op::Srliw, 32, Op::Roriw),
            Op::Srli => (Op::Slli, 64, Op::Rori),
            Op::Slli => (Op::Srli, 64, Op::Rori),
            _ => return false,
        };
        let (x, one) = (first.rs1, first.rd);
        if one == x || !keeps(one) || !(1..width).contains(&amount(&first)) {
            return false;
        }
        let complements = |inst: &Inst| {
            inst.op == opposite && inst.rs1 == x && amount(inst) == width - amount(&first)
        };
        let ends = |inst: &Inst| reads(inst, one) || writes(inst, one) || writes(inst, x);
        let second = self.next(at, |inst| complements(inst) || ends(inst));
        let Some(second) = second.filter(|&second| complements(&self.0[second])) else {
            return false;
        };
        let other = self.0[second].rd;
        if other == one || !keeps(other) {
            return false;
        }
        let touches = |inst: &Inst| {
            let touched = |x| reads(inst, x) || writes(inst, x);
            touched(one) || touched(other)
        };
        let Some(both) = self.next(second, touches) else {
            return false;
        };
        let joined = self.0[both];
        let operands = [joined.rs1, joined.rs2];
        let rd = joined.rd;
        let unseen = |part| part == rd || self.dead(part, both);
        if joined.op != Op::Or
            || !(operands == [one, other] || operands == [other, one])
            || !(unseen(one) && unseen(other))
        {
            return false;
        }
        let right = match first.op {
            Op::Srliw | Op::Srli => amount(&first),
            _ => width - amount(&first),
        };
        let rotated = Computation::unary(op, rd, x, right as i32);
        // Up to the second part nothing writes what is rotated.
        let place = if !self.changed(x, second - 1, both) {
            both
        } else if rd == other {
            second
        } else {
            return false;
        };
        for part in [at, second, both] {
            self.clear(part);
        }
        self.put(place, &rotated);
        true
    }
}

#[cfg(test)]
mod tests {
    use trapless_isa::decode;

    use super::*;

    fn rewritten(words: &[u32]) -> Vec<String> {
        let insts: Vec<Inst> = words.iter().map(|&word| decode(word)).collect();
        let insts = rewrite(&insts).unwrap_or(insts);
        let text = |inst: &Inst| match (inst.rd, inst.op) {
            (NO_REG, _) => "-".to_owned(),
            (rd, op) => format!("{op:?} {rd} {} {} {}", inst.rs1, inst.rs2, inst.imm),
        };
        insts.iter().map(text).collect()
    }

    const RETURN: u32 = 0x0000_8067;
    // slli a5,a4,32; srli a5,a5,30; slli a3,a4,32; srli a2,a3,31
    const EXTENSION: [u32; 2] = [0x0207_1793, 0x01e7_d793];
    const APART: [u32; 2] = [0x0207_1693, 0x01f6_d613];
    // addi a0,a0,1; ld a0,0(a1)
    const OTHER: u32 = 0x0015_0513;
    const LOAD: u32 = 0x0005_b503;
    // srliw a5,a4,7; slliw a3,a4,25; or a5,a5,a3; li a3,0
    const ROTATION: [u32; 4] = [0x0077_579b, 0x0197_169b, 0x00d7_e7b3, 0x0000_0693];

    #[test]
    fn shifts_apart_are_one_unless_something_may_leave_between_them() {
        let [up, down] = EXTENSION;
        let one = rewritten(&[up, OTHER, down, RETURN]);
        assert_eq!(one[..3], ["SlliUw 15 14 0 2", "Addi 10 10 0 1", "-"]);
        let two = rewritten(&[up, LOAD, down, RETURN]);
        assert_eq!((&two[0][..5], &two[2][..5]), ("Slli ", "Srli "));
    }

    /// Each pair of shifts, or rotation, with an instruction between that changes what it reads.
    #[test]
    fn operands_that_change_are_read_before_they_do() {
        // addi a4,a4,1; addi a1,a1,1
        let (source, addend) = (0x0017_0713, 0x0015_8593);
        let [up, down] = APART;
        assert!(rewritten(&[up, source, down, RETURN])[2].starts_with("Srli "));
        // slli a5,a4,3; add a5,a5,a1
        let (shift, add) = (0x0037_1793, 0x00b7_87b3);
        let early = rewritten(&[shift, source, add, RETURN]);
        assert_eq!(early[..3], ["Sh3add 15 14 11 0", "Addi 14 14 0 1", "-"]);
        let late = rewritten(&[shift, addend, add, RETURN]);
        assert_eq!(late[..3], ["-", "Addi 11 11 0 1", "Sh3add 15 14 11 0"]);
        let both = rewritten(&[shift, source, addend, add, RETURN]);
        assert_eq!((&both[0][..5], &both[3][..4]), ("Slli ", "Add "));
        // The sum overwrites the second part: or a3,a3,a5; li a5,0
        let [right, left, ..] = ROTATION;
        let (or, anew) = (0x00f6_e6b3, 0x0000_0793);
        let second = rewritten(&[right, left, source, or, anew, RETURN]);
        assert_eq!(second[..4], ["-", "Roriw 13 14 0 7", "Addi 14 14 0 1", "-"]);
        // It does not: or a5,a5,a3; li a3,0
        let [.., or, anew] = ROTATION;
        let none = rewritten(&[right, left, source, or, anew, RETURN]);
        assert!(none[0].starts_with("Srliw "), "{none:?}");
    }

    /// slli a4,a4,32; srli a2,a4,31: the first shift has changed what the second one would read.
    #[test]
    fn a_shift_of_itself_is_not_read_again() {
        let both = rewritten(&[0x0207_1713, 0x01f7_5613, RETURN]);
        assert_eq!((&both[0][..5], &both[1][..5]), ("Slli ", "Srli "));
    }

    /// Observers are told of `mv tp`, which is left as it is: lui tp,1; mv tp,tp.
    #[test]
    fn the_thread_pointer_is_moved_as_it_is() {
        let moved = rewritten(&[0x0000_1237, 0x0002_0213, RETURN]);
        assert_eq!(moved[..2], ["Lui 4 0 0 4096", "Addi 4 4 0 0"]);
    }

    #[test]
    fn a_shift_does_not_wait_for_one_whose_result_is_used() {
        let [up, down] = APART;
        let both = rewritten(&[up, down, RETURN]);
        assert_eq!(both[..2], ["Slli 13 14 0 32", "SlliUw 12 14 0 1"]);
    }

    #[test]
    fn a_rotation_is_one_if_its_parts_are_not_seen() {
        let [right, left, or, anew] = ROTATION;
        let one = rewritten(&[right, left, or, anew, RETURN]);
        assert_eq!(one[..3], ["-", "-", "Roriw 15 14 0 7"]);
        for seen in [
            &[right, left, or, RETURN][..],
            &[right, left, or, LOAD, anew, RETURN],
            &[right, left, LOAD, or, anew, RETURN],
        ] {
            assert!(rewritten(seen)[0].starts_with("Srliw"), "{seen:x?}");
        }
    }
}
