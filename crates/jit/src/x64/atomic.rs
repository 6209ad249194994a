//! Atomic read-modify-write. Harts take turns on one host thread, so plain accesses are atomic.

use dynasm::dynasm;
use trapless_isa::inst::{Inst, Op};

use super::block::BlockCompiler;
use super::regs::{RCX, RDX};
use crate::Position;

impl BlockCompiler<'_> {
    /// Emits an AMO; `false` if `inst` is none.
    pub fn atomic(&mut self, inst: &Inst, at: Position) -> bool {
        let word = match inst.op {
            Op::AmoswapW | Op::AmoaddW | Op::AmoxorW | Op::AmoandW | Op::AmoorW => true,
            Op::AmominW | Op::AmomaxW | Op::AmominuW | Op::AmomaxuW => true,
            Op::AmoswapD | Op::AmoaddD | Op::AmoxorD | Op::AmoandD | Op::AmoorD => false,
            Op::AmominD | Op::AmomaxD | Op::AmominuD | Op::AmomaxuD => false,
            _ => return false,
        };
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, 0, if word { 4 } else { 8 }, true, &mut slow);
        self.fetch(RCX, inst.rs2);
        if word {
            // Sign-extended operands keep the order of unsigned words, too.
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx; movsxd rdx, [rax]);
        } else {
            dynasm!(self.ops; .arch x64; mov rdx, [rax]);
        }
        match inst.op {
            Op::AmoswapW | Op::AmoswapD => {}
            Op::AmoaddW | Op::AmoaddD => dynasm!(self.ops; .arch x64; add rcx, rdx),
            Op::AmoxorW | Op::AmoxorD => dynasm!(self.ops; .arch x64; xor rcx, rdx),
            Op::AmoandW | Op::AmoandD => dynasm!(self.ops; .arch x64; and rcx, rdx),
            Op::AmoorW | Op::AmoorD => dynasm!(self.ops; .arch x64; or rcx, rdx),
            Op::AmominW | Op::AmominD => {
                dynasm!(self.ops; .arch x64; cmp rcx, rdx; cmovg rcx, rdx);
            }
            Op::AmomaxW | Op::AmomaxD => {
                dynasm!(self.ops; .arch x64; cmp rcx, rdx; cmovl rcx, rdx);
            }
            Op::AmominuW | Op::AmominuD => {
                dynasm!(self.ops; .arch x64; cmp rcx, rdx; cmova rcx, rdx);
            }
            _ => dynasm!(self.ops; .arch x64; cmp rcx, rdx; cmovb rcx, rdx),
        }
        if word {
            dynasm!(self.ops; .arch x64; mov [rax], ecx);
        } else {
            dynasm!(self.ops; .arch x64; mov [rax], rcx);
        }
        self.put(inst.rd, RDX);
        self.end_probe(slow);
        true
    }
}
