//! Atomic read-modify-write. Harts take turns on one host thread, so plain accesses are atomic.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::BlockCompiler;
use super::encode::{self, Assembler, Form, LOAD_32, LOAD_64, LOAD_S32, STORE_32, STORE_64};
use super::regs::{RAX, RCX, RDX, at};
use crate::Position;

/// Instructions for one size of operands.
#[derive(Clone, Copy)]
pub(super) struct Size {
    bytes: i32,
    load: Form,
    load_signed: Form,
    store: Form,
}

pub(super) const WORD: Size = Size {
    bytes: 4,
    load: LOAD_32,
    load_signed: LOAD_S32,
    store: STORE_32,
};
pub(super) const DOUBLEWORD: Size = Size {
    bytes: 8,
    load: LOAD_64,
    load_signed: LOAD_64,
    store: STORE_64,
};

/// Template of an operation of A.
#[derive(Clone, Copy)]
pub(super) enum Atomic {
    LoadReserved(Size),
    StoreConditional(Size),
    /// `rcx`, which holds `rs2`, becomes the value to store; `rdx` holds the value in memory.
    ReadModifyWrite(Size, fn(&mut Assembler)),
}

impl Atomic {
    fn size(self) -> Size {
        match self {
            Self::LoadReserved(size)
            | Self::StoreConditional(size)
            | Self::ReadModifyWrite(size, _) => size,
        }
    }
}

impl BlockCompiler<'_> {
    /// Emits an instruction of A.
    pub fn atomic(&mut self, inst: &Inst, at: Position, how: Atomic) {
        let store = !matches!(how, Atomic::LoadReserved(_));
        let mut slow = self.slow_path(at);
        let memory = self.probe(inst.rs1, 0, how.size().bytes, store, &mut slow);
        self.set_rax(memory);
        match how {
            Atomic::LoadReserved(size) => self.load_reserved(inst, size),
            Atomic::StoreConditional(size) => self.store_conditional(inst, size),
            Atomic::ReadModifyWrite(size, combine) => self.read_modify_write(inst, size, combine),
        }
        self.end_probe(slow);
    }

    /// An AMO at the host address in `rax`.
    fn read_modify_write(&mut self, inst: &Inst, size: Size, combine: fn(&mut Assembler)) {
        self.fetch(RCX, inst.rs2);
        if size.bytes == 4 {
            // Sign-extended operands keep the order of unsigned words, too.
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx);
        }
        encode::memory(&mut self.ops, size.load_signed, RDX, RAX, 0);
        combine(&mut self.ops);
        encode::memory(&mut self.ops, size.store, RCX, RAX, 0);
        self.put(inst.rd, RDX);
    }

    fn load_reserved(&mut self, inst: &Inst, size: Size) {
        encode::memory(&mut self.ops, size.load, RCX, RAX, 0);
        dynasm!(self.ops
            ; .arch x64
            ; mov [rbx + at!(reservation.host)], rax
            ; mov QWORD [rbx + at!(reservation.size)], size.bytes
            ; mov [rbx + at!(reservation.value)], rcx
        );
        if size.bytes == 4 {
            dynasm!(self.ops; .arch x64; movsxd rcx, ecx);
        }
        self.put(inst.rd, RCX);
    }

    fn store_conditional(&mut self, inst: &Inst, size: Size) {
        encode::memory(&mut self.ops, size.load, RDX, RAX, 0);
        dynasm!(self.ops
            ; .arch x64
            ; mov ecx, 1
            ; xor rdx, [rbx + at!(reservation.value)]
            ; cmp QWORD [rbx + at!(reservation.size)], size.bytes
            ; jne >failed
            ; cmp [rbx + at!(reservation.host)], rax
            ; jne >failed
            ; test rdx, rdx
            ; jnz >failed
        );
        let value = self.value(inst.rs2, RDX);
        encode::memory(&mut self.ops, size.store, value, RAX, 0);
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
