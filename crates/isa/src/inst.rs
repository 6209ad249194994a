//! Operations and decoded instructions.
//!
//! One table (`op_table.rs`) lists every operation with its encoding; this file holds the types it
//! is made of.

pub use crate::op_table::Op;

/// One decoded instruction. Compressed instructions are expanded to their base operation.
///
/// Fields that an operation does not have are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Inst {
    /// What to do.
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

/// Number of an integer register that does not exist: engines put it in the place of a destination `x0`, and keep a
/// slot for it that nobody reads.
pub const NO_REG: u8 = 32;

/// Layout of the operands in the instruction word and in assembly text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// No operands.
    None,
    /// `rd, rs1, rs2`.
    R,
    /// `rd, rs1`.
    Unary,
    /// `rd, rs1, imm`.
    I,
    /// `rd, rs1, shamt` with a 6-bit shift amount.
    Shift,
    /// `rd, rs1, shamt` with a 5-bit shift amount.
    ShiftW,
    /// `rd, imm(rs1)`: integer loads and `jalr`.
    Load,
    /// `rs2, imm(rs1)`.
    Store,
    /// `rs1, rs2, target`.
    Branch,
    /// `rd, imm20`.
    U,
    /// `rd, target`.
    J,
    /// `pred, succ`.
    Fence,
    /// `rd, csr, rs1`.
    Csr,
    /// `rd, csr, uimm5`.
    CsrImm,
    /// `rd, (rs1)`.
    LoadReserved,
    /// `rd, rs2, (rs1)`.
    Amo,
    /// `rd, (rs1)`: hypervisor loads.
    HLoad,
    /// `rs2, (rs1)`: hypervisor stores.
    HStore,
    /// `rs1, rs2`: address-translation fences.
    Vma,
    /// `(rs1)`.
    Cbo,
    /// `imm(rs1)` with the low five bits of the immediate clear.
    Prefetch,
    /// `fd, imm(rs1)`.
    FLoad,
    /// `fs2, imm(rs1)`.
    FStore,
    /// `fd, fs1, fs2`.
    F,
    /// `fd, fs1, fs2, rm`.
    FRm,
    /// `fd, fs1, fs2, fs3, rm`.
    F4Rm,
    /// `fd, fs1, rm`.
    FUnaryRm,
    /// `rd, fs1, fs2`: comparisons.
    FCompare,
    /// `rd, fs1`.
    FToX,
    /// `rd, fs1, rm`.
    FToXRm,
    /// `fd, rs1`.
    XToF,
    /// `fd, rs1, rm`.
    XToFRm,
}

/// Class of an operation for the cost model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CostClass {
    /// Integer arithmetic, logic and hints.
    Simple,
    /// Integer multiplication.
    Mul,
    /// Integer division and remainder.
    Div,
    /// Floating-point computation other than [`CostClass::FpDiv`].
    Fp,
    /// Floating-point division and square root.
    FpDiv,
    /// Loads, hypervisor loads included.
    Load,
    /// Stores, hypervisor stores included.
    Store,
    /// Atomics, `lr` and `sc` included.
    Amo,
    /// Conditional branches.
    Branch,
    /// `jal` and `jalr`.
    Jump,
    /// CSR instructions.
    Csr,
    /// Environment calls, returns from traps, waits, and illegal instructions.
    System,
    /// Memory, instruction and address-translation fences; `pause`.
    Fence,
    /// Cache-block operations and prefetches.
    Cbo,
}

/// Extension that an operation belongs to.
///
/// C is not here because compressed instructions decode to base operations: gate it by
/// `len == 2`. Hints (`pause`, the prefetches) count as [`Ext::I`] because a hart without
/// Zihintpause or Zicbop executes them as the `fence` or `ori` they are encoded as.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ext {
    /// Base integer instructions, hints, `mret` and `wfi`.
    I,
    /// Multiplication and division.
    M,
    /// Atomics.
    A,
    /// Single-precision floating point.
    F,
    /// Double-precision floating point.
    D,
    /// CSR instructions.
    Zicsr,
    /// `fence.i`.
    Zifencei,
    /// Address generation.
    Zba,
    /// Basic bit manipulation.
    Zbb,
    /// Single-bit instructions.
    Zbs,
    /// Cache-block management.
    Zicbom,
    /// Cache-block zero.
    Zicboz,
    /// Integer conditional operations.
    Zicond,
    /// Wait on reservation set.
    Zawrs,
    /// Fine-grained address-translation cache invalidation. Of its instructions, the `hinval` ones
    /// need H as well.
    Svinval,
    /// Hypervisor.
    H,
    /// Supervisor mode: `sret`, `sfence.vma`.
    S,
}

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
