//! Floating point: loads, stores and moves. The interpreter computes.

use dynasm::dynasm;
use dynasmrt::{DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::{self, LOAD_8, LOAD_32, LOAD_64, LOAD_S32, Logical, STORE_32, STORE_64};
use super::regs::{CONTEXT, X0, X1, X2, at, f_at};
use crate::{FLOAT_DIRTY, Position};

/// Formats of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Single,
    Double,
}

/// Operations of F and D.
#[derive(Clone, Copy)]
pub(super) enum Float {
    Load(Precision),
    Store(Precision),
    MoveToInteger(Precision),
    MoveFromInteger(Precision),
    /// Of doubles.
    InjectSign(Injection),
}

/// Where the sign of a result comes from.
#[derive(Clone, Copy)]
pub(super) enum Injection {
    Copy,
    Negate,
    Xor,
}

impl Precision {
    fn bytes(self) -> i32 {
        match self {
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

impl BlockCompiler<'_> {
    /// Emits an instruction of F or D.
    pub fn float(&mut self, inst: &Inst, at: Position, how: Float) {
        let mut slow = self.slow_path(at);
        // FS is dirty already, or the slow path sees to it.
        encode::memory(&mut self.ops, LOAD_8, X0, CONTEXT, at!(float.state));
        let dirty = FLOAT_DIRTY.trailing_zeros();
        dynasm!(self.ops; .arch aarch64; tbz w0, dirty, >clean; b >dirty; clean:; b =>slow.out; dirty:);
        match how {
            Float::Load(precision) => self.float_load(inst, precision, &mut slow),
            Float::Store(precision) => self.float_store(inst, precision, &mut slow),
            Float::MoveToInteger(precision) => self.move_to_integer(inst, precision),
            Float::MoveFromInteger(precision) => self.move_from_integer(inst, precision),
            Float::InjectSign(how) => self.inject_sign(inst, how),
        }
        self.end_probe(slow);
    }

    /// Writes register `f`, from `x2`.
    fn put_float(&mut self, f: u8, precision: Precision) {
        if precision == Precision::Single {
            // A single is boxed by ones.
            encode::logical(&mut self.ops, Logical::Or, X2, X2, !0xFFFF_FFFF);
        }
        encode::memory(&mut self.ops, STORE_64, X2, CONTEXT, f_at(f));
    }

    fn float_load(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.probe(inst, precision.bytes(), false, slow);
        let load = match precision {
            Precision::Single => LOAD_32,
            Precision::Double => LOAD_64,
        };
        encode::indexed(&mut self.ops, load, X2, X0, X1);
        self.put_float(inst.rd, precision);
    }

    fn float_store(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.probe(inst, precision.bytes(), true, slow);
        encode::memory(&mut self.ops, LOAD_64, X2, CONTEXT, f_at(inst.rs2));
        let store = match precision {
            Precision::Single => STORE_32,
            Precision::Double => STORE_64,
        };
        encode::indexed(&mut self.ops, store, X2, X0, X1);
    }

    fn move_to_integer(&mut self, inst: &Inst, precision: Precision) {
        let to = Self::target(inst.rd);
        let load = match precision {
            Precision::Single => LOAD_S32,
            Precision::Double => LOAD_64,
        };
        encode::memory(&mut self.ops, load, to, CONTEXT, f_at(inst.rs1));
        self.put(inst.rd, to);
    }

    fn move_from_integer(&mut self, inst: &Inst, precision: Precision) {
        let from = self.value(inst.rs1, X2);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch aarch64; mov w2, W(from)),
            Precision::Double => encode::copy(&mut self.ops, X2, from),
        }
        self.put_float(inst.rd, precision);
    }

    fn inject_sign(&mut self, inst: &Inst, how: Injection) {
        encode::memory(&mut self.ops, LOAD_64, X2, CONTEXT, f_at(inst.rs1));
        encode::memory(&mut self.ops, LOAD_64, X1, CONTEXT, f_at(inst.rs2));
        match how {
            Injection::Copy => dynasm!(self.ops; .arch aarch64; lsr x1, x1, 63; bfi x2, x1, 63, 1),
            Injection::Negate => dynasm!(self.ops
                ; .arch aarch64
                ; mvn x1, x1
                ; lsr x1, x1, 63
                ; bfi x2, x1, 63, 1
            ),
            Injection::Xor => dynasm!(self.ops
                ; .arch aarch64
                ; and x1, x1, 1 << 63
                ; eor x2, x2, x1
            ),
        }
        self.put_float(inst.rd, Precision::Double);
    }
}
