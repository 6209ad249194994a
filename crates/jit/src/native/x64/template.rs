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
    Alu, Assembler, LOAD_8, LOAD_16, LOAD_32, LOAD_64, LOAD_S8, LOAD_S16, LOAD_S32, STORE_8,
    STORE_16, STORE_32, STORE_64, copy,
};
use super::float::Float::{self, *};
use super::float::{Comparison, Injection, Number, Whole};
use super::integer::Integer::{self, *};
use super::integer::{Combine, Fill, Part, Second, Sign};
use super::memory::Access;
use super::scratch::Scratch::{self, *};
use crate::native::precision::Precision::{self, Double, Single};

/// Code of an operation.
#[derive(Clone, Copy)]
pub(super) enum Template {
    /// No code: an ordering that always holds, a hint, or a result that is discarded.
    Nothing,
    /// A computation of integers.
    Integer(Integer),
    /// A computation of integers in scratch registers.
    Scratch(Scratch),
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
        |$ops: &mut Assembler $(, $operand)*| dynasm!($ops; .arch x64; $($text)+)
    };
}

/// The access of an integer load or store; `None` for other operations.
pub(super) fn access_of(op: Op) -> Option<Access> {
    match template(op) {
        Some(Template::Memory(access)) => Some(access),
        _ => None,
    }
}

