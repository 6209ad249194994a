//! Classes of operations: operands and cost.

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

impl Format {
    /// Which of `rd`, `rs1` and `rs2` are integer registers.
    pub const fn integers(self) -> [bool; 3] {
        match self {
            Self::None | Self::Fence => [false; 3],
            Self::R | Self::Amo => [true; 3],
            Self::Unary
            | Self::I
            | Self::Shift
            | Self::ShiftW
            | Self::Load
            | Self::Csr
            | Self::LoadReserved
            | Self::HLoad => [true, true, false],
            Self::Store | Self::Branch | Self::HStore | Self::Vma => [false, true, true],
            Self::U | Self::J | Self::CsrImm | Self::FCompare | Self::FToX | Self::FToXRm => {
                [true, false, false]
            }
            Self::Cbo | Self::Prefetch | Self::FLoad | Self::FStore | Self::XToF | Self::XToFRm => {
                [false, true, false]
            }
            Self::F | Self::FRm | Self::F4Rm | Self::FUnaryRm => [false; 3],
        }
    }
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
