//! F and D by SSE.
//!
//! Exception flags accrue in `mxcsr`, and are merged into `fflags` when compiled code is left. A
//! result that is NaN becomes the canonical one, which is RISC-V's only; both raise the invalid
//! flag for the same operands, but for fused multiply-add. The slow path is taken for rounding
//! modes other than to nearest, and while FS is not dirty. Computing a result twice raises the same
//! flags.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::encode::Assembler;
use super::regs::{RAX, at, f_at};
use crate::native::precision::{Nan, Precision};
use crate::native::rm;
use crate::{FLOAT_DIRTY, FLOAT_NEAREST, Position};

/// Template of an operation of F or D.
#[derive(Clone, Copy)]
pub(super) enum Float {
    Load(Precision),
    Store(Precision),
    MoveToInteger(Precision),
    MoveFromInteger(Precision),
    InjectSign(Precision, Injection),
    Compare(Precision, Comparison),
    ToInteger(Precision, Whole),
    FromInteger(Precision, Number),
    /// Double to single.
    Narrow,
    /// Single to double.
    Widen,
    /// `xmm0`, which holds `rs1`, is changed by the register at this displacement, `rs2`.
    Arithmetic(Precision, fn(&mut Assembler, i32)),
    SquareRoot(Precision),
    /// `xmm0` is computed of `xmm0`, `xmm1` and `xmm2`, which hold `rs1`, `rs2` and `rs3`.
    Fused(Precision, fn(&mut Assembler)),
}

/// Sign of the result: that of the second operand, its opposite, or the product of both.
#[derive(Clone, Copy)]
pub(super) enum Injection {
    Copy,
    Negate,
    Xor,
}

#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
}

/// Integer types to which floating-point numbers are converted.
#[derive(Clone, Copy)]
pub(super) enum Whole {
    Word,
    UnsignedWord,
    Long,
    UnsignedLong,
}

/// Integer types that are converted to floating-point numbers.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Word,
    UnsignedWord,
    Long,
    UnsignedLong,
}