/// The format of a floating-point load or store, and whether it is a store; `None` for other
/// operations.
pub(super) fn float_access_of(op: Op) -> Option<(Precision, bool)> {
    match template(op) {
        Some(Template::Float(Float::Load(precision))) => Some((precision, false)),
        Some(Template::Float(Float::Store(precision))) => Some((precision, true)),
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
    if inst.op == Op::Andi && inst.imm == 0xFF {
        // `zext.b`
        return Some(Template::Integer(Integer::One(
            emit!(|ops, to, a| movzx Rq(to), Rb(a)),
        )));
    }
    if inst.op == Op::AddUw && inst.rs2 == 0 {
        // `zext.w`
        return Some(Template::Integer(Integer::One(
            emit!(|ops, to, a| mov Rd(to), Rd(a)),
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
pub(super) fn template(op: Op) -> Option<Template> {
    use Template::{Atomic, Float, Integer, Memory, Nothing, Scratch, ZeroBlock};
    Some(match op {
        // I
        Op::Lui => Integer(Constant),
        Op::Auipc => Integer(PcRelative),
        Op::Addi => Integer(AddImmediate),
        Op::Addiw => Integer(AddImmediateWord),
        Op::Slti => Integer(SetIf(Second::Immediate, emit!(|ops| setl al))),
        Op::Sltiu => Integer(SetIf(Second::Immediate, emit!(|ops| setb al))),
        Op::Slt => Integer(SetIf(Second::Register, emit!(|ops| setl al))),
        Op::Sltu => Integer(SetIf(Second::Register, emit!(|ops| setb al))),
        Op::Xori => Integer(Binary(Combine::Alu(Alu::Xor), Second::Immediate)),
        Op::Ori => Integer(Binary(Combine::Alu(Alu::Or), Second::Immediate)),
        Op::Andi => Integer(Binary(Combine::Alu(Alu::And), Second::Immediate)),
        Op::Add => Integer(Binary(Combine::Alu(Alu::Add), Second::Register)),
        Op::Sub => Integer(Binary(Combine::Alu(Alu::Sub), Second::Register)),
        Op::Xor => Integer(Binary(Combine::Alu(Alu::Xor), Second::Register)),
        Op::Or => Integer(Binary(Combine::Alu(Alu::Or), Second::Register)),
        Op::And => Integer(Binary(Combine::Alu(Alu::And), Second::Register)),
        Op::Addw => Integer(BinaryWord(Combine::Alu(Alu::Add))),
        Op::Subw => Integer(BinaryWord(Combine::Alu(Alu::Sub))),
        Op::Slli => Integer(Shift(emit!(|ops, to, by| shl Rq(to), by))),
        Op::Srli => Integer(Shift(emit!(|ops, to, by| shr Rq(to), by))),
        Op::Srai => Integer(Shift(emit!(|ops, to, by| sar Rq(to), by))),
        Op::Slliw => Integer(ShiftWord(Fill::Any, emit!(|ops, to, by| shl Rd(to), by))),
        Op::Srliw => Integer(ShiftWord(Fill::Zeros, emit!(|ops, to, by| shr Rd(to), by))),
        Op::Sraiw => Integer(ShiftWord(Fill::Any, emit!(|ops, to, by| sar Rd(to), by))),
        Op::Sll => Integer(Two(emit!(|ops, to, a, b| shlx Rq(to), Rq(a), Rq(b)))),
        Op::Srl => Integer(Two(emit!(|ops, to, a, b| shrx Rq(to), Rq(a), Rq(b)))),
        Op::Sra => Integer(Two(emit!(|ops, to, a, b| sarx Rq(to), Rq(a), Rq(b)))),
        Op::Sllw => Integer(TwoWord(emit!(|ops, a, b| shlx eax, Rd(a), Rd(b)))),
        Op::Srlw => Integer(TwoWord(emit!(|ops, a, b| shrx eax, Rd(a), Rd(b)))),
        Op::Sraw => Integer(TwoWord(emit!(|ops, a, b| sarx eax, Rd(a), Rd(b)))),

        // M
        Op::Mul => Integer(Binary(Combine::Multiply, Second::Register)),
        Op::Mulw => Integer(BinaryWord(Combine::Multiply)),
        Op::Mulh => Integer(High(emit!(|ops, b| imul Rq(b)))),
        Op::Mulhu => Integer(High(emit!(|ops, b| mul Rq(b)))),
        Op::Div => Integer(Divide(Sign::Signed, Part::Quotient)),
        Op::Divu => Integer(Divide(Sign::Unsigned, Part::Quotient)),
        Op::Rem => Integer(Divide(Sign::Signed, Part::Remainder)),
        Op::Remu => Integer(Divide(Sign::Unsigned, Part::Remainder)),
        Op::Divw => Scratch(DivideWord(Sign::Signed, Part::Quotient)),
        Op::Divuw => Scratch(DivideWord(Sign::Unsigned, Part::Quotient)),
        Op::Remw => Scratch(DivideWord(Sign::Signed, Part::Remainder)),
        Op::Remuw => Scratch(DivideWord(Sign::Unsigned, Part::Remainder)),

        // Zba
        Op::AddUw => Scratch(AddZeroExtended),
        Op::Sh1add => Integer(Two(emit!(|ops, to, a, b| lea Rq(to), [Rq(b) + Rq(a) * 2]))),
        Op::Sh2add => Integer(Two(emit!(|ops, to, a, b| lea Rq(to), [Rq(b) + Rq(a) * 4]))),
        Op::Sh3add => Integer(Two(emit!(|ops, to, a, b| lea Rq(to), [Rq(b) + Rq(a) * 8]))),
        Op::Sh1addUw => Scratch(ZeroExtended(emit!(|ops, b| lea rax, [Rq(b) + rax * 2]))),
        Op::Sh2addUw => Scratch(ZeroExtended(emit!(|ops, b| lea rax, [Rq(b) + rax * 4]))),
        Op::Sh3addUw => Scratch(ZeroExtended(emit!(|ops, b| lea rax, [Rq(b) + rax * 8]))),
        Op::SlliUw => Integer(ShiftZeroExtended),

        // Zbb
        Op::Andn => Scratch(Pair(emit!(|ops| andn rax, rcx, rax))),
        Op::Orn => Scratch(Pair(emit!(|ops| not rcx; or rax, rcx))),
        Op::Xnor => Scratch(Pair(emit!(|ops| xor rax, rcx; not rax))),
        Op::Clz => Integer(One(emit!(|ops, to, a| lzcnt Rq(to), Rq(a)))),
        Op::Ctz => Integer(One(emit!(|ops, to, a| tzcnt Rq(to), Rq(a)))),
        Op::Cpop => Integer(One(emit!(|ops, to, a| popcnt Rq(to), Rq(a)))),
        Op::SextB => Integer(One(emit!(|ops, to, a| movsx Rq(to), Rb(a)))),
        Op::SextH => Integer(One(emit!(|ops, to, a| movsx Rq(to), Rw(a)))),
        Op::ZextH => Integer(One(emit!(|ops, to, a| movzx Rd(to), Rw(a)))),
        Op::Clzw => Integer(One(emit!(|ops, to, a| lzcnt Rd(to), Rd(a)))),
        Op::Ctzw => Integer(One(emit!(|ops, to, a| tzcnt Rd(to), Rd(a)))),
        Op::Cpopw => Integer(One(emit!(|ops, to, a| popcnt Rd(to), Rd(a)))),
        // Bytes equal to zero become ones: their complement is orc.b.
        Op::OrcB => Integer(One(emit!(|ops, to, a|
            movq xmm0, Rq(a)
            ; pxor xmm1, xmm1
            ; pcmpeqb xmm0, xmm1
            ; movq Rq(to), xmm0
            ; not Rq(to)
        ))),
        Op::Rev8 => Integer(One(|ops, to, a| {
            copy(ops, to, a);
            dynasm!(ops; .arch x64; bswap Rq(to));
        })),
        Op::Min => Scratch(Pair(emit!(|ops| cmp rax, rcx; cmovg rax, rcx))),
        Op::Minu => Scratch(Pair(emit!(|ops| cmp rax, rcx; cmova rax, rcx))),
        Op::Max => Scratch(Pair(emit!(|ops| cmp rax, rcx; cmovl rax, rcx))),
        Op::Maxu => Scratch(Pair(emit!(|ops| cmp rax, rcx; cmovb rax, rcx))),
        Op::Rol => Scratch(Pair(emit!(|ops| rol rax, cl))),
        Op::Ror => Scratch(Pair(emit!(|ops| ror rax, cl))),
        Op::Rori => Integer(Shift(emit!(|ops, to, by| ror Rq(to), by))),
        Op::Rolw => Scratch(Pair(emit!(|ops| rol eax, cl; cdqe))),
        Op::Rorw => Scratch(Pair(emit!(|ops| ror eax, cl; cdqe))),
        Op::Roriw => Integer(ShiftWord(Fill::Any, emit!(|ops, to, by| ror Rd(to), by))),

        // Zbs
        Op::Bclr => Scratch(Bit(emit!(|ops| andn rax, rdx, rax))),
        Op::Binv => Scratch(Bit(emit!(|ops| xor rax, rdx))),
        Op::Bset => Scratch(Bit(emit!(|ops| or rax, rdx))),
        Op::Bext => Scratch(With(emit!(|ops, b| shrx rax, rax, Rq(b); and eax, 1))),
        Op::Bclri => Scratch(Immediate(emit!(|ops, by| btr rax, BYTE by))),
        Op::Binvi => Scratch(Immediate(emit!(|ops, by| btc rax, BYTE by))),
        Op::Bseti => Scratch(Immediate(emit!(|ops, by| bts rax, BYTE by))),
        Op::Bexti => Scratch(Immediate(emit!(|ops, by| shr rax, by; and eax, 1))),

        // Zicond
        Op::CzeroEqz => Scratch(Pair(emit!(|ops| test rcx, rcx; cmovz rax, rcx))),
        Op::CzeroNez => Scratch(Pair(emit!(|ops|
            xor edx, edx
            ; test rcx, rcx
            ; cmovnz rax, rdx
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
        Op::AmoaddW => Atomic(ReadModifyWrite(WORD, emit!(|ops| add rcx, rdx))),
        Op::AmoaddD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| add rcx, rdx))),
        Op::AmoxorW => Atomic(ReadModifyWrite(WORD, emit!(|ops| xor rcx, rdx))),
        Op::AmoxorD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| xor rcx, rdx))),
        Op::AmoandW => Atomic(ReadModifyWrite(WORD, emit!(|ops| and rcx, rdx))),
        Op::AmoandD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| and rcx, rdx))),
        Op::AmoorW => Atomic(ReadModifyWrite(WORD, emit!(|ops| or rcx, rdx))),
        Op::AmoorD => Atomic(ReadModifyWrite(DOUBLEWORD, emit!(|ops| or rcx, rdx))),
        Op::AmominW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp rcx, rdx; cmovg rcx, rdx),
        )),
        Op::AmominD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp rcx, rdx; cmovg rcx, rdx),
        )),
        Op::AmomaxW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp rcx, rdx; cmovl rcx, rdx),
        )),
        Op::AmomaxD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp rcx, rdx; cmovl rcx, rdx),
        )),
        Op::AmominuW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp rcx, rdx; cmova rcx, rdx),
        )),
        Op::AmominuD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp rcx, rdx; cmova rcx, rdx),
        )),
        Op::AmomaxuW => Atomic(ReadModifyWrite(
            WORD,
            emit!(|ops| cmp rcx, rdx; cmovb rcx, rdx),
        )),
        Op::AmomaxuD => Atomic(ReadModifyWrite(
            DOUBLEWORD,
            emit!(|ops| cmp rcx, rdx; cmovb rcx, rdx),
        )),

        // F and D
        Op::Flw => Float(Load(Single)),
        Op::Fsw => Float(Store(Single)),
        Op::FaddS => Float(Arithmetic(
            Single,
            emit!(|ops, d, a, b| vaddss Rx(d), Rx(a), Rx(b)),
        )),
        Op::FsubS => Float(Arithmetic(
            Single,
            emit!(|ops, d, a, b| vsubss Rx(d), Rx(a), Rx(b)),
        )),
        Op::FmulS => Float(Arithmetic(
            Single,
            emit!(|ops, d, a, b| vmulss Rx(d), Rx(a), Rx(b)),
        )),
        Op::FdivS => Float(Arithmetic(
            Single,
            emit!(|ops, d, a, b| vdivss Rx(d), Rx(a), Rx(b)),
        )),
        Op::FsqrtS => Float(SquareRoot(Single)),
        Op::FmaddS => Float(Fused(
            Single,
            emit!(|ops, b, c| vfmadd213ss xmm0, Rx(b), Rx(c)),
        )),
        Op::FmsubS => Float(Fused(
            Single,
            emit!(|ops, b, c| vfmsub213ss xmm0, Rx(b), Rx(c)),
        )),
        Op::FnmsubS => Float(Fused(
            Single,
            emit!(|ops, b, c| vfnmadd213ss xmm0, Rx(b), Rx(c)),
        )),
        Op::FnmaddS => Float(Fused(
            Single,
            emit!(|ops, b, c| vfnmsub213ss xmm0, Rx(b), Rx(c)),
        )),
        Op::FsgnjS => Float(InjectSign(Single, Injection::Copy)),
        Op::FsgnjnS => Float(InjectSign(Single, Injection::Negate)),
        Op::FsgnjxS => Float(InjectSign(Single, Injection::Xor)),
        Op::FeqS => Float(Compare(Single, Comparison::Equal)),
        Op::FltS => Float(Compare(Single, Comparison::Less)),
        Op::FleS => Float(Compare(Single, Comparison::LessOrEqual)),
        Op::FcvtWS => Float(ToInteger(Single, Whole::Word)),
        Op::FcvtLS => Float(ToInteger(Single, Whole::Long)),
        Op::FcvtWuS => Float(ToInteger(Single, Whole::UnsignedWord)),
        Op::FcvtLuS => Float(ToInteger(Single, Whole::UnsignedLong)),
        Op::FcvtSW => Float(FromInteger(Single, Number::Word)),
        Op::FcvtSWu => Float(FromInteger(Single, Number::UnsignedWord)),
        Op::FcvtSL => Float(FromInteger(Single, Number::Long)),
        Op::FcvtSLu => Float(FromInteger(Single, Number::UnsignedLong)),
        Op::FmvXW => Float(MoveToInteger(Single)),
        Op::FmvWX => Float(MoveFromInteger(Single)),
        Op::Fld => Float(Load(Double)),
        Op::Fsd => Float(Store(Double)),
        Op::FaddD => Float(Arithmetic(
            Double,
            emit!(|ops, d, a, b| vaddsd Rx(d), Rx(a), Rx(b)),
        )),
        Op::FsubD => Float(Arithmetic(
            Double,
            emit!(|ops, d, a, b| vsubsd Rx(d), Rx(a), Rx(b)),
        )),
        Op::FmulD => Float(Arithmetic(
            Double,
            emit!(|ops, d, a, b| vmulsd Rx(d), Rx(a), Rx(b)),
        )),
        Op::FdivD => Float(Arithmetic(
            Double,
            emit!(|ops, d, a, b| vdivsd Rx(d), Rx(a), Rx(b)),
        )),
        Op::FsqrtD => Float(SquareRoot(Double)),
        Op::FmaddD => Float(Fused(
            Double,
            emit!(|ops, b, c| vfmadd213sd xmm0, Rx(b), Rx(c)),
        )),
        Op::FmsubD => Float(Fused(
            Double,
            emit!(|ops, b, c| vfmsub213sd xmm0, Rx(b), Rx(c)),
        )),
        Op::FnmsubD => Float(Fused(
            Double,
            emit!(|ops, b, c| vfnmadd213sd xmm0, Rx(b), Rx(c)),
        )),
        Op::FnmaddD => Float(Fused(
            Double,
            emit!(|ops, b, c| vfnmsub213sd xmm0, Rx(b), Rx(c)),
        )),
        Op::FsgnjD => Float(InjectSign(Double, Injection::Copy)),
        Op::FsgnjnD => Float(InjectSign(Double, Injection::Negate)),
        Op::FsgnjxD => Float(InjectSign(Double, Injection::Xor)),
        Op::FeqD => Float(Compare(Double, Comparison::Equal)),
        Op::FltD => Float(Compare(Double, Comparison::Less)),
        Op::FleD => Float(Compare(Double, Comparison::LessOrEqual)),
        Op::FcvtWD => Float(ToInteger(Double, Whole::Word)),
        Op::FcvtLD => Float(ToInteger(Double, Whole::Long)),
        Op::FcvtWuD => Float(ToInteger(Double, Whole::UnsignedWord)),
        Op::FcvtLuD => Float(ToInteger(Double, Whole::UnsignedLong)),
        Op::FcvtDW => Float(FromInteger(Double, Number::Word)),
        Op::FcvtDWu => Float(FromInteger(Double, Number::UnsignedWord)),
        Op::FcvtDL => Float(FromInteger(Double, Number::Long)),
        Op::FcvtDLu => Float(FromInteger(Double, Number::UnsignedLong)),
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
        | Op::Mulhsu
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
