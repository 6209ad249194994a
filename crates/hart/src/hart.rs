//! The hart: its parts and its public state.

use trapless_isa::cause::exception;
use trapless_isa::csr::status;
use trapless_isa::page::PAGE_SIZE;
use trapless_isa::{Inst, Mode};
use trapless_jit::Context;
use trapless_ledger::event::Guest;

use crate::code::view::CodeView;
use crate::config::HartConfig;
use crate::csr::registers::{Csrs, HpmEvent};
use crate::csr::timers::Timers;
use crate::engine::trigger_state::TriggerState;
use crate::engine::turn::Turn;
use crate::inputs::Inputs;
use crate::memory::ram::Ram;
use crate::memory::tlb::Tlb;
use crate::observe::activity::Meter;
use crate::observe::statistics::HartStatistics;
use crate::observe::watch::Watch;
use crate::syndrome::{Fault, Syndrome};

/// Harts of a machine whose TLBs are all in huge pages of the host. In a machine with more, each
/// but the first is seldom busy, and the host needs longer to find and clear huge pages for all of
/// them than accesses gain by them.
const BUSY_HARTS: usize = 8;

/// One hart.
#[repr(C)]
pub struct Hart {
    /// Registers and other state that compiled code uses. The first field, so that a pointer to it
    /// is a pointer to the hart.
    pub(crate) state: Context,
    /// The other CSRs.
    pub(crate) csr: Csrs,
    pub(crate) mode: Mode,
    /// Mode of explicit loads and stores.
    pub(crate) data_mode: Mode,
    pub(crate) tlb: Tlb,
    pub(crate) code: CodeView,
    pub(crate) ram: Ram,
    pub(crate) config: HartConfig,
    pub(crate) id: usize,
    /// Syndrome of the exception being raised.
    pub(crate) syndrome: Syndrome,
    pub(crate) inputs: Inputs,
    pub(crate) timers: Timers,
    pub(crate) turn: Turn,
    pub(crate) watch: Watch,
    pub(crate) triggers: TriggerState,
}

impl Hart {
    /// A hart after reset: M-mode, at `config.reset_pc`, with `a0` = `id`.
    pub fn new(id: usize, config: HartConfig, ram: Ram) -> Self {
        Self::one_of(1, id, config, ram)
    }

    /// The same, in a machine of `harts` harts.
    pub fn one_of(harts: usize, id: usize, config: HartConfig, ram: Ram) -> Self {
        let busy = id == 0 || harts <= BUSY_HARTS;
        let mut hart = Self {
            state: Context::default(),
            mode: Mode::M,
            data_mode: Mode::M,
            csr: Csrs::new(),
            tlb: Tlb::new(busy, (ram.size() / PAGE_SIZE) as usize),
            code: CodeView::new(),
            ram,
            config,
            id,
            syndrome: Syndrome::default(),
            inputs: Inputs::new(),
            timers: Timers::new(),
            turn: Turn::default(),
            watch: Watch::default(),
            triggers: TriggerState::default(),
        };
        hart.state.pc = hart.config.reset_pc;
        hart.state.x[10] = id as u64;
        // The state after the platform's boot ROM: firmware keeps bits that it does not know.
        hart.csr.mstateen[0] = hart.stateen_custom();
        if hart.has_aia() {
            // Interrupts beside `mip` are all enabled: `vsip` holds what is both pending and
            // enabled.
            hart.state.interrupts.vsie = u64::MAX;
        }
        hart.select_contexts();
        hart
    }

    /// Hart id.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Reports activity to `meter`.
    pub fn set_meter(&mut self, meter: &Meter) {
        self.watch.meter = meter.clone();
    }

    /// Local virtual time in cycles.
    pub fn now(&self) -> u64 {
        self.state.cycles
    }

    /// For observers: virtual time in cycles at the end of the current instruction;
    /// [`now`](Self::now) includes the price of the whole block.
    pub fn instruction_time(&self) -> u64 {
        self.state.cycles - self.watch.ahead
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
        self.watch.hfences
    }