impl Float {
    /// Whether there is code for a rounding mode. Operations without one have 0 in that field.
    pub fn rounds(self, rounding: u8) -> bool {
        match self {
            Self::ToInteger(_, Whole::UnsignedWord) => rounding == rm::ZERO,
            Self::ToInteger(..) => matches!(rounding, rm::NEAREST | rm::ZERO | rm::DYNAMIC),
            Self::FromInteger(..)
            | Self::Narrow
            | Self::Widen
            | Self::Arithmetic(..)
            | Self::SquareRoot(_)
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

    /// Loads a clean `mxcsr`, once after compiled code is entered.
    pub fn begin_float(&mut self) {
        dynasm!(self.ops
            ; .arch x64
            ; cmp BYTE [rbx + at!(float.used)], 0
            ; jne >ready
            ; mov BYTE [rbx + at!(float.used)], 1
            ; ldmxcsr [rbx + at!(float.clean)]
            ; ready:
        );
    }

    /// Emits an instruction of F or D.
    pub fn float(&mut self, inst: &Inst, at: Position, how: Float) {
        let mut slow = self.slow_path(at);
        match how {
            Float::Load(precision) => self.float_load(inst, precision, &mut slow),
            Float::Store(precision) => self.float_store(inst, precision, &mut slow),
            Float::MoveToInteger(precision) => self.move_to_integer(inst, precision, &slow),
            Float::MoveFromInteger(precision) => self.move_from_integer(inst, precision, &slow),
            Float::InjectSign(Precision::Double, how) => self.inject_sign(inst, how, &slow),
            Float::InjectSign(Precision::Single, how) => self.inject_single_sign(inst, how, &slow),
            Float::Compare(precision, how) => self.float_compare(inst, precision, how, &slow),
            Float::ToInteger(precision, to) => self.float_to_integer(inst, precision, to, &slow),
            Float::FromInteger(precision, from) => {
                self.integer_to_float(inst, precision, from, &slow);
            }
            Float::Narrow => self.narrow(inst, &slow),
            Float::Widen => self.widen(inst, &slow),
            Float::Arithmetic(precision, compute) => {
                self.float_arithmetic(inst, precision, compute, &slow);
            }
            Float::SquareRoot(precision) => self.square_root(inst, precision, &slow),
            Float::Fused(precision, compute) => self.fused(inst, precision, compute, &slow),
        }
        self.end_probe(slow);
    }

    /// Takes the slow path unless FS is dirty.
    fn require_dirty(&mut self, slow: &Slow) {
        dynasm!(self.ops
            ; .arch x64
            ; test BYTE [rbx + at!(float.state)], FLOAT_DIRTY as i8
            ; jz =>slow.out
        );
    }

    /// Takes the slow path unless FS is dirty and the rounding mode is to nearest.
    fn require_nearest(&mut self, rounding: u8, slow: &Slow) {
        if rounding != rm::DYNAMIC {
            return self.require_dirty(slow);
        }
        dynasm!(self.ops
            ; .arch x64
            ; test BYTE [rbx + at!(float.state)], FLOAT_NEAREST as i8
            ; jz =>slow.out
        );
    }

    /// Takes the slow path unless register `f` holds a NaN-boxed single.
    fn require_boxed(&mut self, f: u8, slow: &Slow) {
        let at = f_at(f);
        dynasm!(self.ops
            ; .arch x64
            ; cmp DWORD [rbx + at + 4], -1
            ; jne =>slow.out
        );
    }

    fn float_load(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.require_dirty(slow);
        self.probe(inst.rs1, inst.imm, precision.bytes(), false, slow);
        let d = f_at(inst.rd);
        match precision {
            Precision::Single => dynasm!(self.ops
                ; .arch x64
                ; mov edx, [rax]
                ; mov [rbx + d], edx
                ; mov DWORD [rbx + d + 4], -1
            ),
            Precision::Double => dynasm!(self.ops; .arch x64; mov rdx, [rax]; mov [rbx + d], rdx),
        }
    }

    fn float_store(&mut self, inst: &Inst, precision: Precision, slow: &mut Slow) {
        self.require_dirty(slow);
        self.probe(inst.rs1, inst.imm, precision.bytes(), true, slow);
        let b = f_at(inst.rs2);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; mov edx, [rbx + b]; mov [rax], edx),
            Precision::Double => dynasm!(self.ops; .arch x64; mov rdx, [rbx + b]; mov [rax], rdx),
        }
    }

