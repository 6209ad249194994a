//! The run loop: blocks until something outside them needs attention.

use std::sync::Arc;

use trapless_isa::inst::Inst;
use trapless_ledger::event::{Event, Raise, Wait};

use crate::code::CodeCache;
use crate::csr::interrupts::VS_BITS;
use crate::hart::Hart;
use crate::observe::Triggers;
use crate::observe::activity::Activity;
use crate::platform::Platform;

/// Why [`Hart::run`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Local time reached the end of the slice.
    Quantum,
    /// The hart waits in WFI with nothing pending.
    Wfi,
    /// [`Platform::stop_requested`].
    Requested,
    /// The observer asked to stop before the instruction at `pc`.
    Observer,
}

/// Observer of single instructions, for logs and debuggers. It must not change the hart.
pub trait Observer {
    /// Called before each instruction; `false` stops the run with the instruction not executed.
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        let _ = (hart, pc, inst);
        true
    }

    /// Triggers that select the instructions to observe; the run is then as fast as without an
    /// observer, except accesses to pages with a [data trigger](crate::DataTrigger). Others may be
    /// observed, too. `None`: all. An unchanged set must be the same [`Arc`], else compiled code is
    /// lost each time.
    fn triggers(&self) -> Option<&Arc<Triggers>> {
        None
    }

    /// Called after each instruction that did not trap.
    fn after(&mut self, hart: &Hart, pc: u64, inst: &Inst) {
        let _ = (hart, pc, inst);
    }
}

impl Hart {
    /// Runs until local time reaches `until` (cycles), or something stops it first. Time may pass
    /// `until` by the length of a block.
    pub fn run(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
        observer: Option<&mut dyn Observer>,
    ) -> Stop {
        self.inputs.begin(self.id, plat);
        if self.only_time_passed(plat) {
            self.turn.end = until;
            self.set_limit();
        } else {
            self.attention();
            self.code.forget_kept();
        }
        self.catch_up(code);
        self.watch.meter.set(Activity::Interpreted);
        // A block that an observer stopped is completed before anything that happens at block ends.
        let left = self.turn.take_cut(self.state.pc);
        match observer {
            None => {
                self.set_triggers(None, code);
                if left != 0 {
                    self.code.forget_kept();
                    let _ = self.resume_block::<false>(code, plat, &mut NoObserver, left);
                }
                loop {
                    if let Some(stop) = self.run_unobserved::<false>(code, plat, until) {
                        return stop;
                    }
                }
            }
            Some(observer) => {
                self.code.forget_kept();
                if left != 0
                    && self
                        .resume_block::<true>(code, plat, observer, left)
                        .is_break()
                {
                    return Stop::Observer;
                }
                if let Some(triggers) = observer.triggers() {
                    self.set_triggers(Some(triggers), code);
                    return self.run_triggered(code, plat, until, observer);
                }
                loop {
                    if self.state.cycles >= self.state.limit {
                        if let Some(stop) = self.attend(code, plat, until) {
                            return stop;
                        }
                    }
                    if self.step_block::<true>(code, plat, observer).is_break() {
                        return Stop::Observer;
                    }
                }
            }
        }
    }

