//! Runs at full speed that show an observer only what matches its triggers.
//!
//! ```text
//! run_triggered ── run_unobserved            either engine, without a check per instruction
//!  │                ├── access to a marked page: the slow path compares it with the triggers,
//!  │                │   and leaves the block before the instruction: paused
//!  │                └── block with a triggering address: never compiled, left to the observer
//!  └── exec::<true> of the rest of that block, with the observer
//! ```
//!
//! A block that is left is completed from the same instructions at the same price, so that nothing
//! of the machine depends on triggers.

use std::ops::ControlFlow;
use std::sync::Arc;

use trapless_isa::inst::Inst;
use trapless_isa::page::page_offset;

use crate::code::{CodeCache, MAX_BLOCK};
use crate::config::CostModel;
use crate::engine::run::{Observer, Stop};
use crate::hart::Hart;
use crate::memory::tlb::Marks;
use crate::observe::{MemoryAccess, Triggers};
use crate::platform::Platform;
use crate::syndrome::Fault;

/// Maximum length of a block in bytes.
const BLOCK: u64 = 4 * MAX_BLOCK as u64;

impl Hart {
    /// Whether an instruction of the block at the program counter may have a triggering address.
    /// `false` if it cannot be fetched.
    #[inline]
    pub(crate) fn trigger_ahead(&mut self, code: &mut CodeCache) -> bool {
        self.triggers.ahead(self.state.pc, BLOCK) && self.trigger_in_block(code)
    }

    /// The block itself: one that only comes before a trigger may be compiled.
    #[cold]
    fn trigger_in_block(&mut self, code: &mut CodeCache) -> bool {
        let len = match self.lookup(code) {
            Ok(Some(index)) => code.bytes(index),
            // A single instruction.
            Ok(None) => 1,
            Err(Fault) => return false,
        };
        self.triggers.ahead(self.state.pc, len.into())
    }

    /// Compares an access that is about to be made with the triggers. `Err` leaves the instruction.
    #[inline]
    pub(crate) fn trigger(
        &mut self,
        addr: u64,
        len: u64,
        load: bool,
        store: bool,
    ) -> Result<(), Fault> {
        if !self.triggers.armed {
            return Ok(());
        }
        let access = MemoryAccess {
            addr,
            len,
            load,
            store,
            value: 0,
        };
        self.triggers.hit = self.triggers.touched(&access);
        if self.triggers.hit {
            Err(Fault)
        } else {
            Ok(())
        }
    }

    /// The first instruction of `rest` has not been executed. If it matches a trigger, refunds the
    /// charge for all of them and leaves the engine; else returns `false`: it traps.
    pub(crate) fn pause(&mut self, rest: &[Inst], pc: u64, cost: &CostModel) -> bool {
        if !self.triggers.armed {
            return false;
        }
        // One that is illegal now matches by what it would access.
        let would = |hart: &Self| hart.memory_access(&rest[0]);
        let hit = std::mem::take(&mut self.triggers.hit);
        if !hit && !would(self).is_some_and(|access| self.triggers.touched(&access)) {
            return false;
        }
        self.uncharge(rest, cost);
        self.state.pc = pc;
        self.triggers.rest.clear();
        self.triggers.rest.extend_from_slice(rest);
        self.triggers.paused = Some(std::mem::replace(&mut self.state.limit, 0));
        true
    }

    /// Replaces the triggers by `triggers`.
    pub(crate) fn set_triggers(&mut self, triggers: Option<&Arc<Triggers>>, code: &mut CodeCache) {
        // Another hart may have had other triggers meanwhile.
        let generation = code.exclude_for(triggers);
        let same = self.triggers.set.as_ref().map(Arc::as_ptr) == triggers.map(Arc::as_ptr);
        if same && (triggers.is_none() || self.triggers.generation == generation) {
            return;
        }
        self.triggers.generation = generation;
        self.triggers.set = triggers.cloned();
        self.triggers.fetched.clear();
        self.tlb.set_marks(Marks::new(triggers));
        let set = triggers.map(|set| set.execute()).unwrap_or_default();
        for &at in set {
            for page in self.tlb.fetched(at, |host| self.ram.page_of(host)) {
                code.exclude(page, page_offset(at) as u16);
            }
        }
    }

    /// Keeps blocks with triggering addresses from being compiled, in pages that were added to the
    /// fetch TLB since the last call. Returns whether there are any.
    #[inline]
    pub(crate) fn exclude_fetched(&mut self, code: &mut CodeCache) -> bool {
        if self.triggers.fetched.is_empty() {
            return false;
        }
        for (va, page) in self.triggers.fetched.drain(..) {
            let set = self.triggers.set.as_ref();
            let addresses = set.map(|set| set.execute_in(va)).unwrap_or_default();
            for at in addresses {
                code.exclude(page, page_offset(*at) as u16);
            }
        }
        true
    }

    /// [`Hart::run`] with an observer of instructions that match one of `triggers`.
    pub(crate) fn run_triggered(
        &mut self,
        code: &mut CodeCache,
        plat: &mut dyn Platform,
        until: u64,
        observer: &mut dyn Observer,
    ) -> Stop {
        loop {
            self.triggers.armed = true;
            let stop = self.run_unobserved::<true>(code, plat, until);
            self.triggers.armed = false;
            if let Some(stop) = stop {
                return stop;
            }
            let flow = match self.triggers.paused.take() {
                Some(limit) => {
                    self.state.limit = limit;
                    self.finish_paused(code, plat, observer)
                }
                None => self.step_block::<true>(code, plat, observer),
            };
            if flow.is_break() {
                return Stop::Observer;
            }
        }
    }

    /// Executes the rest of the block. Breaks if the observer stops it.
    fn finish_paused(
        &mut self,
        code: &CodeCache,
        plat: &mut dyn Platform,
        observer: &mut dyn Observer,
    ) -> ControlFlow<()> {
        let rest = std::mem::take(&mut self.triggers.rest);
        let price = rest.iter().map(|inst| u64::from(code.cost().of(inst.op)));
        self.state.cycles += price.sum::<u64>();
        self.state.instret += rest.len() as u64;
        let flow = self.exec::<true>(&rest, code.cost(), plat, observer);
        self.triggers.rest = rest;
        flow
    }
}
