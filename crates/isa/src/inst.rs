//! Operations and decoded instructions.
//!
//! One table (`op_table.rs`) lists every operation with its encoding.

pub use crate::extension::Ext;
pub use crate::op_class::{CostClass, Format};
pub use crate::op_table::Op;

/// One decoded instruction. Compressed instructions are expanded to their base operation.
///
/// Fields that an operation does not have are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// Destination register, integer or floating point according to `op`.
    pub rd: u8,
    /// First source register; for `csrrwi`, `csrrsi` and `csrrci` the 5-bit immediate.
    pub rs1: u8,
    /// Second source register.
    pub rs2: u8,
    /// Third source register (fused multiply-add).
    pub rs3: u8,
    /// Rounding-mode field as encoded, 0..=7, if [`Op::has_rm`]; 5 and 6 are reserved and raise an
    /// illegal-instruction exception when executed, 7 means `frm`.
    pub rm: u8,
    /// Length in bytes, 2 or 4.
    pub len: u8,
    /// Sign-extended immediate: byte offset of loads, stores, branches, jumps and prefetches,
    /// shift amount, CSR address (0..=0xfff), the value `imm << 12` of `lui`/`auipc`, and
    /// `fm:pred:succ` (12 bits) of `fence`.
    pub imm: i32,
    /// The instruction word; a compressed one is zero-extended. Bits 26 and 25 of an atomic are
    /// its `aq` and `rl`. This is also the value for `mtval` of an illegal-instruction exception.
    pub raw: u32,
}

const _: () = assert!(size_of::<Inst>() == 16);

/// Number of `tp`, the thread pointer.
pub const TP: u8 = 4;

impl Inst {
    /// Whether it is `mv tp, REG`, the only instruction by which Linux switches to another thread
    /// (`__switch_to` in `arch/riscv/kernel/entry.S`).
    #[inline(always)]
    pub const fn moves_to_tp(&self) -> bool {
        self.rd == TP
            && match self.op {
                Op::Add => self.rs1 == 0,
                Op::Addi => self.imm == 0,
                _ => false,
            }
    }
}

/// Number of an integer register that does not exist: engines use it in place of a destination
/// `x0`, and have a slot for it that is never read.
pub const NO_REG: u8 = 32;

impl Op {
    /// Assembly mnemonic in lower case, without `.aq`/`.rl`.
    pub const fn mnemonic(self) -> &'static str {
        self.info().mnemonic
    }

    /// Its 32-bit encoding as `(bits, mask)`: a word with `word & mask == bits` is this operation,
    /// unless an operation earlier in [`Op::ALL`] has it. Nothing matches `Illegal`.
    pub const fn encoding(self) -> (u32, u32) {
        let code = self.info().code;
        (code.bits, code.mask)
    }

    /// Layout of its operands.
    pub const fn format(self) -> Format {
        self.info().format
    }

    /// Class for the cost model.
    pub const fn class(self) -> CostClass {
        self.info().class
    }

    /// Extension it belongs to.
    pub const fn extension(self) -> Ext {
        self.info().ext
    }

    /// Whether [`Inst::rm`] is a rounding mode that must be valid.
    pub const fn has_rm(self) -> bool {
        matches!(
            self.format(),
            Format::FRm | Format::F4Rm | Format::FUnaryRm | Format::FToXRm | Format::XToFRm
        )
    }

    /// Whether it belongs to F or D, so that it is illegal while `mstatus.FS` is Off.
    pub const fn is_fp(self) -> bool {
        matches!(self.extension(), Ext::F | Ext::D)
    }

    /// Whether a block ends after it: control transfers, CSR and system instructions, `fence.i`,
    /// address-translation fences, and everything illegal.
    pub const fn ends_block(self) -> bool {
        match self.class() {
            CostClass::Branch | CostClass::Jump | CostClass::Csr | CostClass::System => true,
            CostClass::Fence => !matches!(self, Self::Fence | Self::Pause),
            _ => false,
        }
    }
}
