//! One RISC-V hart with the hypervisor extension.
//!
//! ```text
//! run ── attend: interrupts, deadlines, WFI          (run.rs)
//!  └── find block: fetch TLB, CodeCache              (block.rs)
//!       └── exec: one instruction after the other    (interp/)
//!            ├── TLB hit: load/store in RAM
//!            ├── miss: walk, PMP, misaligned, bus     (access.rs, translate.rs, pmp.rs, tlb.rs)
//!            ├── CSR                                  (csr/)
//!            └── trap                                 (trap.rs)
//! ```
//!
//! A hart knows RAM and the trait [`platform::Platform`], and no device.

mod access;
pub mod activity;
mod block;
mod code_pages;
mod code_tables;
mod compile;
mod config;
mod csr;
mod fpu;
mod huge;
mod interp;
mod memory_access;
mod native;
mod noted_timer;
pub mod platform;
mod pmp;
mod prefault;
mod ram;
mod run;
mod snapshot;
mod state;
mod statistics;
mod tlb;
mod translate;
mod trap;
mod writers;

pub use activity::{Activity, Meter};
pub use block::{CodeCache, CodeLimits};
pub use compile::HOT;
pub use config::{CACHE_BLOCK, CostModel, Extensions, HartConfig};
pub use csr::AiaConfig;
pub use memory_access::MemoryAccess;
pub use pmp::Pmp;
pub use ram::{Ram, RamError};
pub use run::{Observer, Stop};
pub use snapshot::Snapshot;
pub use statistics::{CodeStatistics, HartStatistics};

use trapless_isa::Mode;
use trapless_isa::csr::status;
use trapless_isa::port::Lines;
use trapless_jit::Context;
use trapless_ledger::event::Guest;

use state::Csrs;
use tlb::Tlb;

/// An instruction raised an exception; [`Hart::syndrome`] tells which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault;

/// What an exception will write to the trap CSRs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syndrome {
    pub cause: u64,
    pub tval: u64,
    /// `tval` is a guest virtual address.
    pub gva: bool,
    /// Guest physical address of a guest-page fault.
    pub gpa: u64,
    /// `htinst`/`mtinst`.
    pub tinst: u64,
    /// Instruction bits for the ledger.
    pub insn: u32,
}

/// One hart.
#[repr(C)]
pub struct Hart {
    /// First: compiled code and its helpers have pointers to both.
    pub(crate) state: Context,
    pub(crate) native: native::Native,
    /// See [`Hart::hfences`].
    pub(crate) hfences: u64,
    /// `cycles` at which the present slice ends.
    pub(crate) slice_end: u64,
    pub(crate) mode: Mode,
    pub(crate) data_mode: Mode,
    pub(crate) csr: Csrs,
    pub(crate) tlb: Tlb,
    pub(crate) jumps: interp::JumpCache,
    /// [`code_pages::CodePages::version`] that the TLB is up to date with.
    pub(crate) code_version: u32,
    /// [`CodeCache::changes`] that the jump cache is up to date with.
    pub(crate) code_changes: u64,
    pub(crate) ram: Ram,
    pub(crate) config: HartConfig,
    pub(crate) id: usize,
    pub(crate) syndrome: Syndrome,
    /// Inputs as last read from the platform.
    pub(crate) lines: Lines,
    pub(crate) lines_stale: bool,
    /// Virtual time in cycles at which `stimecmp` and `vstimecmp` fire; 0 if that is past, and
    /// `u64::MAX` if they are off or never do.
    pub(crate) timer_at: [u64; 2],
    pub(crate) waiting: bool,
    pub(crate) wait_reported: bool,
    /// A `wrs` instruction gives up the rest of the quantum.
    pub(crate) stalled: bool,
    pub(crate) fence_i: bool,
    /// The interrupt architecture wants to know of mode changes.
    pub(crate) watched: bool,
    /// [`Platform::sums_timer_sets`](platform::Platform::sums_timer_sets).
    pub(crate) sums: bool,
    /// Where an observer stopped inside a block: program counter and instructions left of the block.
    pub(crate) cut: Option<(u64, usize)>,
    /// Price of the block under way behind the current instruction; kept for observers only.
    pub(crate) ahead: u64,
    /// A debugger translates: no permission checks, nothing remembered.
    pub(crate) probing: bool,
    pub(crate) meter: Meter,
    pub(crate) counts: HartStatistics,
}

