//! The table of templates: the code of each operation.
//!
//! The match has no `_`, so a new operation must have an entry, even if the interpreter executes
//! it.

use dynasm::dynasm;
use dynasmrt::DynasmApi;
use trapless_isa::inst::NO_REG;
use trapless_isa::{Inst, Op, semantics};

use super::atomic::Atomic::{self, LoadReserved, ReadModifyWrite, StoreConditional};
use super::atomic::{DOUBLEWORD, WORD};
use super::encode::{
    Assembler, LOAD_8, LOAD_16, LOAD_32, LOAD_64, LOAD_S8, LOAD_S16, LOAD_S32, Logical, STORE_8,
    STORE_16, STORE_32, STORE_64,
};
use super::float::Float::{self, *};
use super::float::{Injection, Tiny};
use super::integer::Bit;
use super::integer::Integer::{self, *};
use super::memory::Access;
use crate::native::precision::Precision::{Double, Single};

/// Code of an operation.
#[derive(Clone, Copy)]
pub(super) enum Template {
    /// No code: an ordering that always holds, a hint, or a result that is discarded.
    Nothing,
    /// A computation of integers.
    Integer(Integer),
    /// An integer load or store.
    Memory(Access),
    /// `cbo.zero`.
    ZeroBlock,
    /// An operation of A.
    Atomic(Atomic),
    /// An operation of F or D.
    Float(Float),
}

/// A function that emits instructions with these operands.
macro_rules! emit {
    (|$ops:ident $(, $operand:ident)*| $($text:tt)+) => {
        |$ops: &mut Assembler $(, $operand)*| dynasm!($ops; .arch aarch64; $($text)+)
    };
}

/// The access of an integer load or store; `None` for other operations.
pub(super) fn access_of(op: Op) -> Option<Access> {
    match template(op) {
        Some(Template::Memory(access)) => Some(access),
        _ => None,
    }
}

/// The template of an instruction inside a block; without one, the interpreter executes it.
pub(super) fn template_of(inst: &Inst) -> Option<Template> {
    if inst.moves_to_tp() {
        // Rare, and the interpreter tells observers.
        return None;
    }
    if inst.rd == NO_REG && semantics::computes(inst.op) {
        return Some(Template::Nothing);
    }
    if inst.op == Op::AddUw && inst.rs2 == 0 {
        // `zext.w`
        return Some(Template::Integer(Integer::One(
            emit!(|ops, to, a| mov W(to), W(a)),
        )));
    }
    let rounds = |template: &Template| match template {
        Template::Float(how) => how.rounds(inst.rm),
        _ => true,
    };
    template(inst.op).filter(rounds)
}

