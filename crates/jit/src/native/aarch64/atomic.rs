//! Atomic read-modify-write. Harts take turns on one host thread, so plain accesses are atomic.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::BlockCompiler;
use super::encode::{self, Assembler, Form, LOAD_32, LOAD_64, LOAD_S32, STORE_32, STORE_64};
use super::regs::{CONTEXT, Host, X0, X1, X2, X3, X16, ZERO, at};
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
    /// `x1`, which holds `rs2`, becomes the value to store; `x2` holds the value in memory.
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
        self.probe(inst, how.size().bytes, store, &mut slow);
        dynasm!(self.ops; .arch aarch64; add x0, x0, x1);
        match how {
            Atomic::LoadReserved(size) => self.load_reserved(inst, size),
            Atomic::StoreConditional(size) => self.store_conditional(inst, size),
            Atomic::ReadModifyWrite(size, combine) => self.read_modify_write(inst, size, combine),
        }
        self.end_probe(slow);
    }

    /// An AMO at the host address in `x0`.
    fn read_modify_write(&mut self, inst: &Inst, size: Size, combine: fn(&mut Assembler)) {
        let operand = self.value(inst.rs2, X1);
        if size.bytes == 4 {
            // Sign-extended operands keep the order of unsigned words, too.
            dynasm!(self.ops; .arch aarch64; sxtw x1, W(operand));
        } else {
            encode::copy(&mut self.ops, X1, operand);
        }
        encode::memory(&mut self.ops, size.load_signed, X2, X0, 0);
        combine(&mut self.ops);
        encode::memory(&mut self.ops, size.store, X1, X0, 0);
        self.put(inst.rd, X2);
    }

    fn load_reserved(&mut self, inst: &Inst, size: Size) {
        encode::memory(&mut self.ops, size.load, X1, X0, 0);
        encode::set(&mut self.ops, X2, size.bytes as u64);
        self.reserve(X0, X2, X1);
        if size.bytes == 4 {
            dynasm!(self.ops; .arch aarch64; sxtw x1, w1);
        }
        self.put(inst.rd, X1);
    }

    /// Writes the reservation.
    fn reserve(&mut self, host: Host, size: Host, value: Host) {
        let fields = [
            (host, at!(reservation.host)),
            (size, at!(reservation.size)),
            (value, at!(reservation.value)),
        ];
        for (register, field) in fields {
            encode::memory(&mut self.ops, STORE_64, register, CONTEXT, field);
        }
    }

    fn store_conditional(&mut self, inst: &Inst, size: Size) {
        encode::set(&mut self.ops, X3, 1);
        let checks = [
            (at!(reservation.host), None),
            (at!(reservation.size), Some(size.bytes as u64)),
        ];
        for (field, expected) in checks {
            encode::memory(&mut self.ops, LOAD_64, X1, CONTEXT, field);
            match expected {
                None => dynasm!(self.ops; .arch aarch64; cmp x1, x0),
                Some(value) => {
                    encode::set(&mut self.ops, X2, value);
                    dynasm!(self.ops; .arch aarch64; cmp x1, x2);
                }
            }
            dynasm!(self.ops; .arch aarch64; b.ne >failed);
        }
        encode::memory(&mut self.ops, size.load, X2, X0, 0);
        encode::memory(&mut self.ops, LOAD_64, X1, CONTEXT, at!(reservation.value));
        dynasm!(self.ops; .arch aarch64; cmp x1, x2; b.ne >failed);
        let value = self.value(inst.rs2, X16);
        encode::memory(&mut self.ops, size.store, value, X0, 0);
        encode::set(&mut self.ops, X3, 0);
        dynasm!(self.ops; .arch aarch64; failed:);
        self.reserve(ZERO, ZERO, ZERO);
        self.put(inst.rd, X3);
    }
}