    fn move_to_integer(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        let a = f_at(inst.rs1);
        self.require_dirty(slow);
        let to = self.target(inst.rd);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; movsxd Rq(to), DWORD [rbx + a]),
            Precision::Double => dynasm!(self.ops; .arch x64; mov Rq(to), [rbx + a]),
        }
        self.put(inst.rd, to);
    }

    fn move_from_integer(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        let d = f_at(inst.rd);
        self.require_dirty(slow);
        let from = self.value(inst.rs1, RAX);
        match precision {
            Precision::Single => dynasm!(self.ops
                ; .arch x64
                ; mov [rbx + d], Rd(from)
                ; mov DWORD [rbx + d + 4], -1
            ),
            Precision::Double => dynasm!(self.ops; .arch x64; mov [rbx + d], Rq(from)),
        }
    }

    fn inject_sign(&mut self, inst: &Inst, how: Injection, slow: &Slow) {
        let (a, b, d) = (f_at(inst.rs1), f_at(inst.rs2), f_at(inst.rd));
        self.require_dirty(slow);
        dynasm!(self.ops; .arch x64; mov rax, [rbx + a]; mov rcx, [rbx + b]);
        match how {
            Injection::Copy => dynasm!(self.ops; .arch x64; shr rcx, 63; btr rax, BYTE 63),
            Injection::Negate => {
                dynasm!(self.ops; .arch x64; not rcx; shr rcx, 63; btr rax, BYTE 63);
            }
            Injection::Xor => dynasm!(self.ops; .arch x64; shr rcx, 63),
        }
        dynasm!(self.ops
            ; .arch x64
            ; shl rcx, 63
            ; xor rax, rcx
            ; mov [rbx + d], rax
        );
    }

    fn inject_single_sign(&mut self, inst: &Inst, how: Injection, slow: &Slow) {
        let (a, b, d) = (f_at(inst.rs1), f_at(inst.rs2), f_at(inst.rd));
        self.require_dirty(slow);
        self.require_boxed(inst.rs1, slow);
        self.require_boxed(inst.rs2, slow);
        dynasm!(self.ops; .arch x64; mov eax, [rbx + a]; mov ecx, [rbx + b]);
        match how {
            Injection::Copy => dynasm!(self.ops; .arch x64; btr eax, BYTE 31),
            Injection::Negate => dynasm!(self.ops; .arch x64; not ecx; btr eax, BYTE 31),
            Injection::Xor => {}
        }
        dynasm!(self.ops
            ; .arch x64
            ; and ecx, i32::MIN
            ; xor eax, ecx
            ; mov [rbx + d], eax
            ; mov DWORD [rbx + d + 4], -1
        );
    }

    fn float_compare(&mut self, inst: &Inst, precision: Precision, how: Comparison, slow: &Slow) {
        use Precision::{Double, Single};
        self.require_dirty(slow);
        if precision == Single {
            self.require_boxed(inst.rs1, slow);
            self.require_boxed(inst.rs2, slow);
        }
        let (a, b) = (f_at(inst.rs1), f_at(inst.rs2));
        match (how, precision) {
            (Comparison::Equal, Single) => dynasm!(self.ops
                ; .arch x64
                ; movss xmm0, [rbx + a]
                ; ucomiss xmm0, [rbx + b]
            ),
            (Comparison::Equal, Double) => dynasm!(self.ops
                ; .arch x64
                ; movsd xmm0, [rbx + a]
                ; ucomisd xmm0, [rbx + b]
            ),
            // Operands are exchanged: unordered ones set the carry, which must read as false.
            (Comparison::Less | Comparison::LessOrEqual, Single) => dynasm!(self.ops
                ; .arch x64
                ; movss xmm0, [rbx + b]
                ; comiss xmm0, [rbx + a]
            ),
            (Comparison::Less | Comparison::LessOrEqual, Double) => dynasm!(self.ops
                ; .arch x64
                ; movsd xmm0, [rbx + b]
                ; comisd xmm0, [rbx + a]
            ),
        }
        match how {
            Comparison::Equal => {
                dynasm!(self.ops; .arch x64; sete al; setnp cl; and al, cl);
            }
            Comparison::Less => dynasm!(self.ops; .arch x64; seta al),
            Comparison::LessOrEqual => dynasm!(self.ops; .arch x64; setae al),
        }
        dynasm!(self.ops; .arch x64; movzx eax, al);
        self.put(inst.rd, RAX);
    }

    /// Emits a conversion from an integer. SSE converts signed integers only: unsigned values
    /// outside their range take the slow path before any flag is raised. Words are exact as doubles
    /// in every rounding mode, but the mode must be valid.
    fn integer_to_float(&mut self, inst: &Inst, to: Precision, from: Number, slow: &Slow) {
        use Precision::{Double, Single};
        let d = f_at(inst.rd);
        self.require_nearest(inst.rm, slow);
        let a = self.value(inst.rs1, RAX);
        dynasm!(self.ops; .arch x64; pxor xmm0, xmm0);
        match from {
            Number::UnsignedWord => dynasm!(self.ops; .arch x64; mov eax, Rd(a)),
            Number::UnsignedLong => {
                dynasm!(self.ops; .arch x64; test Rq(a), Rq(a); js =>slow.out);
            }
            Number::Word | Number::Long => {}
        }
        match (from, to) {
            (Number::Word, Single) => dynasm!(self.ops; .arch x64; cvtsi2ss xmm0, Rd(a)),
            (Number::Word, Double) => dynasm!(self.ops; .arch x64; cvtsi2sd xmm0, Rd(a)),
            (Number::UnsignedWord, Single) => dynasm!(self.ops; .arch x64; cvtsi2ss xmm0, rax),
            (Number::UnsignedWord, Double) => dynasm!(self.ops; .arch x64; cvtsi2sd xmm0, rax),
            (Number::Long | Number::UnsignedLong, Single) => {
                dynasm!(self.ops; .arch x64; cvtsi2ss xmm0, Rq(a));
            }
            (Number::Long | Number::UnsignedLong, Double) => {
                dynasm!(self.ops; .arch x64; cvtsi2sd xmm0, Rq(a));
            }
        }
        match to {
            Single => self.put_single(d),
            Double => dynasm!(self.ops; .arch x64; movsd [rbx + d], xmm0),
        }
    }

    fn narrow(&mut self, inst: &Inst, slow: &Slow) {
        let a = f_at(inst.rs1);
        self.require_nearest(inst.rm, slow);
        dynasm!(self.ops
            ; .arch x64
            ; cvtsd2ss xmm0, [rbx + a]
        );
        self.put_number(Precision::Single, inst.rd);
    }

    fn widen(&mut self, inst: &Inst, slow: &Slow) {
        let a = f_at(inst.rs1);
        self.require_nearest(inst.rm, slow);
        self.require_boxed(inst.rs1, slow);
        dynasm!(self.ops; .arch x64; cvtss2sd xmm0, [rbx + a]);
        self.put_number(Precision::Double, inst.rd);
    }

    /// Emits a conversion to an integer. Values out of range become the smallest integer, which
    /// takes the slow path; both architectures raise the invalid flag.
    fn float_to_integer(&mut self, inst: &Inst, from: Precision, to: Whole, slow: &Slow) {
        use Precision::{Double, Single};
        let truncate = inst.rm == rm::ZERO;
        if truncate {
            self.require_dirty(slow);
        } else {
            self.require_nearest(inst.rm, slow);
        }
        if from == Single {
            self.require_boxed(inst.rs1, slow);
        }
        let a = f_at(inst.rs1);
        // Negative numbers, -0 included, and numbers from 2^63 or 2^32 up: as unsigned integers,
        // their bits compare at or above those of that number. Words are converted as long ones.
        match (to, from) {
            (Whole::UnsignedWord, Single) => {
                dynasm!(self.ops; .arch x64; cmp DWORD [rbx + a], 0x4F80_0000; jae =>slow.out);
            }
            (Whole::UnsignedWord, Double) => dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD 0x41F0_0000_0000_0000
                ; cmp [rbx + a], rcx
                ; jae =>slow.out
            ),
            (Whole::UnsignedLong, Single) => {
                dynasm!(self.ops; .arch x64; cmp DWORD [rbx + a], 0x5F00_0000; jae =>slow.out);
            }
            (Whole::UnsignedLong, Double) => dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD 0x43E0_0000_0000_0000
                ; cmp [rbx + a], rcx
                ; jae =>slow.out
            ),
            (Whole::Word | Whole::Long, _) => {}
        }
        match (to, from, truncate) {
            (Whole::Word, Single, true) => dynasm!(self.ops; .arch x64; cvttss2si eax, [rbx + a]),
            (Whole::Word, Single, false) => dynasm!(self.ops; .arch x64; cvtss2si eax, [rbx + a]),
            (Whole::Word, Double, true) => dynasm!(self.ops; .arch x64; cvttsd2si eax, [rbx + a]),
            (Whole::Word, Double, false) => dynasm!(self.ops; .arch x64; cvtsd2si eax, [rbx + a]),
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Single, true) => {
                dynasm!(self.ops; .arch x64; cvttss2si rax, [rbx + a]);
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Single, false) => {
                dynasm!(self.ops; .arch x64; cvtss2si rax, [rbx + a]);
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Double, true) => {
                dynasm!(self.ops; .arch x64; cvttsd2si rax, [rbx + a]);
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Double, false) => {
                dynasm!(self.ops; .arch x64; cvtsd2si rax, [rbx + a]);
            }
        }
        match to {
            Whole::Word => {
                dynasm!(self.ops; .arch x64; cmp eax, i32::MIN; je =>slow.out; cdqe);
            }
            Whole::UnsignedWord => dynasm!(self.ops; .arch x64; cdqe),
            Whole::Long | Whole::UnsignedLong => dynasm!(self.ops
                ; .arch x64
                ; mov rcx, QWORD i64::MIN
                ; cmp rax, rcx
                ; je =>slow.out
            ),
        }
        self.put(inst.rd, RAX);
    }

    fn float_arithmetic(
        &mut self,
        inst: &Inst,
        precision: Precision,
        compute: fn(&mut Assembler, i32),
        slow: &Slow,
    ) {
        self.require_nearest(inst.rm, slow);
        self.boxed_operands(precision, &[inst.rs1, inst.rs2], slow);
        self.load_first(precision, inst.rs1);
        compute(&mut self.ops, f_at(inst.rs2));
        self.put_number(precision, inst.rd);
    }

    fn square_root(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        self.require_nearest(inst.rm, slow);
        self.boxed_operands(precision, &[inst.rs1], slow);
        self.load_first(precision, inst.rs1);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; sqrtss xmm0, xmm0),
            Precision::Double => dynasm!(self.ops; .arch x64; sqrtsd xmm0, xmm0),
        }
        self.put_number(precision, inst.rd);
    }

    fn fused(
        &mut self,
        inst: &Inst,
        precision: Precision,
        compute: fn(&mut Assembler),
        slow: &Slow,
    ) {
        self.require_nearest(inst.rm, slow);
        self.boxed_operands(precision, &[inst.rs1, inst.rs2, inst.rs3], slow);
        let (a, b, c) = (f_at(inst.rs1), f_at(inst.rs2), f_at(inst.rs3));
        match precision {
            Precision::Single => dynasm!(self.ops
                ; .arch x64
                ; movss xmm1, [rbx + b]
                ; movss xmm2, [rbx + c]
                ; movss xmm0, [rbx + a]
            ),
            Precision::Double => dynasm!(self.ops
                ; .arch x64
                ; movsd xmm0, [rbx + a]
                ; movsd xmm1, [rbx + b]
                ; movsd xmm2, [rbx + c]
            ),
        }
        compute(&mut self.ops);
        // Infinity times zero plus a quiet NaN is invalid in RISC-V, and perhaps not here.
        self.put_number_unless_nan(precision, inst.rd, slow.out);
    }

    /// Takes the slow path unless registers that should hold singles do.
    fn boxed_operands(&mut self, precision: Precision, registers: &[u8], slow: &Slow) {
        if precision == Precision::Single {
            for &register in registers {
                self.require_boxed(register, slow);
            }
        }
    }

    /// `xmm0` = register `f`.
    fn load_first(&mut self, precision: Precision, f: u8) {
        let a = f_at(f);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; movss xmm0, [rbx + a]),
            Precision::Double => dynasm!(self.ops; .arch x64; movsd xmm0, [rbx + a]),
        }
    }

    /// Moves the result in `xmm0` to register `f`, or the canonical NaN if it is one.
    fn put_number(&mut self, precision: Precision, f: u8) {
        let (from, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        self.put_number_unless_nan(precision, f, from);
        dynasm!(self.ops; .arch x64; =>back);
        self.cold.nans.push(Nan {
            from,
            back,
            precision,
            f,
        });
    }

    /// Moves the result in `xmm0` to register `f`, or jumps to `nan` if it is one.
    fn put_number_unless_nan(&mut self, precision: Precision, f: u8, nan: DynamicLabel) {
        let d = f_at(f);
        match precision {
            Precision::Single => {
                dynasm!(self.ops; .arch x64; ucomiss xmm0, xmm0; jp =>nan);
                self.put_single(d);
            }
            Precision::Double => dynasm!(self.ops
                ; .arch x64
                ; ucomisd xmm0, xmm0
                ; jp =>nan
                ; movsd [rbx + d], xmm0
            ),
        }
    }

    /// Emits what a result that is NaN needs.
    pub fn canonical_nan(&mut self, nan: &Nan) {
        let d = f_at(nan.f);
        dynasm!(self.ops
            ; .arch x64
            ; =>nan.from
            ; mov rax, QWORD nan.precision.canonical_nan() as i64
            ; mov [rbx + d], rax
            ; jmp =>nan.back
        );
    }

    /// Boxes the single in `xmm0`.
    fn put_single(&mut self, d: i32) {
        dynasm!(self.ops
            ; .arch x64
            ; movss [rbx + d], xmm0
            ; mov DWORD [rbx + d + 4], -1
        );
    }
}
