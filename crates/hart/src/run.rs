//! The run loop: blocks until something outside them needs attention.

use trapless_isa::inst::Inst;
use trapless_ledger::event::{Event, Raise};

use crate::block::{Change, CodeCache};
use crate::platform::Platform;
use crate::{Activity, Hart, csr};

/// Why [`Hart::run`] came back.
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

/// Watches single instructions: logs, debuggers. It must not change the hart.
pub trait Observer {
    /// Called before each instruction; `false` stops the run with the instruction not executed.
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        let _ = (hart, pc, inst);
        true
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
        self.watched = plat.wants_mode_changes();
        self.sums = plat.sums_timer_sets();
        self.lines_stale |= plat.lines_changed(self.id);
        self.attention();
        self.note_stores();
        self.forget_changed_code(code);
        self.meter.set(Activity::Interpreted);
        // The rest of a block that an observer stopped in comes before anything a block end brings.
        let left = match self.cut.take() {
            Some((pc, left)) if pc == self.state.pc => left,
            _ => 0,
        };
        match observer {
            None => {
                if left != 0 {
                    self.resume_block::<false>(code, plat, &mut NoObserver, left);
                }
                if code.compiled().is_some() {
                    return self.run_compiled(code, plat, until);
                }
                loop {
                    if self.state.cycles >= self.state.limit {
                        if let Some(stop) = self.attend(code, plat, until) {
                            return stop;
                        }
                    }
                    self.step_block::<false>(code, plat, &mut NoObserver);
                }
            }
            Some(observer) => {
                if left != 0 && !self.resume_block::<true>(code, plat, observer, left) {
                    return Stop::Observer;
                }
                loop {
                    if self.state.cycles >= self.state.limit {
                        if let Some(stop) = self.attend(code, plat, until) {
                            return stop;
                        }
                    }
                    if !self.step_block::<true>(code, plat, observer) {
                        return Stop::Observer;
                    }
                }
            }
        }
    }

    /// Between blocks: fences, inputs, waits, interrupts; sets the next [`Hart::limit`], which is later
    /// than now unless the hart stops.
    #[cold]
    pub(crate) fn attend(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
    ) -> Option<Stop> {
        loop {
            let before = self.meter.enter(Activity::Trap);
            let stop = self.attend_once(code, plat, until);
            self.meter.leave(before);
            // An interrupt taken has its price, too.
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
        if self.fence_i {
            self.fence_i = false;
            code.fence_i(&self.ram);
            self.forget_changed_code(code);
        }
        if self.stalled {
            self.stalled = false;
            // Only the end of the turn, or a timer of its own, can end what it waits for.
            self.state.cycles = self.state.cycles.max(until.min(self.wake_time()));
        }
        self.refresh(plat);
        // Also if it stops: nobody will tell it again of what is pending now.
        self.waiting &= !self.enabled_pending();
        if plat.stop_requested() {
            return Some(Stop::Requested);
        }
        if self.waiting {
            if !self.wait_reported {
                self.wait_reported = true;
                self.record_wait(plat, true);
            }
            return Some(Stop::Wfi);
        }
        if self.wait_reported {
            self.wait_reported = false;
            self.record_wait(plat, false);
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
            // The new mode may be watched, and may unmask another interrupt.
            self.refresh(plat);
        }
        self.slice_end = until;
        self.state.limit = self.next_look();
        None
    }

    /// Forgets where the blocks of pages were that have changed since the last look.
    #[inline]
    pub(crate) fn forget_changed_code(&mut self, code: &CodeCache) {
        self.renew_tables(code);
        if code.changes() != self.code_changes {
            self.forget_pages(code.changed_since(self.code_changes));
            self.code_changes = code.changes();
        }
    }

    #[cold]
    fn forget_pages(&mut self, changes: Option<&[Change]>) {
        let Some(changes) = changes else {
            self.jumps.forget_all();
            return;
        };
        let ram = &self.ram;
        for change in changes {
            let page = ram.host(ram.base() + u64::from(change.page) * 4096);
            self.jumps.forget(&change.offsets, page);
        }
    }

    /// Lets stores to pages that hold code since the last look take the slow path.
    #[inline]
    pub(crate) fn note_stores(&mut self) {
        let version = self.ram.code_pages().version();
        if version != self.code_version {
            let ram = &self.ram;
            let pages = ram.code_pages().added_since(self.code_version);
            self.code_version = version;
            let holds_code = |page: usize| ram.code_pages().holds_code(page);
            let code = |host| ram.holds(host) && holds_code(ram.page_of(host));
            self.tlb.note_stores(pages.as_deref(), holds_code, code);
        }
    }

    /// Brings [`Hart::mip`] up to date.
    fn refresh(&mut self, plat: &mut dyn Platform) {
        if self.lines_stale || self.state.cycles >= self.lines.deadline {
            self.lines_stale = false;
            self.lines = plat.lines(self.id, self.state.cycles);
            self.csr.mip |= self.lines.pulse;
            if self.lines.split && !self.mode.v() {
                self.csr.host_pending |= self.lines.arrived & csr::interrupts::VS_BITS;
            }
        }
        let (mip, seen) = (self.mip_value(), self.raised());
        self.state.interrupts.mip = mip;
        self.state.interrupts.vsip = if self.lines.split {
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

    /// What is pending, with the guest's view of VS-level interrupts.
    fn raised(&self) -> u64 {
        if self.lines.split {
            self.state.interrupts.mip & !csr::interrupts::VS_BITS | self.state.interrupts.vsip
        } else {
            self.state.interrupts.mip
        }
    }

    fn record_wait(&self, plat: &mut dyn Platform, begin: bool) {
        plat.record(&Event::Wait {
            time: self.state.cycles,
            hart: self.id,
            mode: self.mode,
            begin,
        });
    }

    /// VS-level bits of `mip`, for tests of interrupt architectures.
    pub fn hip(&self) -> u64 {
        self.raised() & csr::interrupts::VS_BITS
    }
}

/// Stands in where nobody watches.
pub(crate) struct NoObserver;
impl Observer for NoObserver {}