    /// Statistics of this hart's engine.
    #[must_use]
    pub fn statistics(&self) -> HartStatistics {
        HartStatistics {
            guest_exits: self.csr.events[HpmEvent::GuestExit as usize],
            ..self.watch.counts
        }
    }

    /// Whether the hart waits in WFI.
    pub fn waiting(&self) -> bool {
        self.turn.waiting
    }

    /// Whether an observer stopped it inside a block, which [`run`](Self::run) first brings to its
    /// end, however late it is.
    pub fn inside_block(&self) -> bool {
        self.turn.is_cut(self.state.pc)
    }

    /// Earliest virtual time in cycles at which this hart's own comparators or its last known
    /// [`Lines::deadline`](trapless_isa::port::Lines::deadline) can end its wait; `u64::MAX` if
    /// only an outside event can.
    pub fn wake_time(&self) -> u64 {
        self.timers
            .deadline(self.state.cycles)
            .min(self.inputs.lines().deadline)
    }

    /// Current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Program counter.
    pub fn pc(&self) -> u64 {
        self.state.pc
    }

    /// Sets the program counter; for loaders and debuggers. Moving it ends a wait in `wfi`.
    pub fn set_pc(&mut self, pc: u64) {
        let pc = pc & self.pc_mask();
        self.turn.waiting &= pc == self.state.pc;
        self.state.pc = pc;
        self.attention();
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

    /// Configuration of the hart.
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
            context: self.csr.hs.scratch,
        }
    }

    /// Makes the run loop attend at the end of the current block.
    #[inline]
    pub(crate) fn attention(&mut self) {
        self.state.limit = 0;
    }

    /// Makes the run loop attend at the end of the current block if an interrupt can be taken now.
    #[inline]
    pub(crate) fn recheck(&mut self) {
        if self.state.interrupts.enabled_pending()
            && (self.pending_interrupt().is_some() || self.context_due())
        {
            self.attention();
        }
    }

    /// The platform may have changed this hart's interrupt inputs.
    pub(crate) fn lines_changed(&mut self) {
        self.inputs.outdate();
        self.attention();
    }

    /// Whether floating-point instructions are legal: FS is on in every status register that
    /// applies.
    #[inline]
    pub(crate) fn fp_enabled(&self) -> bool {
        // The registers belong to the guest while a user-level handler runs.
        self.csr.mstatus & status::FS != 0
            && (!self.mode.v() || self.csr.vsstatus & status::FS != 0)
            && !self.handles(self.mode)
    }

    /// Marks the floating-point state dirty.
    #[inline]
    pub(crate) fn fp_dirty(&mut self) {
        self.csr.mstatus |= status::FS;
        if self.mode.v() {
            self.csr.vsstatus |= status::FS;
        }
    }

    /// Bits that a program counter can have.
    pub(crate) fn pc_mask(&self) -> u64 {
        if self.config.extensions.c { !1 } else { !3 }
    }

    /// `time` in ticks, as M- and HS-mode see it.
    pub(crate) fn time(&self) -> u64 {
        self.state.cycles / self.config.cycles_per_tick
    }

    /// Raises an exception.
    pub(crate) fn raise<T>(&mut self, syndrome: Syndrome) -> Result<T, Fault> {
        self.syndrome = syndrome;
        Err(Fault)
    }

    /// Raises an exception with an address in `xtval`, of an access with the rights of `mode`.
    pub(crate) fn fault<T>(&mut self, cause: u64, tval: u64, mode: Mode) -> Result<T, Fault> {
        self.raise(Syndrome::at(cause, tval, mode))
    }

    /// Raises an illegal-instruction exception.
    #[cold]
    pub(crate) fn illegal<T>(&mut self, inst: &Inst) -> Result<T, Fault> {
        self.raise(Syndrome::instruction(exception::ILLEGAL, inst))
    }

    /// Raises a virtual-instruction exception.
    #[cold]
    pub(crate) fn virtual_instruction<T>(&mut self, inst: &Inst) -> Result<T, Fault> {
        self.raise(Syndrome::instruction(exception::VIRTUAL_INSTRUCTION, inst))
    }
}
