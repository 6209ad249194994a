//! Which values of a long block are read again, and when.

use trapless_isa::Inst;
use trapless_isa::inst::NO_REG;

use super::regs::{HOMES, NUMBERS};

/// Lengths of long blocks in instructions. No block is longer.
const LONG: std::ops::Range<usize> = 16..100;

/// What is known of a value at a point of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    /// Index of the next instruction that reads it.
    pub next: u8,
    /// How many read it.
    pub reads: u8,
}

impl Use {
    /// It is not read again.
    const NONE: Self = Self {
        next: u8::MAX,
        reads: 0,
    };
}

/// How values are used before each instruction of a long block, and at its end.
pub(super) struct Lifetimes(Vec<[Use; NUMBERS]>);

/// Integer registers that an instruction reads; `x0` among them.
pub(super) fn sources(inst: &Inst) -> impl Iterator<Item = u8> + Clone {
    let [_, rs1, rs2] = inst.op.format().integers();
    let read = [(inst.rs1, rs1), (inst.rs2, rs2)];
    read.into_iter().filter(|&(_, is)| is).map(|(x, _)| x)
}

/// The integer register that an instruction writes.
pub(super) fn result(inst: &Inst) -> Option<u8> {
    let [rd, _, _] = inst.op.format().integers();
    (rd && inst.rd != 0 && inst.rd != NO_REG).then_some(inst.rd)
}

impl Lifetimes {
    /// Those of a block; `None`: it is short.
    pub fn of(insts: &[Inst]) -> Option<Self> {
        if !LONG.contains(&insts.len()) {
            return None;
        }
        let end = insts.len();
        let mut at_end = [Use::NONE; NUMBERS];
        for (x, _) in HOMES {
            at_end[usize::from(x)].next = end as u8;
        }
        let mut uses = vec![at_end; end + 1];
        for (index, inst) in insts.iter().enumerate().rev() {
            let mut now = uses[index + 1];
            if let Some(x) = result(inst) {
                now[usize::from(x)] = Use::NONE;
            }
            for x in sources(inst) {
                let value = &mut now[usize::from(x)];
                *value = Use {
                    next: index as u8,
                    reads: value.reads + 1,
                };
            }
            uses[index] = now;
        }
        Some(Self(uses))
    }

    /// How values are used before instruction `index`, or at the end.
    pub fn before(&self, index: usize) -> &[Use; NUMBERS] {
        &self.0[index]
    }
}
