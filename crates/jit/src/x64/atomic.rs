//! Atomic read-modify-write. Harts take turns on one host thread, so plain accesses are atomic.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{Inst, Op};

use super::block::BlockCompiler;
use super::regs::{RCX, RDX, at};
use crate::Position;

impl BlockCompiler<'_> {
    /// Emits an instruction of A; `false` if `inst` is none.
    pub fn atomic(&mut self, inst: &Inst, at: Position) -> bool {
        let word = match inst.op {
            Op::LrW | Op::LrD => {
                self.load_reserved(inst, at, inst.op == Op::LrW);
                return true;
            }
            Op::ScW | Op::ScD => {
                self.store_conditional(inst, at, inst.op == Op::ScW);
                return true;
            }
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

    fn load_reserved(&mut self, inst: &Inst, at: Position, word: bool) {
        let size = if word { 4 } else { 8 };
        let held = at!(reservation);
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, 0, size, false, &mut slow);
        if word {
            dynasm!(self.ops; .arch x64; mov ecx, [rax]);
        } else {
            dynasm!(self.ops; .arch x64; mov rcx, [rax]);
        }
        dynasm!(self.ops
            ; .arch x64
            ; mov [rbx + held], rax
            ; mov QWORD [rbx + held + 8], size
            ; mov [rbx + held + 16], rcx
        );
        if word {
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx);
        }
        self.put(inst.rd, RCX);
        self.end_probe(slow);
    }

    fn store_conditional(&mut self, inst: &Inst, at: Position, word: bool) {
        let size = if word { 4 } else { 8 };
        let held = at!(reservation);
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, 0, size, true, &mut slow);
        if word {
            dynasm!(self.ops; .arch x64; mov edx, [rax]);
        } else {
            dynasm!(self.ops; .arch x64; mov rdx, [rax]);
        }
        dynasm!(self.ops
            ; .arch x64
            ; mov ecx, 1
            ; xor rdx, [rbx + held + 16]
            ; cmp QWORD [rbx + held + 8], size
            ; jne >failed
            ; cmp [rbx + held], rax
            ; jne >failed
            ; test rdx, rdx
            ; jnz >failed
        );
        let value = self.value(inst.rs2, RDX);
        if word {
            dynasm!(self.ops; .arch x64; mov [rax], Rd(value));
        } else {
            dynasm!(self.ops; .arch x64; mov [rax], Rq(value));
        }
        dynasm!(self.ops
            ; .arch x64
            ; xor ecx, ecx
            ; failed:
            ; xor eax, eax
            ; mov [rbx + held], rax
            ; mov [rbx + held + 8], rax
            ; mov [rbx + held + 16], rax
        );
        self.put(inst.rd, RCX);
        self.end_probe(slow);
    }
}
