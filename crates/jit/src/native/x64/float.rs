//! F and D by SSE.
//!
//! Exception flags accrue in `mxcsr`, and are merged into `fflags` when compiled code is left. A
//! result that is NaN becomes the canonical one, which is RISC-V's only; both raise the invalid
//! flag for the same operands, but for fused multiply-add. The slow path is taken for rounding
//! modes other than to nearest, and while FS is not dirty. Computing a result twice raises the same
//! flags.
//!
//! Operands are in host registers, and so are results, which are written to the context, too
//! ([`copies`](super::copies)). What has been checked in a block is not checked again: a check that
//! fails leaves the rest of the block to the interpreter.

use dynasm::dynasm;
use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi};
use trapless_isa::inst::Inst;

use super::compiler::{BlockCompiler, Slow};
use super::copies::{Ready, Xmm};
use super::encode::{self, Assembler, Memory};
use super::regs::{Host, RAX, at, f_at};
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
    /// `d` is computed of `a` and `b`.
    Arithmetic(Precision, fn(&mut Assembler, Xmm, Xmm, Xmm)),
    SquareRoot(Precision),
    /// `xmm0`, which holds `rs1`, is changed by `b` and `c`, which hold `rs2` and `rs3`.
    Fused(Precision, fn(&mut Assembler, Xmm, Xmm)),
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
    /// Floating-point registers that an instruction reads or writes, with the format of each.
    pub fn registers(self, inst: &Inst) -> impl Iterator<Item = (u8, Precision)> {
        use Precision::{Double, Single};
        let (d, a, b, c) = (inst.rd, inst.rs1, inst.rs2, inst.rs3);
        let of =
            |precision, registers: [Option<u8>; 4]| registers.map(|f| f.map(|f| (f, precision)));
        let registers = match self {
            Self::Load(precision)
            | Self::MoveFromInteger(precision)
            | Self::FromInteger(precision, _) => of(precision, [Some(d), None, None, None]),
            Self::Store(precision) => of(precision, [Some(b), None, None, None]),
            Self::MoveToInteger(precision) | Self::ToInteger(precision, _) => {
                of(precision, [Some(a), None, None, None])
            }
            Self::Compare(precision, _) => of(precision, [Some(a), Some(b), None, None]),
            Self::SquareRoot(precision) => of(precision, [Some(d), Some(a), None, None]),
            Self::InjectSign(precision, _) | Self::Arithmetic(precision, _) => {
                of(precision, [Some(d), Some(a), Some(b), None])
            }
            Self::Fused(precision, _) => of(precision, [Some(d), Some(a), Some(b), Some(c)]),
            Self::Narrow => [Some((d, Single)), Some((a, Double)), None, None],
            Self::Widen => [Some((d, Double)), Some((a, Single)), None, None],
        };
        registers.into_iter().flatten()
    }

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
            Float::Load(precision) => self.float_access(inst, precision, false, &mut slow),
            Float::Store(precision) => self.float_access(inst, precision, true, &mut slow),
            Float::MoveToInteger(precision) => self.move_to_integer(inst, precision, &slow),
            Float::MoveFromInteger(precision) => self.move_from_integer(inst, precision, &slow),
            Float::InjectSign(precision, how) => self.inject_sign(inst, precision, how, &slow),
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

    /// Jumps to `out` unless FS is dirty.
    pub fn require_dirty(&mut self, out: DynamicLabel) {
        if self.copies.require(Ready::Dirty) {
            dynasm!(self.ops
                ; .arch x64
                ; test BYTE [rbx + at!(float.state)], FLOAT_DIRTY as i8
                ; jz =>out
            );
        }
    }

    /// Takes the slow path unless FS is dirty and the rounding mode is to nearest.
    fn require_nearest(&mut self, rounding: u8, slow: &Slow) {
        if rounding != rm::DYNAMIC {
            return self.require_dirty(slow.out);
        }
        if self.copies.require(Ready::Nearest) {
            dynasm!(self.ops
                ; .arch x64
                ; test BYTE [rbx + at!(float.state)], FLOAT_NEAREST as i8
                ; jz =>slow.out
            );
        }
    }

    /// Takes the slow path unless register `f` holds a NaN-boxed single.
    fn require_boxed(&mut self, f: u8, slow: &Slow) {
        if self.copies.require_boxed(f) {
            let at = f_at(f);
            dynasm!(self.ops
                ; .arch x64
                ; cmp DWORD [rbx + at + 4], -1
                ; jne =>slow.out
            );
        }
    }

    /// Host register with the value of register `f`. A single must be in its box.
    fn number(&mut self, precision: Precision, f: u8, slow: &Slow) -> Xmm {
        if precision == Precision::Single {
            self.require_boxed(f, slow);
        }
        self.copy(precision, f)
    }

    /// Host register with the value of register `f`, of a single whether or not it is in its box.
    fn copy(&mut self, precision: Precision, f: u8) -> Xmm {
        self.copies.find(f, precision).unwrap_or_else(|| {
            let xmm = self.copies.place(f, precision);
            self.load_copy(xmm, precision, f);
            xmm
        })
    }

    /// Loads register `f` to a host register.
    pub fn load_copy(&mut self, xmm: Xmm, precision: Precision, f: u8) {
        let at = f_at(f);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; movss Rx(xmm), [rbx + at]),
            Precision::Double => dynasm!(self.ops; .arch x64; movsd Rx(xmm), [rbx + at]),
        }
    }

    /// Writes a result to the context.
    fn write(&mut self, precision: Precision, f: u8, xmm: Xmm) {
        let d = f_at(f);
        match precision {
            Precision::Single => dynasm!(self.ops
                ; .arch x64
                ; movss [rbx + d], Rx(xmm)
                ; mov DWORD [rbx + d + 4], -1
            ),
            Precision::Double => dynasm!(self.ops; .arch x64; movsd [rbx + d], Rx(xmm)),
        }
        self.copies.written(f, precision);
    }

    /// Writes a result, which is in an integer register of the host.
    fn write_bits(&mut self, precision: Precision, f: u8, bits: Host) {
        let xmm = self.copies.place(f, precision);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; movd Rx(xmm), Rd(bits)),
            Precision::Double => dynasm!(self.ops; .arch x64; movq Rx(xmm), Rq(bits)),
        }
        self.write(precision, f, xmm);
    }

    fn float_access(&mut self, inst: &Inst, precision: Precision, store: bool, slow: &mut Slow) {
        self.require_dirty(slow.out);
        let memory = self.address(inst, precision.bytes(), store, slow);
        self.float_transfer(inst, precision, store, memory);
    }

    /// Moves between a floating-point register and host memory, while FS is dirty.
    pub fn float_transfer(&mut self, inst: &Inst, precision: Precision, store: bool, at: Memory) {
        let xmm = if store {
            self.copy(precision, inst.rs2)
        } else {
            self.copies.place(inst.rd, precision)
        };
        let form = match (precision, store) {
            (Precision::Single, false) => encode::LOAD_SINGLE,
            (Precision::Double, false) => encode::LOAD_DOUBLE,
            (Precision::Single, true) => encode::STORE_SINGLE,
            (Precision::Double, true) => encode::STORE_DOUBLE,
        };
        encode::memory_at(&mut self.ops, form, Host(xmm.0), at);
        if !store {
            self.write(precision, inst.rd, xmm);
        }
    }

    fn move_to_integer(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        self.require_dirty(slow.out);
        let a = self.copy(precision, inst.rs1);
        let to = self.target(inst.rd);
        match precision {
            Precision::Single => dynasm!(self.ops
                ; .arch x64
                ; movd Rd(to), Rx(a)
                ; movsxd Rq(to), Rd(to)
            ),
            Precision::Double => dynasm!(self.ops; .arch x64; movq Rq(to), Rx(a)),
        }
        self.put(inst.rd, to);
    }

    fn move_from_integer(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        self.require_dirty(slow.out);
        let from = self.value(inst.rs1, RAX);
        self.write_bits(precision, inst.rd, from);
    }

    fn inject_sign(&mut self, inst: &Inst, precision: Precision, how: Injection, slow: &Slow) {
        self.require_dirty(slow.out);
        let a = self.number(precision, inst.rs1, slow);
        let b = self.number(precision, inst.rs2, slow);
        let same = inst.rs1 == inst.rs2;
        if same && matches!(how, Injection::Copy) {
            // `fmv`
            let d = self.copies.place(inst.rd, precision);
            dynasm!(self.ops; .arch x64; movaps Rx(d), Rx(a));
            return self.write(precision, inst.rd, d);
        }
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; movd eax, Rx(a)),
            Precision::Double => dynasm!(self.ops; .arch x64; movq rax, Rx(a)),
        }
        match (precision, how) {
            // `fneg` and `fabs`
            (Precision::Single, Injection::Negate) if same => {
                dynasm!(self.ops; .arch x64; btc eax, BYTE 31);
            }
            (Precision::Single, _) if same => dynasm!(self.ops; .arch x64; btr eax, BYTE 31),
            (Precision::Double, Injection::Negate) if same => {
                dynasm!(self.ops; .arch x64; btc rax, BYTE 63);
            }
            (Precision::Double, _) if same => dynasm!(self.ops; .arch x64; btr rax, BYTE 63),
            (Precision::Single, how) => {
                dynasm!(self.ops; .arch x64; movd ecx, Rx(b));
                match how {
                    Injection::Copy => dynasm!(self.ops; .arch x64; btr eax, BYTE 31),
                    Injection::Negate => {
                        dynasm!(self.ops; .arch x64; not ecx; btr eax, BYTE 31);
                    }
                    Injection::Xor => {}
                }
                dynasm!(self.ops; .arch x64; and ecx, i32::MIN; xor eax, ecx);
            }
            (Precision::Double, how) => {
                dynasm!(self.ops; .arch x64; movq rcx, Rx(b));
                match how {
                    Injection::Copy => dynasm!(self.ops; .arch x64; btr rax, BYTE 63),
                    Injection::Negate => {
                        dynasm!(self.ops; .arch x64; not rcx; btr rax, BYTE 63);
                    }
                    Injection::Xor => {}
                }
                dynasm!(self.ops; .arch x64; shr rcx, 63; shl rcx, 63; xor rax, rcx);
            }
        }
        self.write_bits(precision, inst.rd, RAX);
    }

    fn float_compare(&mut self, inst: &Inst, precision: Precision, how: Comparison, slow: &Slow) {
        use Precision::{Double, Single};
        self.require_dirty(slow.out);
        let a = self.number(precision, inst.rs1, slow);
        let b = self.number(precision, inst.rs2, slow);
        match (how, precision) {
            (Comparison::Equal, Single) => dynasm!(self.ops; .arch x64; ucomiss Rx(a), Rx(b)),
            (Comparison::Equal, Double) => dynasm!(self.ops; .arch x64; ucomisd Rx(a), Rx(b)),
            // Operands are exchanged: unordered ones set the carry, which must read as false.
            (Comparison::Less | Comparison::LessOrEqual, Single) => {
                dynasm!(self.ops; .arch x64; comiss Rx(b), Rx(a));
            }
            (Comparison::Less | Comparison::LessOrEqual, Double) => {
                dynasm!(self.ops; .arch x64; comisd Rx(b), Rx(a));
            }
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
        self.require_nearest(inst.rm, slow);
        let a = self.value(inst.rs1, RAX);
        match from {
            Number::UnsignedWord => dynasm!(self.ops; .arch x64; mov eax, Rd(a)),
            Number::UnsignedLong => {
                dynasm!(self.ops; .arch x64; test Rq(a), Rq(a); js =>slow.out);
            }
            Number::Word | Number::Long => {}
        }
        let d = self.copies.place(inst.rd, to);
        // The conversion keeps the rest of the register, for which it must not wait.
        dynasm!(self.ops; .arch x64; pxor Rx(d), Rx(d));
        match (from, to) {
            (Number::Word, Single) => dynasm!(self.ops; .arch x64; cvtsi2ss Rx(d), Rd(a)),
            (Number::Word, Double) => dynasm!(self.ops; .arch x64; cvtsi2sd Rx(d), Rd(a)),
            (Number::UnsignedWord, Single) => dynasm!(self.ops; .arch x64; cvtsi2ss Rx(d), rax),
            (Number::UnsignedWord, Double) => dynasm!(self.ops; .arch x64; cvtsi2sd Rx(d), rax),
            (Number::Long | Number::UnsignedLong, Single) => {
                dynasm!(self.ops; .arch x64; cvtsi2ss Rx(d), Rq(a));
            }
            (Number::Long | Number::UnsignedLong, Double) => {
                dynasm!(self.ops; .arch x64; cvtsi2sd Rx(d), Rq(a));
            }
        }
        self.write(to, inst.rd, d);
    }

    fn narrow(&mut self, inst: &Inst, slow: &Slow) {
        self.require_nearest(inst.rm, slow);
        let a = self.copy(Precision::Double, inst.rs1);
        let d = self.copies.place(inst.rd, Precision::Single);
        dynasm!(self.ops; .arch x64; vcvtsd2ss Rx(d), Rx(a), Rx(a));
        self.put_number(Precision::Single, inst.rd, d);
    }

    fn widen(&mut self, inst: &Inst, slow: &Slow) {
        self.require_nearest(inst.rm, slow);
        let a = self.number(Precision::Single, inst.rs1, slow);
        let d = self.copies.place(inst.rd, Precision::Double);
        dynasm!(self.ops; .arch x64; vcvtss2sd Rx(d), Rx(a), Rx(a));
        self.put_number(Precision::Double, inst.rd, d);
    }

    /// Emits a conversion to an integer. Values out of range become the smallest integer, which
    /// takes the slow path; both architectures raise the invalid flag.
    fn float_to_integer(&mut self, inst: &Inst, from: Precision, to: Whole, slow: &Slow) {
        use Precision::{Double, Single};
        let truncate = inst.rm == rm::ZERO;
        if truncate {
            self.require_dirty(slow.out);
        } else {
            self.require_nearest(inst.rm, slow);
        }
        let a = self.number(from, inst.rs1, slow);
        // Negative numbers, -0 included, and numbers from 2^63 or 2^32 up: as unsigned integers,
        // their bits compare at or above those of that number. Words are converted as long ones.
        let bits = match (to, from) {
            (Whole::UnsignedWord, Single) => Some(0x4F80_0000),
            (Whole::UnsignedWord, Double) => Some(0x41F0_0000_0000_0000),
            (Whole::UnsignedLong, Single) => Some(0x5F00_0000),
            (Whole::UnsignedLong, Double) => Some(0x43E0_0000_0000_0000),
            (Whole::Word | Whole::Long, _) => None,
        };
        match (bits, from) {
            (None, _) => {}
            (Some(bits), Single) => dynasm!(self.ops
                ; .arch x64
                ; movd eax, Rx(a)
                ; cmp eax, bits as i32
                ; jae =>slow.out
            ),
            (Some(bits), Double) => dynasm!(self.ops
                ; .arch x64
                ; movq rax, Rx(a)
                ; mov rcx, QWORD bits
                ; cmp rax, rcx
                ; jae =>slow.out
            ),
        }
        match (to, from, truncate) {
            (Whole::Word, Single, true) => dynasm!(self.ops; .arch x64; cvttss2si eax, Rx(a)),
            (Whole::Word, Single, false) => dynasm!(self.ops; .arch x64; cvtss2si eax, Rx(a)),
            (Whole::Word, Double, true) => dynasm!(self.ops; .arch x64; cvttsd2si eax, Rx(a)),
            (Whole::Word, Double, false) => dynasm!(self.ops; .arch x64; cvtsd2si eax, Rx(a)),
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Single, true) => {
                dynasm!(self.ops; .arch x64; cvttss2si rax, Rx(a));
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Single, false) => {
                dynasm!(self.ops; .arch x64; cvtss2si rax, Rx(a));
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Double, true) => {
                dynasm!(self.ops; .arch x64; cvttsd2si rax, Rx(a));
            }
            (Whole::UnsignedWord | Whole::Long | Whole::UnsignedLong, Double, false) => {
                dynasm!(self.ops; .arch x64; cvtsd2si rax, Rx(a));
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
        compute: fn(&mut Assembler, Xmm, Xmm, Xmm),
        slow: &Slow,
    ) {
        self.require_nearest(inst.rm, slow);
        let a = self.number(precision, inst.rs1, slow);
        let b = self.number(precision, inst.rs2, slow);
        let d = self.copies.place(inst.rd, precision);
        compute(&mut self.ops, d, a, b);
        self.put_number(precision, inst.rd, d);
    }

    fn square_root(&mut self, inst: &Inst, precision: Precision, slow: &Slow) {
        self.require_nearest(inst.rm, slow);
        let a = self.number(precision, inst.rs1, slow);
        let d = self.copies.place(inst.rd, precision);
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; vsqrtss Rx(d), Rx(a), Rx(a)),
            Precision::Double => dynasm!(self.ops; .arch x64; vsqrtsd Rx(d), Rx(a), Rx(a)),
        }
        self.put_number(precision, inst.rd, d);
    }

    fn fused(
        &mut self,
        inst: &Inst,
        precision: Precision,
        compute: fn(&mut Assembler, Xmm, Xmm),
        slow: &Slow,
    ) {
        self.require_nearest(inst.rm, slow);
        let a = self.number(precision, inst.rs1, slow);
        let b = self.number(precision, inst.rs2, slow);
        let c = self.number(precision, inst.rs3, slow);
        dynasm!(self.ops; .arch x64; movaps xmm0, Rx(a));
        compute(&mut self.ops, b, c);
        // Infinity times zero plus a quiet NaN is invalid in RISC-V, and perhaps not here.
        self.unless_nan(precision, Xmm(0), slow.out);
        let d = self.copies.place(inst.rd, precision);
        dynasm!(self.ops; .arch x64; movaps Rx(d), xmm0);
        self.write(precision, inst.rd, d);
    }

    /// Writes the result in `xmm` to register `f`, or the canonical NaN if it is one.
    fn put_number(&mut self, precision: Precision, f: u8, xmm: Xmm) {
        let (from, back) = (self.ops.new_dynamic_label(), self.ops.new_dynamic_label());
        self.unless_nan(precision, xmm, from);
        self.write(precision, f, xmm);
        dynasm!(self.ops; .arch x64; =>back);
        self.cold.nans.push((
            Nan {
                from,
                back,
                precision,
                f,
            },
            xmm,
        ));
    }

    /// Jumps to `nan` if a result is one.
    fn unless_nan(&mut self, precision: Precision, xmm: Xmm, nan: DynamicLabel) {
        match precision {
            Precision::Single => dynasm!(self.ops; .arch x64; ucomiss Rx(xmm), Rx(xmm)),
            Precision::Double => dynasm!(self.ops; .arch x64; ucomisd Rx(xmm), Rx(xmm)),
        }
        dynasm!(self.ops; .arch x64; jp =>nan);
    }

    /// Emits what a result that is NaN needs.
    pub fn canonical_nan(&mut self, nan: &Nan, xmm: Xmm) {
        let d = f_at(nan.f);
        dynasm!(self.ops
            ; .arch x64
            ; =>nan.from
            ; mov rax, QWORD nan.precision.canonical_nan() as i64
            ; mov [rbx + d], rax
            ; movq Rx(xmm), rax
            ; jmp =>nan.back
        );
    }
}
