//! The table of operations: name, mnemonic, encoding, operands, cost class, extension.
//!
//! Encodings are those of the unprivileged and privileged specifications.

use crate::extension::Ext;
use crate::op_class::{CostClass, Format};

/// Entry of the table for one operation.
pub(crate) struct OpInfo {
    pub mnemonic: &'static str,
    pub code: Code,
    pub format: Format,
    pub class: CostClass,
    pub ext: Ext,
}

/// Encoding of an operation: words with `word & mask == bits`.
#[derive(Clone, Copy)]
pub(crate) struct Code {
    pub bits: u32,
    pub mask: u32,
}

/// Major opcodes (bits 6:0).
mod major {
    pub const LOAD: u32 = 0x03;
    pub const LOAD_FP: u32 = 0x07;
    pub const MISC_MEM: u32 = 0x0f;
    pub const OP_IMM: u32 = 0x13;
    pub const AUIPC: u32 = 0x17;
    pub const OP_IMM_32: u32 = 0x1b;
    pub const STORE: u32 = 0x23;
    pub const STORE_FP: u32 = 0x27;
    pub const AMO: u32 = 0x2f;
    pub const OP: u32 = 0x33;
    pub const LUI: u32 = 0x37;
    pub const OP_32: u32 = 0x3b;
    pub const MADD: u32 = 0x43;
    pub const MSUB: u32 = 0x47;
    pub const NMSUB: u32 = 0x4b;
    pub const NMADD: u32 = 0x4f;
    pub const OP_FP: u32 = 0x53;
    pub const BRANCH: u32 = 0x63;
    pub const JALR: u32 = 0x67;
    pub const JAL: u32 = 0x6f;
    pub const SYSTEM: u32 = 0x73;
}
use major::*;

/// Only the major opcode is fixed.
const fn u(opcode: u32) -> Code {
    Code {
        bits: opcode,
        mask: 0x7f,
    }
}
/// Major opcode and funct3 (bits 14:12).
const fn i(opcode: u32, funct3: u32) -> Code {
    Code {
        bits: opcode | funct3 << 12,
        mask: 0x707f,
    }
}
/// Also funct7 (bits 31:25).
const fn r(opcode: u32, funct3: u32, funct7: u32) -> Code {
    Code {
        bits: opcode | funct3 << 12 | funct7 << 25,
        mask: 0xfe00_707f,
    }
}
/// Also the rs2 field (bits 24:20).
const fn r1(opcode: u32, funct3: u32, funct7: u32, rs2: u32) -> Code {
    Code {
        bits: opcode | funct3 << 12 | funct7 << 25 | rs2 << 20,
        mask: 0xfff0_707f,
    }
}
/// Shift by a 6-bit immediate: funct6 in bits 31:26.
const fn sh(opcode: u32, funct3: u32, funct6: u32) -> Code {
    Code {
        bits: opcode | funct3 << 12 | funct6 << 26,
        mask: 0xfc00_707f,
    }
}
/// Atomic: funct5 in bits 31:27, `aq` and `rl` free.
const fn amo(funct3: u32, funct5: u32) -> Code {
    Code {
        bits: AMO | funct3 << 12 | funct5 << 27,
        mask: 0xf800_707f,
    }
}
/// Load-reserved: as an atomic with rs2 = 0.
const fn lr(funct3: u32) -> Code {
    Code {
        bits: AMO | funct3 << 12 | 2 << 27,
        mask: 0xf9f0_707f,
    }
}
/// Floating point with free rounding mode and two sources.
const fn fp(funct7: u32) -> Code {
    Code {
        bits: OP_FP | funct7 << 25,
        mask: 0xfe00_007f,
    }
}
/// Floating point with free rounding mode and fixed rs2.
const fn fp1(funct7: u32, rs2: u32) -> Code {
    Code {
        bits: OP_FP | funct7 << 25 | rs2 << 20,
        mask: 0xfff0_007f,
    }
}
/// Fused multiply-add: fmt in bits 26:25.
const fn fma(opcode: u32, fmt: u32) -> Code {
    Code {
        bits: opcode | fmt << 25,
        mask: 0x0600_007f,
    }
}
/// SYSTEM, funct3 = 0, rd = 0: address-translation fences.
const fn vma(funct7: u32) -> Code {
    Code {
        bits: SYSTEM | funct7 << 25,
        mask: 0xfe00_7fff,
    }
}
/// SYSTEM, funct3 = 4: hypervisor loads.
const fn hlv(funct7: u32, rs2: u32) -> Code {
    r1(SYSTEM, 4, funct7, rs2)
}
/// SYSTEM, funct3 = 4, rd = 0: hypervisor stores.
const fn hsv(funct7: u32) -> Code {
    Code {
        bits: SYSTEM | 4 << 12 | funct7 << 25,
        mask: 0xfe00_7fff,
    }
}
/// Cache-block operation.
const fn cbo(operation: u32) -> Code {
    Code {
        bits: MISC_MEM | 2 << 12 | operation << 20,
        mask: 0xfff0_7fff,
    }
}
/// Prefetch: `ori x0` with the kind in the low five bits of the immediate.
const fn prefetch(kind: u32) -> Code {
    Code {
        bits: OP_IMM | 6 << 12 | kind << 20,
        mask: 0x01f0_7fff,
    }
}
/// One single word.
const fn word(bits: u32) -> Code {
    Code { bits, mask: !0 }
}