impl Hart {
    /// A hart after reset: M-mode, at `config.reset_pc`, with `a0` = `id`.
    pub fn new(id: usize, config: HartConfig, ram: Ram) -> Self {
        let mut hart = Self {
            state: Context::default(),
            native: native::Native::default(),
            hfences: 0,
            slice_end: 0,
            mode: Mode::M,
            data_mode: Mode::M,
            csr: Csrs::new(),
            tlb: Tlb::new((ram.size() / 4096) as usize),
            jumps: interp::JumpCache::new(),
            code_version: 0,
            code_changes: 0,
            ram,
            config,
            id,
            syndrome: Syndrome::default(),
            lines: Lines::default(),
            lines_stale: true,
            timer_at: [u64::MAX; 2],
            waiting: false,
            wait_reported: false,
            stalled: false,
            fence_i: false,
            watched: false,
            sums: false,
            cut: None,
            ahead: 0,
            probing: false,
            meter: Meter::default(),
            counts: HartStatistics::default(),
        };
        hart.state.pc = hart.config.reset_pc;
        hart.state.x[10] = id as u64;
        if hart.has_aia() {
            // Interrupts beside `mip` are all enabled: `vsip` holds what is both pending and enabled.
            hart.state.interrupts.vsie = u64::MAX;
        }
        hart.select_contexts();
        hart
    }

    /// Hart id.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Lets the hart tell `meter` what it does.
    pub fn set_meter(&mut self, meter: &Meter) {
        self.meter = meter.clone();
    }

    /// Local virtual time in cycles.
    pub fn now(&self) -> u64 {
        self.state.cycles
    }

    /// For observers: virtual time in cycles at the end of the instruction under way, while
    /// [`now`](Self::now) has the price of the whole block in it.
    pub fn instruction_time(&self) -> u64 {
        self.state.cycles - self.ahead
    }

    /// Moves an idle hart's local time forward to `cycles`; never backward.
    pub fn advance_to(&mut self, cycles: u64) {
        self.state.cycles = self.state.cycles.max(cycles);
    }

    /// Instructions retired since reset.
    pub fn instret(&self) -> u64 {
        self.state.instret
    }

    /// `HFENCE` and `HINVAL` instructions executed since reset, of both stages.
    pub fn hfences(&self) -> u64 {
        self.hfences
    }

    /// Whether the hart waits in WFI.
    pub fn waiting(&self) -> bool {
        self.waiting
    }

    /// Earliest virtual time in cycles at which this hart's own comparators or its last known
    /// [`Lines::deadline`] can end its wait; `u64::MAX` if only an outside event can.
    pub fn wake_time(&self) -> u64 {
        self.timer_deadline().min(self.lines.deadline)
    }

    /// Current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Program counter.
    pub fn pc(&self) -> u64 {
        self.state.pc
    }

    /// Sets the program counter; for loaders and debuggers. Elsewhere than in its `wfi` a hart does
    /// not wait.
    pub fn set_pc(&mut self, pc: u64) {
        let pc = pc & self.pc_mask();
        self.waiting &= pc == self.state.pc;
        self.state.pc = pc;
    }

    /// Integer register `index` (0..=31).
    pub fn x(&self, index: usize) -> u64 {
        if index == 0 {
            0
        } else {
            self.state.x[index & 31]
        }
    }

    /// Sets integer register `index` (1..=31); writes of `x0` are ignored.
    pub fn set_x(&mut self, index: usize, value: u64) {
        if index & 31 != 0 {
            self.state.x[index & 31] = value;
        }
    }

    /// Raw bits of floating-point register `index` (0..=31).
    pub fn f(&self, index: usize) -> u64 {
        self.state.f[index & 31]
    }

    /// Sets the raw bits of floating-point register `index`.
    pub fn set_f(&mut self, index: usize, value: u64) {
        self.state.f[index & 31] = value;
    }

    /// What the hart is.
    pub fn config(&self) -> &HartConfig {
        &self.config
    }

    /// `hgatp.VMID`.
    pub(crate) fn vmid(&self) -> u16 {
        (self.csr.hgatp >> 44) as u16 & 0x3FFF
    }

    /// Identity of the guest context for the ledger.
    pub(crate) fn guest(&self) -> Guest {
        Guest {
            vmid: self.vmid(),
            context: self.csr.s[0].scratch,
        }
    }

    /// Makes the hart look up at the end of the current block.
    #[inline]
    pub(crate) fn attention(&mut self) {
        self.state.limit = 0;
    }

    /// Makes the hart look up at the end of the current block if an interrupt can be taken now.
    #[inline]
    pub(crate) fn recheck(&mut self) {
        if self.enabled_pending() && self.pending_interrupt().is_some() {
            self.attention();
        }
    }

    /// Whether something pending is enabled, whatever the mode: what ends WFI (section 3.3.3).
    #[inline]
    pub(crate) fn enabled_pending(&self) -> bool {
        self.state.interrupts.enabled_pending()
    }

    /// The platform may have changed this hart's interrupt inputs.
    pub(crate) fn lines_changed(&mut self) {
        self.lines_stale = true;
        self.attention();
    }

    /// Whether floating-point instructions are legal: FS on in every status register that counts.
    #[inline]
    pub(crate) fn fp_enabled(&self) -> bool {
        self.csr.mstatus & status::FS != 0
            && (!self.mode.v() || self.csr.vsstatus & status::FS != 0)
    }

    /// Marks the floating-point state dirty.
    #[inline]
    pub(crate) fn fp_dirty(&mut self) {
        self.csr.mstatus |= status::FS;
        if self.mode.v() {
            self.csr.vsstatus |= status::FS;
        }
    }
}