/// The template of an operation; without one, the interpreter executes it.
#[allow(clippy::too_many_lines)] // One line per operation.
fn template(op: Op) -> Option<Template> {
    use Template::{Atomic, Float, Integer, Memory, Nothing, ZeroBlock};
    Some(match op {
        // I
        Op::Lui => Integer(Constant),
        Op::Auipc => Integer(PcRelative),
        Op::Addi => Integer(Add),
        Op::Addiw => Integer(AddWord),
        Op::Slti => Integer(CompareImmediate(emit!(|ops, to| cset X(to), lt))),
        Op::Sltiu => Integer(CompareImmediate(emit!(|ops, to| cset X(to), lo))),
        Op::Slt => Integer(Two(emit!(|ops, to, a, b| cmp X(a), X(b); cset X(to), lt))),
        Op::Sltu => Integer(Two(emit!(|ops, to, a, b| cmp X(a), X(b); cset X(to), lo))),
        Op::Xori => Integer(Logical(Logical::Xor)),
        Op::Ori => Integer(Logical(Logical::Or)),
        Op::Andi => Integer(Logical(Logical::And)),
        Op::Add => Integer(Two(emit!(|ops, to, a, b| add X(to), X(a), X(b)))),
        Op::Sub => Integer(Two(emit!(|ops, to, a, b| sub X(to), X(a), X(b)))),
        Op::Xor => Integer(Two(emit!(|ops, to, a, b| eor X(to), X(a), X(b)))),
        Op::Or => Integer(Two(emit!(|ops, to, a, b| orr X(to), X(a), X(b)))),
        Op::And => Integer(Two(emit!(|ops, to, a, b| and X(to), X(a), X(b)))),
        Op::Addw => Integer(Two(
            emit!(|ops, to, a, b| add w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Subw => Integer(Two(
            emit!(|ops, to, a, b| sub w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Slli => Integer(Immediate(emit!(|ops, to, a, by| lsl X(to), X(a), by))),
        Op::Srli => Integer(Immediate(emit!(|ops, to, a, by| lsr X(to), X(a), by))),
        Op::Srai => Integer(Immediate(emit!(|ops, to, a, by| asr X(to), X(a), by))),
        Op::Slliw => Integer(Immediate(emit!(|ops, to, a, by|
            lsl w2, W(a), by & 31
            ; sxtw X(to), w2
        ))),
        Op::Srliw => Integer(Immediate(emit!(|ops, to, a, by|
            lsr w2, W(a), by & 31
            ; sxtw X(to), w2
        ))),
        Op::Sraiw => Integer(Immediate(emit!(|ops, to, a, by|
            asr w2, W(a), by & 31
            ; sxtw X(to), w2
        ))),
        Op::Sll => Integer(Two(emit!(|ops, to, a, b| lsl X(to), X(a), X(b)))),
        Op::Srl => Integer(Two(emit!(|ops, to, a, b| lsr X(to), X(a), X(b)))),
        Op::Sra => Integer(Two(emit!(|ops, to, a, b| asr X(to), X(a), X(b)))),
        Op::Sllw => Integer(Two(
            emit!(|ops, to, a, b| lsl w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Srlw => Integer(Two(
            emit!(|ops, to, a, b| lsr w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Sraw => Integer(Two(
            emit!(|ops, to, a, b| asr w2, W(a), W(b); sxtw X(to), w2),
        )),

        // M. Divisions by 0 give 0 on this host, with which remainders are right.
        Op::Mul => Integer(Two(emit!(|ops, to, a, b| mul X(to), X(a), X(b)))),
        Op::Mulw => Integer(Two(
            emit!(|ops, to, a, b| mul w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Mulh => Integer(Two(emit!(|ops, to, a, b| smulh X(to), X(a), X(b)))),
        Op::Mulhu => Integer(Two(emit!(|ops, to, a, b| umulh X(to), X(a), X(b)))),
        // If the signed operand is negative, it was taken for 2^64 too much.
        Op::Mulhsu => Integer(Two(emit!(|ops, to, a, b|
            umulh x2, X(a), X(b)
            ; and x3, X(b), X(a), asr 63
            ; sub X(to), x2, x3
        ))),
        Op::Div => Integer(Two(emit!(|ops, to, a, b|
            sdiv x2, X(a), X(b)
            ; tst X(b), X(b)
            ; csinv X(to), x2, xzr, ne
        ))),
        Op::Divu => Integer(Two(emit!(|ops, to, a, b|
            udiv x2, X(a), X(b)
            ; tst X(b), X(b)
            ; csinv X(to), x2, xzr, ne
        ))),
        Op::Rem => Integer(Two(emit!(|ops, to, a, b|
            sdiv x2, X(a), X(b)
            ; msub X(to), x2, X(b), X(a)
        ))),
        Op::Remu => Integer(Two(emit!(|ops, to, a, b|
            udiv x2, X(a), X(b)
            ; msub X(to), x2, X(b), X(a)
        ))),
        Op::Divw => Integer(Two(emit!(|ops, to, a, b|
            sdiv w2, W(a), W(b)
            ; tst W(b), W(b)
            ; csinv w2, w2, wzr, ne
            ; sxtw X(to), w2
        ))),
        Op::Divuw => Integer(Two(emit!(|ops, to, a, b|
            udiv w2, W(a), W(b)
            ; tst W(b), W(b)
            ; csinv w2, w2, wzr, ne
            ; sxtw X(to), w2
        ))),
        Op::Remw => Integer(Two(emit!(|ops, to, a, b|
            sdiv w2, W(a), W(b)
            ; msub w2, w2, W(b), W(a)
            ; sxtw X(to), w2
        ))),
        Op::Remuw => Integer(Two(emit!(|ops, to, a, b|
            udiv w2, W(a), W(b)
            ; msub w2, w2, W(b), W(a)
            ; sxtw X(to), w2
        ))),

        // Zba
        Op::AddUw => Integer(Extended(
            emit!(|ops, to, a, b| add XSP(to), XSP(b), W(a), uxtw),
        )),
        Op::Sh1add => Integer(Two(emit!(|ops, to, a, b| add X(to), X(b), X(a), lsl 1))),
        Op::Sh2add => Integer(Two(emit!(|ops, to, a, b| add X(to), X(b), X(a), lsl 2))),
        Op::Sh3add => Integer(Two(emit!(|ops, to, a, b| add X(to), X(b), X(a), lsl 3))),
        Op::Sh1addUw => Integer(Extended(emit!(|ops, to, a, b|
            add XSP(to), XSP(b), W(a), uxtw 1
        ))),
        Op::Sh2addUw => Integer(Extended(emit!(|ops, to, a, b|
            add XSP(to), XSP(b), W(a), uxtw 2
        ))),
        Op::Sh3addUw => Integer(Extended(emit!(|ops, to, a, b|
            add XSP(to), XSP(b), W(a), uxtw 3
        ))),
        Op::SlliUw => Integer(Immediate(emit!(|ops, to, a, by|
            ubfiz X(to), X(a), by, 32.min(64 - by)
        ))),

        // Zbb
        Op::Andn => Integer(Two(emit!(|ops, to, a, b| bic X(to), X(a), X(b)))),
        Op::Orn => Integer(Two(emit!(|ops, to, a, b| orn X(to), X(a), X(b)))),
        Op::Xnor => Integer(Two(emit!(|ops, to, a, b| eon X(to), X(a), X(b)))),
        Op::Clz => Integer(One(emit!(|ops, to, a| clz X(to), X(a)))),
        Op::Ctz => Integer(One(emit!(|ops, to, a| rbit x2, X(a); clz X(to), x2))),
        Op::Cpop => Integer(One(emit!(|ops, to, a|
            fmov d0, X(a)
            ; cnt v0.b8, v0.b8
            ; addv b0, v0.b8
            ; fmov W(to), s0
        ))),
        Op::SextB => Integer(One(emit!(|ops, to, a| sxtb X(to), W(a)))),
        Op::SextH => Integer(One(emit!(|ops, to, a| sxth X(to), W(a)))),
        Op::ZextH => Integer(One(emit!(|ops, to, a| uxth W(to), W(a)))),
        Op::Clzw => Integer(One(emit!(|ops, to, a| clz W(to), W(a)))),
        Op::Ctzw => Integer(One(emit!(|ops, to, a| rbit w2, W(a); clz W(to), w2))),
        Op::Cpopw => Integer(One(emit!(|ops, to, a|
            fmov s0, W(a)
            ; cnt v0.b8, v0.b8
            ; addv b0, v0.b8
            ; fmov W(to), s0
        ))),
        Op::OrcB => Integer(One(emit!(|ops, to, a|
            fmov d0, X(a)
            ; cmtst v0.b8, v0.b8, v0.b8
            ; fmov X(to), d0
        ))),
        Op::Rev8 => Integer(One(emit!(|ops, to, a| rev X(to), X(a)))),
        Op::Min => Integer(Two(
            emit!(|ops, to, a, b| cmp X(a), X(b); csel X(to), X(a), X(b), lt),
        )),
        Op::Minu => Integer(Two(emit!(|ops, to, a, b|
            cmp X(a), X(b)
            ; csel X(to), X(a), X(b), lo
        ))),
        Op::Max => Integer(Two(
            emit!(|ops, to, a, b| cmp X(a), X(b); csel X(to), X(a), X(b), gt),
        )),
        Op::Maxu => Integer(Two(emit!(|ops, to, a, b|
            cmp X(a), X(b)
            ; csel X(to), X(a), X(b), hi
        ))),
        Op::Rol => Integer(Two(
            emit!(|ops, to, a, b| neg x2, X(b); ror X(to), X(a), x2),
        )),
        Op::Ror => Integer(Two(emit!(|ops, to, a, b| ror X(to), X(a), X(b)))),
        Op::Rori => Integer(Immediate(emit!(|ops, to, a, by| ror X(to), X(a), by))),
        Op::Rolw => Integer(Two(emit!(|ops, to, a, b|
            neg w2, W(b)
            ; ror w2, W(a), w2
            ; sxtw X(to), w2
        ))),
        Op::Rorw => Integer(Two(
            emit!(|ops, to, a, b| ror w2, W(a), W(b); sxtw X(to), w2),
        )),
        Op::Roriw => Integer(Immediate(emit!(|ops, to, a, by|
            ror w2, W(a), by & 31
            ; sxtw X(to), w2
        ))),

        // Zbs
        Op::Bclr => Integer(Two(emit!(|ops, to, a, b|
            mov x2, 1
            ; lsl x2, x2, X(b)
            ; bic X(to), X(a), x2
        ))),
        Op::Binv => Integer(Two(emit!(|ops, to, a, b|
            mov x2, 1
            ; lsl x2, x2, X(b)
            ; eor X(to), X(a), x2
        ))),
        Op::Bset => Integer(Two(emit!(|ops, to, a, b|
            mov x2, 1
            ; lsl x2, x2, X(b)
            ; orr X(to), X(a), x2
        ))),
        Op::Bext => Integer(Two(emit!(|ops, to, a, b|
            lsr x2, X(a), X(b)
            ; ubfx X(to), x2, 0, 1
        ))),
        Op::Bclri => Integer(Bit(Logical::And, Bit::Others)),
        Op::Binvi => Integer(Bit(Logical::Xor, Bit::This)),
        Op::Bseti => Integer(Bit(Logical::Or, Bit::This)),
        Op::Bexti => Integer(Immediate(emit!(|ops, to, a, by|
            lsr x2, X(a), by
            ; ubfx X(to), x2, 0, 1
        ))),

        // Zicond
        Op::CzeroEqz => Integer(Two(emit!(|ops, to, a, b|
            tst X(b), X(b)
            ; csel X(to), X(a), xzr, ne
        ))),
        Op::CzeroNez => Integer(Two(emit!(|ops, to, a, b|
            tst X(b), X(b)
            ; csel X(to), X(a), xzr, eq
        ))),

        // Memory
        Op::Lb => Memory(Access::load(1, LOAD_S8)),
        Op::Lbu => Memory(Access::load(1, LOAD_8)),
        Op::Lh => Memory(Access::load(2, LOAD_S16)),
        Op::Lhu => Memory(Access::load(2, LOAD_16)),
        Op::Lw => Memory(Access::load(4, LOAD_S32)),
        Op::Lwu => Memory(Access::load(4, LOAD_32)),
        Op::Ld => Memory(Access::load(8, LOAD_64)),
        Op::Sb => Memory(Access::store(1, STORE_8)),
        Op::Sh => Memory(Access::store(2, STORE_16)),
        Op::Sw => Memory(Access::store(4, STORE_32)),
        Op::Sd => Memory(Access::store(8, STORE_64)),
        Op::CboZero => ZeroBlock,
        Op::Fence | Op::PrefetchI | Op::PrefetchR | Op::PrefetchW | Op::Pause => Nothing,

        // A
        Op::LrW => Atomic(LoadReserved(WORD)),
        Op::LrD => Atomic(LoadReserved(DOUBLEWORD)),
        Op::ScW => Atomic(StoreConditional(WORD)),
        Op::ScD => Atomic(StoreConditional(DOUBLEWORD)),
        Op::AmoswapW => Atomic(ReadModifyWrite(WORD, |_| {})),
        Op::AmoswapD => Atomic(ReadModifyWrite(DOUBLEWORD, |_| {})),
        Op::AmoaddW => Atomic(ReadModifyWrite(WORD, emit!(|ops| add x1, x1, x2))),
        Op::AmoaddD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| add x1, x1, x2))),
        Op::AmoxorW => Atomic(ReadModifyWrite(WORD, emit!(|ops| eor x1, x1, x2))),
        Op::AmoxorD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| eor x1, x1, x2))),
        Op::AmoandW => Atomic(ReadModifyWrite(WORD, emit!(|ops| and x1, x1, x2))),
        Op::AmoandD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| and x1, x1, x2))),
        Op::AmoorW => Atomic(ReadModifyWrite(WORD, emit!(|ops| orr x1, x1, x2))),
        Op::AmoorD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| orr x1, x1, x2))),
        Op::AmominW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, lt),
        )),
        Op::AmominD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, lt),
        )),
        Op::AmomaxW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, gt),
        )),
        Op::AmomaxD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, gt),
        )),
        Op::AmominuW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, lo),
        )),
        Op::AmominuD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, lo),
        )),
        Op::AmomaxuW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, hi),
        )),
        Op::AmomaxuD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp x1, x2; csel x1, x1, x2, hi),
        )),

        // F and D
        Op::Flw => Float(Load(Single)),
        Op::Fsw => Float(Store(Single)),
        Op::FaddS => Float(Arithmetic(
            Single,
            Tiny::Never,
            emit!(|ops| fadd s0, s0, s1),
        )),
        Op::FsubS => Float(Arithmetic(
            Single,
            Tiny::Never,
            emit!(|ops| fsub s0, s0, s1),
        )),
        Op::FmulS => Float(Arithmetic(
            Single,
            Tiny::Possibly,
            emit!(|ops| fmul s0, s0, s1),
        )),
        Op::FdivS => Float(Arithmetic(
            Single,
            Tiny::Possibly,
            emit!(|ops| fdiv s0, s0, s1),
        )),
        Op::FsqrtS => Float(SquareRoot(Single, emit!(|ops| fsqrt s0, s0))),
        Op::FmaddS => Float(Fused(Single, emit!(|ops| fmadd s0, s0, s1, s2))),
        Op::FmsubS => Float(Fused(Single, emit!(|ops| fnmsub s0, s0, s1, s2))),
        Op::FnmsubS => Float(Fused(Single, emit!(|ops| fmsub s0, s0, s1, s2))),
        Op::FnmaddS => Float(Fused(Single, emit!(|ops| fnmadd s0, s0, s1, s2))),
        Op::FsgnjS => Float(InjectSign(Single, Injection::Copy)),
        Op::FsgnjnS => Float(InjectSign(Single, Injection::Negate)),
        Op::FsgnjxS => Float(InjectSign(Single, Injection::Xor)),
        Op::FeqS => Float(Compare(
            Single,
            emit!(|ops, to| fcmp s0, s1; cset X(to), eq),
        )),
        Op::FltS => Float(Compare(
            Single,
            emit!(|ops, to| fcmpe s0, s1; cset X(to), mi),
        )),
        Op::FleS => Float(Compare(
            Single,
            emit!(|ops, to| fcmpe s0, s1; cset X(to), ls),
        )),
        Op::FcvtWS => Float(ToInteger(
            Single,
            [
                emit!(|ops, to| fcvtns W(to), s0; sxtw X(to), W(to)),
                emit!(|ops, to| fcvtzs W(to), s0; sxtw X(to), W(to)),
            ],
        )),
        Op::FcvtWuS => Float(ToInteger(
            Single,
            [
                emit!(|ops, to| fcvtnu W(to), s0; sxtw X(to), W(to)),
                emit!(|ops, to| fcvtzu W(to), s0; sxtw X(to), W(to)),
            ],
        )),
        Op::FcvtLS => Float(ToInteger(
            Single,
            [
                emit!(|ops, to| fcvtns X(to), s0),
                emit!(|ops, to| fcvtzs X(to), s0),
            ],
        )),
        Op::FcvtLuS => Float(ToInteger(
            Single,
            [
                emit!(|ops, to| fcvtnu X(to), s0),
                emit!(|ops, to| fcvtzu X(to), s0),
            ],
        )),
        Op::FcvtSW => Float(FromInteger(Single, emit!(|ops, from| scvtf s0, W(from)))),
        Op::FcvtSWu => Float(FromInteger(Single, emit!(|ops, from| ucvtf s0, W(from)))),
        Op::FcvtSL => Float(FromInteger(Single, emit!(|ops, from| scvtf s0, X(from)))),
        Op::FcvtSLu => Float(FromInteger(Single, emit!(|ops, from| ucvtf s0, X(from)))),
        Op::FmvXW => Float(MoveToInteger(Single)),
        Op::FmvWX => Float(MoveFromInteger(Single)),
        Op::Fld => Float(Load(Double)),
        Op::Fsd => Float(Store(Double)),
        Op::FaddD => Float(Arithmetic(
            Double,
            Tiny::Never,
            emit!(|ops| fadd d0, d0, d1),
        )),
        Op::FsubD => Float(Arithmetic(
            Double,
            Tiny::Never,
            emit!(|ops| fsub d0, d0, d1),
        )),
        Op::FmulD => Float(Arithmetic(
            Double,
            Tiny::Possibly,
            emit!(|ops| fmul d0, d0, d1),
        )),
        Op::FdivD => Float(Arithmetic(
            Double,
            Tiny::Possibly,
            emit!(|ops| fdiv d0, d0, d1),
        )),
        Op::FsqrtD => Float(SquareRoot(Double, emit!(|ops| fsqrt d0, d0))),
        Op::FmaddD => Float(Fused(Double, emit!(|ops| fmadd d0, d0, d1, d2))),
        Op::FmsubD => Float(Fused(Double, emit!(|ops| fnmsub d0, d0, d1, d2))),
        Op::FnmsubD => Float(Fused(Double, emit!(|ops| fmsub d0, d0, d1, d2))),
        Op::FnmaddD => Float(Fused(Double, emit!(|ops| fnmadd d0, d0, d1, d2))),
        Op::FsgnjD => Float(InjectSign(Double, Injection::Copy)),
        Op::FsgnjnD => Float(InjectSign(Double, Injection::Negate)),
        Op::FsgnjxD => Float(InjectSign(Double, Injection::Xor)),
        Op::FeqD => Float(Compare(
            Double,
            emit!(|ops, to| fcmp d0, d1; cset X(to), eq),
        )),
        Op::FltD => Float(Compare(
            Double,
            emit!(|ops, to| fcmpe d0, d1; cset X(to), mi),
        )),
        Op::FleD => Float(Compare(
            Double,
            emit!(|ops, to| fcmpe d0, d1; cset X(to), ls),
        )),
        Op::FcvtWD => Float(ToInteger(
            Double,
            [
                emit!(|ops, to| fcvtns W(to), d0; sxtw X(to), W(to)),
                emit!(|ops, to| fcvtzs W(to), d0; sxtw X(to), W(to)),
            ],
        )),
        Op::FcvtWuD => Float(ToInteger(
            Double,
            [
                emit!(|ops, to| fcvtnu W(to), d0; sxtw X(to), W(to)),
                emit!(|ops, to| fcvtzu W(to), d0; sxtw X(to), W(to)),
            ],
        )),
        Op::FcvtLD => Float(ToInteger(
            Double,
            [
                emit!(|ops, to| fcvtns X(to), d0),
                emit!(|ops, to| fcvtzs X(to), d0),
            ],
        )),
        Op::FcvtLuD => Float(ToInteger(
            Double,
            [
                emit!(|ops, to| fcvtnu X(to), d0),
                emit!(|ops, to| fcvtzu X(to), d0),
            ],
        )),
        Op::FcvtDW => Float(FromInteger(Double, emit!(|ops, from| scvtf d0, W(from)))),
        Op::FcvtDWu => Float(FromInteger(Double, emit!(|ops, from| ucvtf d0, W(from)))),
        Op::FcvtDL => Float(FromInteger(Double, emit!(|ops, from| scvtf d0, X(from)))),
        Op::FcvtDLu => Float(FromInteger(Double, emit!(|ops, from| ucvtf d0, X(from)))),
        Op::FmvXD => Float(MoveToInteger(Double)),
        Op::FmvDX => Float(MoveFromInteger(Double)),
        Op::FcvtSD => Float(Narrow),
        Op::FcvtDS => Float(Widen),

        // Executed by the interpreter: rare, or they end blocks (see `BlockCompiler::last`).
        Op::Illegal
        | Op::Jal
        | Op::Jalr
        | Op::Beq
        | Op::Bne
        | Op::Blt
        | Op::Bge
        | Op::Bltu
        | Op::Bgeu
        | Op::FenceI
        | Op::Ecall
        | Op::Ebreak
        | Op::Csrrw
        | Op::Csrrs
        | Op::Csrrc
        | Op::Csrrwi
        | Op::Csrrsi
        | Op::Csrrci
        | Op::Mret
        | Op::Sret
        | Op::Uret
        | Op::Wfi
        | Op::WrsNto
        | Op::WrsSto
        | Op::SfenceVma
        | Op::SinvalVma
        | Op::SfenceWInval
        | Op::SfenceInvalIr
        | Op::HfenceVvma
        | Op::HfenceGvma
        | Op::HinvalVvma
        | Op::HinvalGvma
        | Op::HlvB
        | Op::HlvBu
        | Op::HlvH
        | Op::HlvHu
        | Op::HlvxHu
        | Op::HlvW
        | Op::HlvWu
        | Op::HlvxWu
        | Op::HlvD
        | Op::HsvB
        | Op::HsvH
        | Op::HsvW
        | Op::HsvD
        | Op::FminS
        | Op::FmaxS
        | Op::FclassS
        | Op::FminD
        | Op::FmaxD
        | Op::FclassD
        | Op::CboInval
        | Op::CboClean
        | Op::CboFlush => return None,
    })
}
