//! Results of which only the low word is seen: a word operation need not extend its sign then.

use trapless_isa::{Inst, Op};

use super::lifetimes::{result, sources};

/// What is seen of the result of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The low word, until the register is written anew.
    Word,
    All,
}

/// What an instruction's result depends on.
#[derive(Clone, Copy)]
enum Needs {
    /// All of its bits on the low words of its operands.
    Words,
    /// The low word on the low words, the other bits on all of its operands.
    AsMuch,
    /// The low word on all of them.
    All,
}

fn needs(inst: &Inst) -> Needs {
    match inst.op {
        Op::Addiw | Op::Addw | Op::Subw | Op::Mulw => Needs::Words,
        Op::Slliw | Op::Srliw | Op::Sraiw | Op::Sllw | Op::Srlw | Op::Sraw => Needs::Words,
        Op::Divw | Op::Divuw | Op::Remw | Op::Remuw => Needs::Words,
        Op::SlliUw | Op::ZextH | Op::SextH | Op::SextB | Op::Roriw => Needs::Words,
        Op::AddUw if inst.rs2 == 0 => Needs::Words,
        Op::Add | Op::Sub | Op::Mul | Op::And | Op::Or | Op::Xor => Needs::AsMuch,
        Op::Addi | Op::Andi | Op::Ori | Op::Xori | Op::Slli => Needs::AsMuch,
        Op::Sh1add | Op::Sh2add | Op::Sh3add => Needs::AsMuch,
        _ => Needs::All,
    }
}

/// What is seen of the results of a block's instructions.
#[derive(Clone, Copy, Default)]
pub(super) struct Words {
    /// Bit `index`: of that instruction's result, the low word at most.
    bits: u128,
}

impl Words {
    /// Those of a block, at whose end everything is seen, and where it may be left: at all
    /// instructions but those that stay `inside`.
    pub fn of(insts: &[Inst], inside: impl Fn(&Inst) -> bool) -> Self {
        let mut words = Self::default();
        // Bit `x`: all of register `x` is seen later.
        let mut seen = u64::MAX;
        for (index, inst) in insts.iter().enumerate().rev() {
            if !inside(inst) {
                seen = u64::MAX;
                continue;
            }
            let mut needed = true;
            if let Some(x) = result(inst) {
                needed = seen & 1 << x != 0;
                if !needed && index < 128 {
                    words.bits |= 1 << index;
                }
                seen &= !(1 << x);
            }
            let all = match needs(inst) {
                Needs::Words => false,
                Needs::AsMuch => needed,
                Needs::All => true,
            };
            if all {
                for x in sources(inst) {
                    seen |= 1 << x;
                }
            }
        }
        words
    }

    /// What is seen of the result of instruction `index`.
    pub fn seen(self, index: usize) -> Seen {
        if index < 128 && self.bits >> index & 1 != 0 {
            Seen::Word
        } else {
            Seen::All
        }
    }
}
