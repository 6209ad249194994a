//! Configuration of a hart: extensions, options and the cost model.

use serde::{Deserialize, Serialize};

use trapless_isa::Extensions;
use trapless_isa::inst::{CostClass, Op};

/// Price of each kind of work in cycles. See `crates/machine/src/config/cost.toml` for default
/// figures and their sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostModel {
    /// Integer ALU instruction.
    pub simple: u32,
    /// Multiplication.
    pub mul: u32,
    /// Division or remainder.
    pub div: u32,
    /// Floating-point operation other than division and square root.
    pub fp: u32,
    /// Floating-point division or square root.
    pub fp_div: u32,
    /// Load that hits the TLB.
    pub load: u32,
    /// Store that hits the TLB.
    pub store: u32,
    /// Atomic memory operation, LR and SC.
    pub amo: u32,
    /// Conditional branch.
    pub branch: u32,
    /// Unconditional jump.
    pub jump: u32,
    /// CSR access.
    pub csr: u32,
    /// Other system instruction (`ecall`, `wfi`, ...), without the trap it may cause.
    pub system: u32,
    /// `fence`, `fence.i`, and address-translation fences.
    pub fence: u32,
    /// Cache-block operation.
    pub cbo: u32,
    /// Trap entry, on top of the instruction it replaces.
    pub trap: u32,
    /// Trap return, on top of the instruction.
    pub xret: u32,
    /// One page-table entry read or written by a walk.
    pub walk_step: u32,
    /// Access outside RAM, on top of the instruction.
    pub device: u32,
}

impl Default for CostModel {
    /// One cycle for everything a pipeline retires each cycle: for tests and `exec` without a
    /// machine.
    fn default() -> Self {
        Self {
            simple: 1,
            mul: 1,
            div: 1,
            fp: 1,
            fp_div: 1,
            load: 1,
            store: 1,
            amo: 1,
            branch: 1,
            jump: 1,
            csr: 1,
            system: 1,
            fence: 1,
            cbo: 1,
            trap: 0,
            xret: 0,
            walk_step: 0,
            device: 0,
        }
    }
}

impl CostModel {
    /// Static price of an operation.
    pub(crate) fn of(&self, op: Op) -> u32 {
        match op.class() {
            CostClass::Simple => self.simple,
            CostClass::Mul => self.mul,
            CostClass::Div => self.div,
            CostClass::Fp => self.fp,
            CostClass::FpDiv => self.fp_div,
            CostClass::Load => self.load,
            CostClass::Store => self.store,
            CostClass::Amo => self.amo,
            CostClass::Branch => self.branch,
            CostClass::Jump => self.jump,
            CostClass::Csr => self.csr,
            CostClass::System => self.system,
            CostClass::Fence => self.fence,
            CostClass::Cbo => self.cbo,
        }
    }
}

/// Size in bytes of the blocks of Zicbom and Zicboz.
pub const CACHE_BLOCK: u64 = trapless_jit::CACHE_BLOCK;

/// Smaia and Ssaia of a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AiaConfig {
    /// GEILEN: guest interrupt files, 0..=63.
    pub guests: u8,
}

/// Configuration of one hart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HartConfig {
    /// Extensions.
    pub extensions: Extensions,
    /// Whether misaligned loads and stores to RAM work; otherwise they trap.
    pub misaligned: bool,
    /// Interrupt numbers from 16 up (bits as in `mip`) that are always delegated: read-only one in
    /// `mideleg`.
    pub supervisor_interrupts: u64,
    /// Whether the interrupt architecture has custom CSRs, so that bit C of the state-enable
    /// registers exists.
    #[serde(default)]
    pub custom_csrs: bool,
    /// Smaia and Ssaia, if the hart has them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aia: Option<AiaConfig>,
    /// Cycles per tick of `time`.
    pub cycles_per_tick: u64,
    /// Price list.
    pub cost: CostModel,
    /// Address of the first instruction after reset.
    pub reset_pc: u64,
}

impl HartConfig {
    /// Bit C of the state-enable registers exists: there are custom CSRs to withhold.
    pub(crate) fn has_custom_state(&self) -> bool {
        self.extensions.smstateen && (self.custom_csrs || self.extensions.xuer)
    }
}

impl Default for HartConfig {
    fn default() -> Self {
        Self {
            extensions: Extensions::default(),
            misaligned: true,
            supervisor_interrupts: 0,
            custom_csrs: false,
            aia: None,
            cycles_per_tick: 100,
            cost: CostModel::default(),
            reset_pc: 0x1000,
        }
    }
}
