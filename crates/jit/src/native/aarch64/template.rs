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
use super::float::Injection;
use super::float::Precision::{Double, Single};
use super::integer::Bit;
use super::integer::Integer::{self, *};
use super::memory::Access;

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

/// The template of an instruction inside a block; without one, the interpreter executes it.
pub(super) fn template_of(inst: &Inst) -> Option<Template> {
    if inst.moves_to_tp() {
        // Rare, and the interpreter tells observers.
        return None;
    }
    if inst.rd == NO_REG && semantics::computes(inst.op) {
        return Some(Template::Nothing);
    }
    template(inst.op)
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
        Op::Slti => Integer(Compare(emit!(|ops, to| cset X(to), lt))),
        Op::Sltiu => Integer(Compare(emit!(|ops, to| cset X(to), lo))),
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
            mov w2, W(a)
            ; lsl X(to), x2, by
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
        Op::Bexti => Integer(Immediate(emit!(|ops, to, a, by| ubfx X(to), X(a), by, 1))),

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
        Op::FmvXW => Float(MoveToInteger(Single)),
        Op::FmvWX => Float(MoveFromInteger(Single)),
        Op::Fld => Float(Load(Double)),
        Op::Fsd => Float(Store(Double)),
        Op::FsgnjD => Float(InjectSign(Injection::Copy)),
        Op::FsgnjnD => Float(InjectSign(Injection::Negate)),
        Op::FsgnjxD => Float(InjectSign(Injection::Xor)),
        Op::FmvXD => Float(MoveToInteger(Double)),
        Op::FmvDX => Float(MoveFromInteger(Double)),

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
        | Op::FaddS
        | Op::FsubS
        | Op::FmulS
        | Op::FdivS
        | Op::FsqrtS
        | Op::FmaddS
        | Op::FmsubS
        | Op::FnmsubS
        | Op::FnmaddS
        | Op::FsgnjS
        | Op::FsgnjnS
        | Op::FsgnjxS
        | Op::FeqS
        | Op::FltS
        | Op::FleS
        | Op::FcvtWS
        | Op::FcvtLS
        | Op::FcvtLuS
        | Op::FcvtSW
        | Op::FcvtSWu
        | Op::FcvtSL
        | Op::FcvtSLu
        | Op::FaddD
        | Op::FsubD
        | Op::FmulD
        | Op::FdivD
        | Op::FsqrtD
        | Op::FmaddD
        | Op::FmsubD
        | Op::FnmsubD
        | Op::FnmaddD
        | Op::FeqD
        | Op::FltD
        | Op::FleD
        | Op::FcvtWD
        | Op::FcvtLD
        | Op::FcvtLuD
        | Op::FcvtDW
        | Op::FcvtDWu
        | Op::FcvtDL
        | Op::FcvtDLu
        | Op::FcvtSD
        | Op::FcvtDS
        | Op::FminS
        | Op::FmaxS
        | Op::FcvtWuS
        | Op::FclassS
        | Op::FminD
        | Op::FmaxD
        | Op::FcvtWuD
        | Op::FclassD
        | Op::CboInval
        | Op::CboClean
        | Op::CboFlush => return None,
    })
}