macro_rules! operations {
    ($($name:ident $mnemonic:literal $code:expr, $format:ident $class:ident $ext:ident;)*) => {
        /// An operation, after expansion of compressed instructions.
        ///
        /// Named like its mnemonic.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        pub enum Op {
            $(#[doc = concat!("`", $mnemonic, "`")] $name,)*
        }

        /// Indexed by `Op as usize`. Where encodings overlap, the narrower one comes first.
        pub(crate) static INFO: &[OpInfo] = &TABLE;

        const TABLE: [OpInfo; Op::COUNT] = [$(OpInfo {
            mnemonic: $mnemonic,
            code: $code,
            format: Format::$format,
            class: CostClass::$class,
            ext: Ext::$ext,
        },)*];

        impl Op {
            /// Every operation, in numeric order; `Illegal` is the first.
            pub const ALL: &'static [Op] = &[$(Op::$name,)*];
            /// Number of operations.
            pub const COUNT: usize = [$(Op::$name,)*].len();
        }
    };
}

impl Op {
    pub(crate) const fn info(self) -> &'static OpInfo {
        &INFO[self as usize]
    }
}

operations! {
    // Matches no word: words that no other row matches are illegal.
    Illegal "illegal" Code { bits: 1, mask: 0 }, None System I;

    // RV32I and RV64I
    Lui "lui" u(LUI), U Simple I;
    Auipc "auipc" u(AUIPC), U Simple I;
    Jal "jal" u(JAL), J Jump I;
    Jalr "jalr" i(JALR, 0), Load Jump I;
    Beq "beq" i(BRANCH, 0), Branch Branch I;
    Bne "bne" i(BRANCH, 1), Branch Branch I;
    Blt "blt" i(BRANCH, 4), Branch Branch I;
    Bge "bge" i(BRANCH, 5), Branch Branch I;
    Bltu "bltu" i(BRANCH, 6), Branch Branch I;
    Bgeu "bgeu" i(BRANCH, 7), Branch Branch I;
    Lb "lb" i(LOAD, 0), Load Load I;
    Lh "lh" i(LOAD, 1), Load Load I;
    Lw "lw" i(LOAD, 2), Load Load I;
    Ld "ld" i(LOAD, 3), Load Load I;
    Lbu "lbu" i(LOAD, 4), Load Load I;
    Lhu "lhu" i(LOAD, 5), Load Load I;
    Lwu "lwu" i(LOAD, 6), Load Load I;
    Sb "sb" i(STORE, 0), Store Store I;
    Sh "sh" i(STORE, 1), Store Store I;
    Sw "sw" i(STORE, 2), Store Store I;
    Sd "sd" i(STORE, 3), Store Store I;
    // Hints in the encoding of `ori x0`: before `ori`.
    PrefetchI "prefetch.i" prefetch(0), Prefetch Cbo I;
    PrefetchR "prefetch.r" prefetch(1), Prefetch Cbo I;
    PrefetchW "prefetch.w" prefetch(3), Prefetch Cbo I;
    Addi "addi" i(OP_IMM, 0), I Simple I;
    Slti "slti" i(OP_IMM, 2), I Simple I;
    Sltiu "sltiu" i(OP_IMM, 3), I Simple I;
    Xori "xori" i(OP_IMM, 4), I Simple I;
    Ori "ori" i(OP_IMM, 6), I Simple I;
    Andi "andi" i(OP_IMM, 7), I Simple I;
    Slli "slli" sh(OP_IMM, 1, 0x00), Shift Simple I;
    Srli "srli" sh(OP_IMM, 5, 0x00), Shift Simple I;
    Srai "srai" sh(OP_IMM, 5, 0x10), Shift Simple I;
    Addiw "addiw" i(OP_IMM_32, 0), I Simple I;
    Slliw "slliw" r(OP_IMM_32, 1, 0x00), ShiftW Simple I;
    Srliw "srliw" r(OP_IMM_32, 5, 0x00), ShiftW Simple I;
    Sraiw "sraiw" r(OP_IMM_32, 5, 0x20), ShiftW Simple I;
    Add "add" r(OP, 0, 0x00), R Simple I;
    Sub "sub" r(OP, 0, 0x20), R Simple I;
    Sll "sll" r(OP, 1, 0x00), R Simple I;
    Slt "slt" r(OP, 2, 0x00), R Simple I;
    Sltu "sltu" r(OP, 3, 0x00), R Simple I;
    Xor "xor" r(OP, 4, 0x00), R Simple I;
    Srl "srl" r(OP, 5, 0x00), R Simple I;
    Sra "sra" r(OP, 5, 0x20), R Simple I;
    Or "or" r(OP, 6, 0x00), R Simple I;
    And "and" r(OP, 7, 0x00), R Simple I;
    Addw "addw" r(OP_32, 0, 0x00), R Simple I;
    Subw "subw" r(OP_32, 0, 0x20), R Simple I;
    Sllw "sllw" r(OP_32, 1, 0x00), R Simple I;
    Srlw "srlw" r(OP_32, 5, 0x00), R Simple I;
    Sraw "sraw" r(OP_32, 5, 0x20), R Simple I;
    // A `fence` with pred = W and succ = none: before `fence`, whose unused fields are ignored.
    Pause "pause" word(0x0100_000f), None Fence I;
    Fence "fence" i(MISC_MEM, 0), Fence Fence I;
    FenceI "fence.i" i(MISC_MEM, 1), None Fence Zifencei;
    Ecall "ecall" word(0x0000_0073), None System I;
    Ebreak "ebreak" word(0x0010_0073), None System I;

    // Zicsr
    Csrrw "csrrw" i(SYSTEM, 1), Csr Csr Zicsr;
    Csrrs "csrrs" i(SYSTEM, 2), Csr Csr Zicsr;
    Csrrc "csrrc" i(SYSTEM, 3), Csr Csr Zicsr;
    Csrrwi "csrrwi" i(SYSTEM, 5), CsrImm Csr Zicsr;
    Csrrsi "csrrsi" i(SYSTEM, 6), CsrImm Csr Zicsr;
    Csrrci "csrrci" i(SYSTEM, 7), CsrImm Csr Zicsr;

    // Privileged, Svinval, Zawrs
    Mret "mret" word(0x3020_0073), None System I;
    Sret "sret" word(0x1020_0073), None System I;
    Uret "uret" word(0x8C00_0073), None System Xuer;
    Wfi "wfi" word(0x1050_0073), None System I;
    WrsNto "wrs.nto" word(0x00d0_0073), None System Zawrs;
    WrsSto "wrs.sto" word(0x01d0_0073), None System Zawrs;
    SfenceVma "sfence.vma" vma(0x09), Vma Fence I;
    SinvalVma "sinval.vma" vma(0x0b), Vma Fence Svinval;
    SfenceWInval "sfence.w.inval" word(0x1800_0073), None Fence Svinval;
    SfenceInvalIr "sfence.inval.ir" word(0x1810_0073), None Fence Svinval;
    HfenceVvma "hfence.vvma" vma(0x11), Vma Fence H;
    HfenceGvma "hfence.gvma" vma(0x31), Vma Fence H;
    HinvalVvma "hinval.vvma" vma(0x13), Vma Fence Svinval;
    HinvalGvma "hinval.gvma" vma(0x33), Vma Fence Svinval;

    // H
    HlvB "hlv.b" hlv(0x30, 0), HLoad Load H;
    HlvBu "hlv.bu" hlv(0x30, 1), HLoad Load H;
    HlvH "hlv.h" hlv(0x32, 0), HLoad Load H;
    HlvHu "hlv.hu" hlv(0x32, 1), HLoad Load H;
    HlvxHu "hlvx.hu" hlv(0x32, 3), HLoad Load H;
    HlvW "hlv.w" hlv(0x34, 0), HLoad Load H;
    HlvWu "hlv.wu" hlv(0x34, 1), HLoad Load H;
    HlvxWu "hlvx.wu" hlv(0x34, 3), HLoad Load H;
    HlvD "hlv.d" hlv(0x36, 0), HLoad Load H;
    HsvB "hsv.b" hsv(0x31), HStore Store H;
    HsvH "hsv.h" hsv(0x33), HStore Store H;
    HsvW "hsv.w" hsv(0x35), HStore Store H;
    HsvD "hsv.d" hsv(0x37), HStore Store H;

    // M
    Mul "mul" r(OP, 0, 0x01), R Mul M;
    Mulh "mulh" r(OP, 1, 0x01), R Mul M;
    Mulhsu "mulhsu" r(OP, 2, 0x01), R Mul M;
    Mulhu "mulhu" r(OP, 3, 0x01), R Mul M;
    Div "div" r(OP, 4, 0x01), R Div M;
    Divu "divu" r(OP, 5, 0x01), R Div M;
    Rem "rem" r(OP, 6, 0x01), R Div M;
    Remu "remu" r(OP, 7, 0x01), R Div M;
    Mulw "mulw" r(OP_32, 0, 0x01), R Mul M;
    Divw "divw" r(OP_32, 4, 0x01), R Div M;
    Divuw "divuw" r(OP_32, 5, 0x01), R Div M;
    Remw "remw" r(OP_32, 6, 0x01), R Div M;
    Remuw "remuw" r(OP_32, 7, 0x01), R Div M;

    // A
    LrW "lr.w" lr(2), LoadReserved Amo A;
    LrD "lr.d" lr(3), LoadReserved Amo A;
    ScW "sc.w" amo(2, 0x03), Amo Amo A;
    ScD "sc.d" amo(3, 0x03), Amo Amo A;
    AmoswapW "amoswap.w" amo(2, 0x01), Amo Amo A;
    AmoswapD "amoswap.d" amo(3, 0x01), Amo Amo A;
    AmoaddW "amoadd.w" amo(2, 0x00), Amo Amo A;
    AmoaddD "amoadd.d" amo(3, 0x00), Amo Amo A;
    AmoxorW "amoxor.w" amo(2, 0x04), Amo Amo A;
    AmoxorD "amoxor.d" amo(3, 0x04), Amo Amo A;
    AmoandW "amoand.w" amo(2, 0x0c), Amo Amo A;
    AmoandD "amoand.d" amo(3, 0x0c), Amo Amo A;
    AmoorW "amoor.w" amo(2, 0x08), Amo Amo A;
    AmoorD "amoor.d" amo(3, 0x08), Amo Amo A;
    AmominW "amomin.w" amo(2, 0x10), Amo Amo A;
    AmominD "amomin.d" amo(3, 0x10), Amo Amo A;
    AmomaxW "amomax.w" amo(2, 0x14), Amo Amo A;
    AmomaxD "amomax.d" amo(3, 0x14), Amo Amo A;
    AmominuW "amominu.w" amo(2, 0x18), Amo Amo A;
    AmominuD "amominu.d" amo(3, 0x18), Amo Amo A;
    AmomaxuW "amomaxu.w" amo(2, 0x1c), Amo Amo A;
    AmomaxuD "amomaxu.d" amo(3, 0x1c), Amo Amo A;

    // F
    Flw "flw" i(LOAD_FP, 2), FLoad Load F;
    Fsw "fsw" i(STORE_FP, 2), FStore Store F;
    FmaddS "fmadd.s" fma(MADD, 0), F4Rm Fp F;
    FmsubS "fmsub.s" fma(MSUB, 0), F4Rm Fp F;
    FnmsubS "fnmsub.s" fma(NMSUB, 0), F4Rm Fp F;
    FnmaddS "fnmadd.s" fma(NMADD, 0), F4Rm Fp F;
    FaddS "fadd.s" fp(0x00), FRm Fp F;
    FsubS "fsub.s" fp(0x04), FRm Fp F;
    FmulS "fmul.s" fp(0x08), FRm Fp F;
    FdivS "fdiv.s" fp(0x0c), FRm FpDiv F;
    FsqrtS "fsqrt.s" fp1(0x2c, 0), FUnaryRm FpDiv F;
    FsgnjS "fsgnj.s" r(OP_FP, 0, 0x10), F Fp F;
    FsgnjnS "fsgnjn.s" r(OP_FP, 1, 0x10), F Fp F;
    FsgnjxS "fsgnjx.s" r(OP_FP, 2, 0x10), F Fp F;
    FminS "fmin.s" r(OP_FP, 0, 0x14), F Fp F;
    FmaxS "fmax.s" r(OP_FP, 1, 0x14), F Fp F;
    FleS "fle.s" r(OP_FP, 0, 0x50), FCompare Fp F;
    FltS "flt.s" r(OP_FP, 1, 0x50), FCompare Fp F;
    FeqS "feq.s" r(OP_FP, 2, 0x50), FCompare Fp F;
    FcvtWS "fcvt.w.s" fp1(0x60, 0), FToXRm Fp F;
    FcvtWuS "fcvt.wu.s" fp1(0x60, 1), FToXRm Fp F;
    FcvtLS "fcvt.l.s" fp1(0x60, 2), FToXRm Fp F;
    FcvtLuS "fcvt.lu.s" fp1(0x60, 3), FToXRm Fp F;
    FcvtSW "fcvt.s.w" fp1(0x68, 0), XToFRm Fp F;
    FcvtSWu "fcvt.s.wu" fp1(0x68, 1), XToFRm Fp F;
    FcvtSL "fcvt.s.l" fp1(0x68, 2), XToFRm Fp F;
    FcvtSLu "fcvt.s.lu" fp1(0x68, 3), XToFRm Fp F;
    FmvXW "fmv.x.w" r1(OP_FP, 0, 0x70, 0), FToX Fp F;
    FclassS "fclass.s" r1(OP_FP, 1, 0x70, 0), FToX Fp F;
    FmvWX "fmv.w.x" r1(OP_FP, 0, 0x78, 0), XToF Fp F;

    // D
    Fld "fld" i(LOAD_FP, 3), FLoad Load D;
    Fsd "fsd" i(STORE_FP, 3), FStore Store D;
    FmaddD "fmadd.d" fma(MADD, 1), F4Rm Fp D;
    FmsubD "fmsub.d" fma(MSUB, 1), F4Rm Fp D;
    FnmsubD "fnmsub.d" fma(NMSUB, 1), F4Rm Fp D;
    FnmaddD "fnmadd.d" fma(NMADD, 1), F4Rm Fp D;
    FaddD "fadd.d" fp(0x01), FRm Fp D;
    FsubD "fsub.d" fp(0x05), FRm Fp D;
    FmulD "fmul.d" fp(0x09), FRm Fp D;
    FdivD "fdiv.d" fp(0x0d), FRm FpDiv D;
    FsqrtD "fsqrt.d" fp1(0x2d, 0), FUnaryRm FpDiv D;
    FsgnjD "fsgnj.d" r(OP_FP, 0, 0x11), F Fp D;
    FsgnjnD "fsgnjn.d" r(OP_FP, 1, 0x11), F Fp D;
    FsgnjxD "fsgnjx.d" r(OP_FP, 2, 0x11), F Fp D;
    FminD "fmin.d" r(OP_FP, 0, 0x15), F Fp D;
    FmaxD "fmax.d" r(OP_FP, 1, 0x15), F Fp D;
    FleD "fle.d" r(OP_FP, 0, 0x51), FCompare Fp D;
    FltD "flt.d" r(OP_FP, 1, 0x51), FCompare Fp D;
    FeqD "feq.d" r(OP_FP, 2, 0x51), FCompare Fp D;
    FcvtSD "fcvt.s.d" fp1(0x20, 1), FUnaryRm Fp D;
    FcvtDS "fcvt.d.s" fp1(0x21, 0), FUnaryRm Fp D;
    FcvtWD "fcvt.w.d" fp1(0x61, 0), FToXRm Fp D;
    FcvtWuD "fcvt.wu.d" fp1(0x61, 1), FToXRm Fp D;
    FcvtLD "fcvt.l.d" fp1(0x61, 2), FToXRm Fp D;
    FcvtLuD "fcvt.lu.d" fp1(0x61, 3), FToXRm Fp D;
    FcvtDW "fcvt.d.w" fp1(0x69, 0), XToFRm Fp D;
    FcvtDWu "fcvt.d.wu" fp1(0x69, 1), XToFRm Fp D;
    FcvtDL "fcvt.d.l" fp1(0x69, 2), XToFRm Fp D;
    FcvtDLu "fcvt.d.lu" fp1(0x69, 3), XToFRm Fp D;
    FmvXD "fmv.x.d" r1(OP_FP, 0, 0x71, 0), FToX Fp D;
    FclassD "fclass.d" r1(OP_FP, 1, 0x71, 0), FToX Fp D;
    FmvDX "fmv.d.x" r1(OP_FP, 0, 0x79, 0), XToF Fp D;

    // Zba
    AddUw "add.uw" r(OP_32, 0, 0x04), R Simple Zba;
    Sh1add "sh1add" r(OP, 2, 0x10), R Simple Zba;
    Sh2add "sh2add" r(OP, 4, 0x10), R Simple Zba;
    Sh3add "sh3add" r(OP, 6, 0x10), R Simple Zba;
    Sh1addUw "sh1add.uw" r(OP_32, 2, 0x10), R Simple Zba;
    Sh2addUw "sh2add.uw" r(OP_32, 4, 0x10), R Simple Zba;
    Sh3addUw "sh3add.uw" r(OP_32, 6, 0x10), R Simple Zba;
    SlliUw "slli.uw" sh(OP_IMM_32, 1, 0x02), Shift Simple Zba;

    // Zbb
    Andn "andn" r(OP, 7, 0x20), R Simple Zbb;
    Orn "orn" r(OP, 6, 0x20), R Simple Zbb;
    Xnor "xnor" r(OP, 4, 0x20), R Simple Zbb;
    Clz "clz" r1(OP_IMM, 1, 0x30, 0), Unary Simple Zbb;
    Ctz "ctz" r1(OP_IMM, 1, 0x30, 1), Unary Simple Zbb;
    Cpop "cpop" r1(OP_IMM, 1, 0x30, 2), Unary Simple Zbb;
    SextB "sext.b" r1(OP_IMM, 1, 0x30, 4), Unary Simple Zbb;
    SextH "sext.h" r1(OP_IMM, 1, 0x30, 5), Unary Simple Zbb;
    ZextH "zext.h" r1(OP_32, 4, 0x04, 0), Unary Simple Zbb;
    Clzw "clzw" r1(OP_IMM_32, 1, 0x30, 0), Unary Simple Zbb;
    Ctzw "ctzw" r1(OP_IMM_32, 1, 0x30, 1), Unary Simple Zbb;
    Cpopw "cpopw" r1(OP_IMM_32, 1, 0x30, 2), Unary Simple Zbb;
    OrcB "orc.b" r1(OP_IMM, 5, 0x14, 7), Unary Simple Zbb;
    Rev8 "rev8" r1(OP_IMM, 5, 0x35, 0x18), Unary Simple Zbb;
    Min "min" r(OP, 4, 0x05), R Simple Zbb;
    Minu "minu" r(OP, 5, 0x05), R Simple Zbb;
    Max "max" r(OP, 6, 0x05), R Simple Zbb;
    Maxu "maxu" r(OP, 7, 0x05), R Simple Zbb;
    Rol "rol" r(OP, 1, 0x30), R Simple Zbb;
    Ror "ror" r(OP, 5, 0x30), R Simple Zbb;
    Rori "rori" sh(OP_IMM, 5, 0x18), Shift Simple Zbb;
    Rolw "rolw" r(OP_32, 1, 0x30), R Simple Zbb;
    Rorw "rorw" r(OP_32, 5, 0x30), R Simple Zbb;
    Roriw "roriw" r(OP_IMM_32, 5, 0x30), ShiftW Simple Zbb;

    // Zbs
    Bclr "bclr" r(OP, 1, 0x24), R Simple Zbs;
    Bclri "bclri" sh(OP_IMM, 1, 0x12), Shift Simple Zbs;
    Bext "bext" r(OP, 5, 0x24), R Simple Zbs;
    Bexti "bexti" sh(OP_IMM, 5, 0x12), Shift Simple Zbs;
    Binv "binv" r(OP, 1, 0x34), R Simple Zbs;
    Binvi "binvi" sh(OP_IMM, 1, 0x1a), Shift Simple Zbs;
    Bset "bset" r(OP, 1, 0x14), R Simple Zbs;
    Bseti "bseti" sh(OP_IMM, 1, 0x0a), Shift Simple Zbs;

    // Zicond
    CzeroEqz "czero.eqz" r(OP, 5, 0x07), R Simple Zicond;
    CzeroNez "czero.nez" r(OP, 7, 0x07), R Simple Zicond;

    // Zicbom, Zicboz
    CboInval "cbo.inval" cbo(0), Cbo Cbo Zicbom;
    CboClean "cbo.clean" cbo(1), Cbo Cbo Zicbom;
    CboFlush "cbo.flush" cbo(2), Cbo Cbo Zicbom;
    CboZero "cbo.zero" cbo(4), Cbo Cbo Zicboz;
}
