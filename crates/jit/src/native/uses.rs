//! What a region does with guest registers.

use trapless_isa::Inst;

use super::region::Plan;

/// Numbers that operands have: the registers, and 32 for discarded results.
const NUMBERS: usize = 33;

/// How often guest registers are used.
pub(super) struct Uses {
    all: [u64; NUMBERS],
    /// Written at all.
    written: [bool; NUMBERS],
}

impl Uses {
    /// Those of a region.
    pub fn of(plan: &Plan<'_>) -> Self {
        let mut uses = Self {
            all: [0; NUMBERS],
            written: [false; NUMBERS],
        };
        for node in &plan.nodes {
            uses.add(node.source.insts, node.weight);
        }
        uses
    }

    /// Counts the operands of a block that is executed `weight` times.
    fn add(&mut self, insts: &[Inst], weight: u64) {
        for inst in insts {
            let [rd, rs1, rs2] = inst.op.format().integers();
            for (x, used) in [(inst.rd, rd), (inst.rs1, rs1), (inst.rs2, rs2)] {
                self.all[usize::from(x)] += if used { weight } else { 0 };
            }
            self.written[usize::from(inst.rd)] |= rd;
        }
    }

    /// Up to `most` registers, those that are used most.
    pub fn most(&self, most: usize) -> Vec<u8> {
        let of = |x: u8| self.all[usize::from(x)];
        let mut order: Vec<u8> = (1..32).filter(|&x| of(x) != 0).collect();
        order.sort_by_key(|&x| std::cmp::Reverse(of(x)));
        order.truncate(most);
        order
    }

    /// Whether `x` is written.
    pub fn writes(&self, x: u8) -> bool {
        self.written[usize::from(x)]
    }
}