    /// Runs without an observer; `None`: before an instruction that matches a trigger, or a block
    /// that may have one. Without `TRIGGERS` there are none.
    pub(crate) fn run_unobserved<const TRIGGERS: bool>(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Option<Stop> {
        if code.compiled().is_some() {
            return self.run_compiled(code, plat, until);
        }
        loop {
            if self.state.cycles >= self.state.limit {
                if self.triggers.paused() {
                    return None;
                }
                let stop = self.attend(code, plat, until);
                if stop.is_some() {
                    return stop;
                }
            }
            if TRIGGERS && self.trigger_ahead(code) {
                return None;
            }
            let _ = self.step_block::<false>(code, plat, &mut NoObserver);
        }
    }

    /// Attends between blocks to fences, inputs, waits and interrupts, until none is left to be
    /// taken, and sets the next limit, which is later than now unless the hart stops.
    #[cold]
    pub(crate) fn attend(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Option<Stop> {
        if self.state.cycles >= until && self.only_time_passed(plat) {
            return Some(Stop::Quantum);
        }
        loop {
            let before = self.watch.meter.enter(Activity::Trap);
            let stop = self.attend_once(code, plat, until);
            self.watch.meter.leave(before);
            // Taking an interrupt has its price, too.
            if stop.is_some() || self.state.cycles < self.state.limit {
                return stop;
            }
        }
    }

    fn attend_once(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Option<Stop> {
        if self.turn.take_compare_code() {
            code.compare(&self.ram);
            self.forget_changed_code(code);
        }
        if let Some(limit) = self.turn.take_stall() {
            // Only the end of the turn, or a timer of its own, can end the wait of a `wrs`.
            let end = until.min(self.wake_time());
            let cycles = end.saturating_sub(self.state.cycles).min(limit);
            self.state.cycles += cycles;
            self.turn.gave_up(cycles);
        }
        self.refresh(plat);
        // Done even if the hart stops: the platform does not report this change again.
        self.turn.waiting &= !self.state.interrupts.enabled_pending();
        if plat.stop_requested() {
            return Some(Stop::Requested);
        }
        if self.turn.wait_changed() {
            self.record_wait(plat, self.turn.waiting);
        }
        if self.turn.waiting {
            return Some(Stop::Wfi);
        }
        if self.state.cycles >= until {
            return Some(Stop::Quantum);
        }
        if let Some((irq, to)) = self.pending_interrupt() {
            let irq = if self.has_aia() {
                self.aia_choice(to, plat)
            } else {
                irq
            };
            self.take_interrupt(irq, to, plat);
            // The new mode may unmask another interrupt, and one may have become pending meanwhile.
            self.attention();
            return None;
        }
        if self.context_due() {
            self.enter_context(plat);
            return None;
        }
        self.turn.end = until;
        self.set_limit();
        None
    }

    /// Whether there is nothing to attend to after a turn, or before the next one: its end was the
    /// limit, and all that is known of inputs and interrupts still holds. Most turns of machines
    /// with many harts are such.
    #[inline]
    fn only_time_passed(&self, plat: &dyn Platform) -> bool {
        let passed = self.state.limit == self.turn.end
            && self.state.cycles < self.turn.inputs_change
            && !self.inputs.are_outdated(self.state.cycles)
            && self.pending_interrupt().is_none()
            && !self.context_due()
            && !plat.stop_requested();
        debug_assert!(
            !passed || self.mip_value() & !self.state.interrupts.mip == 0,
            "what makes an interrupt pending asks for attention"
        );
        passed
    }

    /// Updates caches after changes of code by other harts, devices and the code cache.
    #[inline]
    pub(crate) fn catch_up(&mut self, code: &CodeCache) {
        self.code.note_stores(&self.ram, &mut self.tlb);
        self.forget_changed_code(code);
    }

    /// Drops blocks and tables that the code cache has dropped.
    #[inline]
    fn forget_changed_code(&mut self, code: &CodeCache) {
        self.renew_tables(code);
        self.code.forget_changed(code, &self.ram);
    }

    /// Points entries of the fetch TLB to the empty table if tables of code were assigned to other
    /// pages.
    #[inline]
    pub(crate) fn renew_tables(&mut self, code: &CodeCache) {
        if let Some(base) = self.code.renew_tables(code, &mut self.tlb) {
            self.state.base = base;
        }
    }

    /// Updates `mip`.
    pub(crate) fn refresh(&mut self, plat: &mut dyn Platform) {
        if self.inputs.update(self.id, self.state.cycles, plat) {
            let lines = self.inputs.lines();
            self.csr.mip |= lines.pulse;
            if lines.split && !self.mode.v() && !self.handles(self.mode) {
                self.csr.host_pending |= lines.arrived & VS_BITS;
            }
        }
        let (mip, seen) = (self.mip_value(), self.raised());
        self.state.interrupts.mip = mip;
        self.state.interrupts.vsip = if self.inputs.lines().split {
            self.vsip_value()
        } else {
            self.aia_extra()
        };
        let mut rising = self.raised() & !seen;
        while rising != 0 {
            let irq = rising.trailing_zeros() as u8;
            rising &= rising - 1;
            plat.record(&Event::Raise(Raise {
                time: self.state.cycles,
                hart: self.id,
                irq,
                guest: self.guest(),
            }));
        }
    }

    /// Pending interrupts, with the guest's view of VS-level interrupts.
    fn raised(&self) -> u64 {
        if self.inputs.lines().split {
            self.state.interrupts.mip & !VS_BITS | self.state.interrupts.vsip
        } else {
            self.state.interrupts.mip
        }
    }

    fn record_wait(&self, plat: &mut dyn Platform, begin: bool) {
        plat.record(&Event::Wait(Wait {
            time: self.state.cycles,
            hart: self.id,
            mode: self.mode,
            begin,
        }));
    }

    /// VS-level bits of `mip`, for tests of interrupt architectures.
    pub fn hip(&self) -> u64 {
        self.raised() & VS_BITS
    }
}

/// An observer that does nothing.
pub(crate) struct NoObserver;
impl Observer for NoObserver {}
