//! Results of which only the low word is seen: a word operation need not extend its sign then.

use trapless_isa::{Inst, Op};

use super::integer::Seen;
use super::lifetimes::{result, sources};
use super::template::{Template, template_of};

/// What the low word of a result depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Low {
    /// On the low words of the operands, as the other bits do, too.
    All,
    /// On the low words of the operands; the other bits on all of these.
    Low,
    /// On more.
    More,
}

fn low(inst: &Inst) -> Low {
    match inst.op {
        Op::Addiw | Op::Addw | Op::Subw | Op::Mulw => Low::All,
        Op::Slliw | Op::Srliw | Op::Sraiw | Op::Sllw | Op::Srlw | Op::Sraw => Low::All,
        Op::Divw | Op::Divuw | Op::Remw | Op::Remuw => Low::All,
        Op::SlliUw | Op::ZextH | Op::SextH | Op::SextB | Op::Roriw => Low::All,
        Op::AddUw if inst.rs2 == 0 => Low::All,
        Op::Add | Op::Sub | Op::Mul | Op::And | Op::Or | Op::Xor => Low::Low,
        Op::Addi | Op::Andi | Op::Ori | Op::Xori | Op::Slli => Low::Low,
        Op::Sh1add | Op::Sh2add | Op::Sh3add => Low::Low,
        _ => Low::More,
    }
}

/// What is seen of the results of a block's instructions.
#[derive(Clone, Copy, Default)]
pub(super) struct Words {
    /// Bit `index`: of that instruction's result, the low word at most.
    bits: u128,
}

impl Words {
    /// Those of a block, at whose end everything is seen, and whenever it may be left.
    pub fn of(insts: &[Inst]) -> Self {
        let mut words = Self::default();
        // Bit `x`: all of register `x` is seen later.
        let mut seen = u64::MAX;
        for (index, inst) in insts.iter().enumerate().rev() {
            let inside = matches!(
                template_of(inst),
                Some(Template::Integer(_) | Template::Scratch(_) | Template::Nothing)
            );
            if !inside {
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
            let low = low(inst);
            if low == Low::More || low == Low::Low && needed {
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
