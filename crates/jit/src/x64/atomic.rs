//! Atomic read-modify-write. Harts take turns on one host thread, so plain accesses are atomic.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::{CostClass, Inst, Op};

use super::block::BlockCompiler;
use super::encode::{self, Form, LOAD_32, LOAD_64, LOAD_S32, STORE_32, STORE_64};
use super::regs::{RAX, RCX, RDX, at};
use crate::Position;

/// Instructions for one size of operands.
#[derive(Clone, Copy)]
struct Width {
    bytes: i32,
    load: Form,
    load_signed: Form,
    store: Form,
}

const WORD: Width = Width {
    bytes: 4,
    load: LOAD_32,
    load_signed: LOAD_S32,
    store: STORE_32,
};
const DOUBLEWORD: Width = Width {
    bytes: 8,
    load: LOAD_64,
    load_signed: LOAD_64,
    store: STORE_64,
};

impl BlockCompiler<'_> {
    /// Emits an instruction of A; `false` if `inst` is none.
    pub fn atomic(&mut self, inst: &Inst, at: Position) -> bool {
        if inst.op.class() != CostClass::Amo {
            return false;
        }
        // funct3 is the size.
        let width = if inst.raw >> 12 & 7 == 2 {
            WORD
        } else {
            DOUBLEWORD
        };
        let load_reserved = matches!(inst.op, Op::LrW | Op::LrD);
        let mut slow = self.slow_path(at);
        self.probe(inst.rs1, 0, width.bytes, !load_reserved, &mut slow);
        match inst.op {
            Op::LrW | Op::LrD => self.load_reserved(inst, width),
            Op::ScW | Op::ScD => self.store_conditional(inst, width),
            _ => self.read_modify_write(inst, width),
        }
        self.end_probe(slow);
        true
    }

    /// An AMO at the host address in `rax`.
    fn read_modify_write(&mut self, inst: &Inst, width: Width) {
        self.fetch(RCX, inst.rs2);
        if width.bytes == 4 {
            // Sign-extended operands keep the order of unsigned words, too.
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx);
        }
        encode::memory(&mut self.ops, width.load_signed, RDX, RAX, 0);
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
        encode::memory(&mut self.ops, width.store, RCX, RAX, 0);
        self.put(inst.rd, RDX);
    }

    fn load_reserved(&mut self, inst: &Inst, width: Width) {
        encode::memory(&mut self.ops, width.load, RCX, RAX, 0);
        dynasm!(self.ops
            ; .arch x64
            ; mov [rbx + at!(reservation.host)], rax
            ; mov QWORD [rbx + at!(reservation.size)], width.bytes
            ; mov [rbx + at!(reservation.value)], rcx
        );
        if width.bytes == 4 {
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx);
        }
        self.put(inst.rd, RCX);
    }

    fn store_conditional(&mut self, inst: &Inst, width: Width) {
        encode::memory(&mut self.ops, width.load, RDX, RAX, 0);
        dynasm!(self.ops
            ; .arch x64
            ; mov ecx, 1
            ; xor rdx, [rbx + at!(reservation.value)]
            ; cmp QWORD [rbx + at!(reservation.size)], width.bytes
            ; jne >failed
            ; cmp [rbx + at!(reservation.host)], rax
            ; jne >failed
            ; test rdx, rdx
            ; jnz >failed
        );
        let value = self.value(inst.rs2, RDX);
        encode::memory(&mut self.ops, width.store, value, RAX, 0);
        dynasm!(self.ops
            ; .arch x64
            ; xor ecx, ecx
            ; failed:
            ; xor eax, eax
            ; mov [rbx + at!(reservation.host)], rax
            ; mov [rbx + at!(reservation.size)], rax
            ; mov [rbx + at!(reservation.value)], rax
        );
        self.put(inst.rd, RCX);
    }
}
