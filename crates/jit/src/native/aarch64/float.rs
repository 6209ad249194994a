//! Floating point: conversions, comparisons and arithmetic in the host's registers, rounded to
//! nearest.
//!
//! The host raises underflow for results that are tiny before rounding, RISC-V for those that are
//! tiny after it (unprivileged specification, "Floating-Point Control and Status Register"; Arm
//! architecture reference manual, `FPRound`). Such results lie at or below the smallest normal
//! number: the interpreter computes them once more.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow, Underflow};
use super::encode::{
    self, Assembler, LOAD_8, LOAD_32, LOAD_64, LOAD_S32, Logical, STORE_8, STORE_32, STORE_64,
};
use super::regs::{CONTEXT, Host, X0, X1, X2, at, f_at};
use super::trampolines::{FPSR, UNDERFLOW};
use crate::native::precision::{Nan, Precision};
use crate::native::rm;
use crate::{FLOAT_DIRTY, FLOAT_NEAREST, Position};

/// Operations of F and D. Code has its operands in `d0`, `d1` and `d2`, and its result in `d0`, as
/// singles or doubles.
#[derive(Clone, Copy)]
pub(super) enum Float {
    Load(Precision),
    Store(Precision),
    MoveToInteger(Precision),
    MoveFromInteger(Precision),
    InjectSign(Precision, Injection),
    /// Sets a register by the flags.
    Compare(Precision, fn(&mut Assembler, Host)),
    /// To a register, by rounding to nearest, and by truncation.
    ToInteger(Precision, [fn(&mut Assembler, Host); 2]),
    FromInteger(Precision, fn(&mut Assembler, Host)),
    Narrow,
    Widen,
    /// With two operands, or one.
    Arithmetic(Precision, Tiny, fn(&mut Assembler)),
    SquareRoot(Precision, fn(&mut Assembler)),
    Fused(Precision, fn(&mut Assembler)),
}

/// Whether a result can be inexact and tiny.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tiny {
    Never,
    Possibly,
}

/// Where the sign of a result comes from.
#[derive(Clone, Copy)]
pub(super) enum Injection {
    Copy,
    Negate,
    Xor,
}

impl Float {
    /// Whether there is code for a rounding mode. Operations without one have 0 in that field.
    pub fn rounds(self, rounding: u8) -> bool {
        match self {
            Self::ToInteger(..) => matches!(rounding, rm::NEAREST | rm::ZERO | rm::DYNAMIC),
            Self::FromInteger(..)
            | Self::Narrow
            | Self::Widen
            | Self::Arithmetic(..)
            | Self::SquareRoot(..)
            | Self::Fused(..) => matches!(rounding, rm::NEAREST | rm::DYNAMIC),
            Self::Load(_)
            | Self::Store(_)
            | Self::MoveToInteger(_)
            | Self::MoveFromInteger(_)
            | Self::InjectSign(..)
            | Self::Compare(..) => true,
        }
    }
}

impl BlockCompiler<'_> {
    /// Whether a block needs clean exception flags at its start.
    pub fn uses_float(insts: &[Inst]) -> bool {
        insts.iter().any(|inst| inst.op.is_fp())
    }

    /// Clears the host's exception flags, once after compiled code is entered.
    pub fn begin_float(&mut self) {
        let used = at!(float.used);
        encode::memory(&mut self.ops, LOAD_8, X0, CONTEXT, used);
        dynasm!(self.ops; .arch aarch64; cbnz w0, >ready);
        encode::set(&mut self.ops, X0, 1);
        encode::memory(&mut self.ops, STORE_8, X0, CONTEXT, used);
        dynasm!(self.ops; .arch aarch64; msr FPSR, xzr; ready:);
    }

    /// Emits an instruction of F or D.
    pub fn float(&mut self, inst: &Inst, at: Position, how: Float) {
        let mut slow = self.slow_path(at);
        let nearest = match how {
            Float::ToInteger(..)
            | Float::FromInteger(..)
            | Float::Narrow
            | Float::Widen
            | Float::Arithmetic(..)
            | Float::SquareRoot(..)
            | Float::Fused(..) => inst.rm == rm::DYNAMIC,
            _ => false,
        };
        // FS is dirty already, and `frm` as code assumes, or the slow path sees to it.
        let state = if nearest { FLOAT_NEAREST } else { FLOAT_DIRTY };
        encode::memory(&mut self.ops, LOAD_8, X0, CONTEXT, at!(float.state));
        dynasm!(self.ops; .arch aarch64; tst w0, u32::from(state); b.eq =>slow.out);
        match how {
            Float::Load(precision) => self.float_load(inst, precision, &mut slow),
            Float::Store(precision) => self.float_store(inst, precision, &mut slow),
            Float::MoveToInteger(precision) => self.move_to_integer(inst, precision),
            Float::MoveFromInteger(precision) => self.move_from_integer(inst, precision),
            Float::InjectSign(precision, how) => self.inject_sign(inst, precision, how, &slow),
            Float::Compare(precision, set) => {
                self.operands(precision, &[inst.rs1, inst.rs2], &slow);
                let to = self.target(inst.rd);
                set(&mut self.ops, to);
                self.put(inst.rd, to);
            }
            Float::ToInteger(precision, convert) => {
                self.operands(precision, &[inst.rs1], &slow);
                // Of NaN the architectures make different numbers.
                self.refuse_nan(precision, slow.out);
                let to = self.target(inst.rd);
                convert[usize::from(inst.rm == rm::ZERO)](&mut self.ops, to);
                self.put(inst.rd, to);
            }
            Float::FromInteger(precision, convert) => {
                let from = self.value(inst.rs1, X0);
                convert(&mut self.ops, from);
                self.put_number(precision, inst.rd);
            }
            Float::Narrow => {
                self.operands(Precision::Double, &[inst.rs1], &slow);
                dynasm!(self.ops; .arch aarch64; fcvt s0, d0);
                self.put_result(Precision::Single, Tiny::Possibly, inst.rd, &slow);
            }
            Float::Widen => {
                self.operands(Precision::Single, &[inst.rs1], &slow);
                dynasm!(self.ops; .arch aarch64; fcvt d0, s0);
                self.put_result(Precision::Double, Tiny::Never, inst.rd, &slow);
            }
            Float::Arithmetic(precision, tiny, compute) => {
                self.operands(precision, &[inst.rs1, inst.rs2], &slow);
                compute(&mut self.ops);
                self.put_result(precision, tiny, inst.rd, &slow);
            }
            Float::SquareRoot(precision, compute) => {
                self.operands(precision, &[inst.rs1], &slow);
                compute(&mut self.ops);
                self.put_result(precision, Tiny::Never, inst.rd, &slow);
            }
            Float::Fused(precision, compute) => {
                self.operands(precision, &[inst.rs1, inst.rs2, inst.rs3], &slow);
                compute(&mut self.ops);
                self.put_result(precision, Tiny::Possibly, inst.rd, &slow);
            }
        }
        self.end_probe(slow);
    }

    /// Takes the slow path unless register `f` holds a NaN-boxed single.
    fn require_boxed(&mut self, f: u8, slow: &Slow) {
        encode::memory(&mut self.ops, LOAD_32, X1, CONTEXT, f_at(f) + 4);
        dynasm!(self.ops; .arch aarch64; cmn w1, 1; b.ne =>slow.out);
    }

    /// Loads registers to `d0`, `d1`, `d2`.
    fn operands(&mut self, precision: Precision, registers: &[u8], slow: &Slow) {
        for (&f, host) in registers.iter().zip(0..) {
            let load = match precision {
                Precision::Single => {
                    self.require_boxed(f, slow);
                    LOAD_32
                }
                Precision::Double => LOAD_64,
            };
            encode::memory(&mut self.ops, load.float(), Host(host), CONTEXT, f_at(f));
        }
    }

    /// Jumps to `nan` if `d0` is NaN.
    fn refuse_nan(&mut self, precision: Precision, nan: DynamicLabel) {
        match precision {
            Precision::Single => dynasm!(self.ops; .arch aarch64; fcmp s0, s0),
            Precision::Double => dynasm!(self.ops; .arch aarch64; fcmp d0, d0),
        }
        dynasm!(self.ops; .arch aarch64; b.vs =>nan);
    }

    /// Emits what a result that is NaN needs: the architectures choose its bits differently, and
    /// raise the invalid flag for the same operands (`FPMulAdd` of the Arm architecture reference
    /// manual for infinity times zero plus a quiet NaN).
    pub fn canonical_nan(&mut self, nan: &Nan) {
        dynasm!(self.ops; .arch aarch64; =>nan.from);
        encode::set(&mut self.ops, X2, nan.precision.canonical_nan());
        encode::memory(&mut self.ops, STORE_64, X2, CONTEXT, f_at(nan.f));
        dynasm!(self.ops; .arch aarch64; b =>nan.back);
    }

    /// Moves the result in `d0` to register `f`, unless the interpreter has to compute it.
    fn put_result(&mut self, precision: Precision, tiny: Tiny, f: u8, slow: &Slow) {
        let (from, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        self.refuse_nan(precision, from);
        if tiny == Tiny::Possibly {
            let underflow = Underflow {
                from: self.ops.new_dynamic_label(),
                back: self.ops.new_dynamic_label(),
                slow: slow.out,
            };
            // The exponent of subnormal numbers is 0, that of the smallest normal ones 1.
            match precision {
                Precision::Single => {
                    dynasm!(self.ops; .arch aarch64; fmov w0, s0; ubfx w0, w0, 23, 8);
                }
                Precision::Double => {
                    dynasm!(self.ops; .arch aarch64; fmov x0, d0; ubfx x0, x0, 52, 11);
                }
            }
            dynasm!(self.ops
                ; .arch aarch64
                ; cmp w0, 1
                ; b.ls =>underflow.from
                ; =>underflow.back
            );
            self.cold.underflows.push(underflow);
        }
        self.put_number(precision, f);
        dynasm!(self.ops; .arch aarch64; =>back);
        self.cold.nans.push(Nan {
            from,
            back,
            precision,
            f,
        });
    }

    /// Emits what follows a result that may be tiny: if the host has raised underflow, which no
    /// other code leaves raised, that is taken back, and the interpreter computes.
    pub fn underflow(&mut self, underflow: &Underflow) {
        dynasm!(self.ops
            ; .arch aarch64
            ; =>underflow.from
            ; mrs x0, FPSR
            // `tbz` does not reach over a batch of long blocks.
            ; tst w0, 1 << UNDERFLOW
            ; b.eq =>underflow.back
            ; and x0, x0, !(1 << UNDERFLOW)
            ; msr FPSR, x0
            ; b =>underflow.slow
        );
    }

    /// Moves `d0` to register `f`.
    fn put_number(&mut self, precision: Precision, f: u8) {
        match precision {
            Precision::Single => {
                dynasm!(self.ops; .arch aarch64; fmov w2, s0);
                self.put_bits(f, precision);
            }
            Precision::Double => {
                encode::memory(&mut self.ops, STORE_64.float(), X0, CONTEXT, f_at(f));
            }
        }
    }

    /// Moves `x2` to register `f`. A single, whose high half is 0, is boxed by ones.
    fn put_bits(&mut self, f: u8, precision: Precision) {
        if precision == Precision::Single {
            encode::logical(&mut self.ops, Logical::Or, X2, X2, !0xFFFF_FFFF);
        }
        encode::memory(&mut self.ops, STORE_64, X2, CONTEXT, f_at(f));
    }

    fn float_load(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.address(inst, precision.bytes(), false, slow);
        let load = match precision {
            Precision::Single => LOAD_32,
            Precision::Double => LOAD_64,
        };
        encode::indexed(&mut self.ops, load, X2, X0, X1);
        self.put_bits(inst.rd, precision);
    }

    fn float_store(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.address(inst, precision.bytes(), true, slow);
        encode::memory(&mut self.ops, LOAD_64, X2, CONTEXT, f_at(inst.rs2));
        let store = match precision {
            Precision::Single => STORE_32,
            Precision::Double => STORE_64,
        };
        encode::indexed(&mut self.ops, store, X2, X0, X1);
    }

    fn move_to_integer(&mut self, inst: &Inst, precision: Precision) {
        let to = self.target(inst.rd);
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
        self.put_bits(inst.rd, precision);
    }

    fn inject_sign(&mut self, inst: &Inst, precision: Precision, how: Injection, slow: &Slow) {
        let (load, sign) = match precision {
            Precision::Single => {
                self.require_boxed(inst.rs1, slow);
                self.require_boxed(inst.rs2, slow);
                (LOAD_32, 31)
            }
            Precision::Double => (LOAD_64, 63),
        };
        encode::memory(&mut self.ops, load, X2, CONTEXT, f_at(inst.rs1));
        encode::memory(&mut self.ops, load, X1, CONTEXT, f_at(inst.rs2));
        match how {
            Injection::Copy => {}
            Injection::Negate => dynasm!(self.ops; .arch aarch64; mvn x1, x1),
            Injection::Xor => dynasm!(self.ops; .arch aarch64; eor x1, x1, x2),
        }
        encode::logical(&mut self.ops, Logical::And, X1, X1, 1 << sign);
        encode::logical(&mut self.ops, Logical::And, X2, X2, !(1 << sign));
        dynasm!(self.ops; .arch aarch64; orr x2, x2, x1);
        self.put_bits(inst.rd, precision);
    }
}
