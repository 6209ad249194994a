//! User contexts (Xhcs): events for handlers in user mode that interrupt guests, in an address
//! space of their own.
//!
//! `N` of a context is a token: whoever sets it tells a hart, by its queue; whoever takes the entry
//! out of the queue has the token, and clears `N` when the handler has ended.

use trapless_isa::haiov::{context, event, hucontext, hucsave, save};
use trapless_isa::port::{Exchanged, StepKind};

use super::hart::Hart;
use super::operation::Operation;
use crate::words::field;

/// Marks an entry of a queue as the address of a context.
const ENTRY: u64 = 1 << 63;

/// A handler is about to run.
pub(super) struct Entered {
    /// Bits of `PENDING`.
    pub pending: u64,
    /// `hgrant` while it runs.
    pub grant: u64,
}

/// The context that an entry of a queue names; `None` if it is an event for HS-mode.
pub(super) fn named(word: u64) -> Option<u64> {
    (word & ENTRY != 0).then_some(word & hucontext::ADDRESS)
}

impl Hart {
    /// The context that comes next and can interrupt a guest here.
    pub fn next_context(&self, now: u64) -> Option<u64> {
        let possible = self.save & hucsave::V != 0 && self.context == 0;
        let named = self.next.filter(|_| possible).and_then(named);
        named.filter(|_| !self.share.is_full(now))
    }
}

impl Operation<'_> {
    /// Posts to the context that an entry of an event table names.
    pub fn post_to_context(
        &mut self,
        target: u64,
        ctl: u64,
        posted: impl FnOnce(bool) -> StepKind,
    ) {
        let at = target & event::TARGET_ADDRESS;
        let vector = 1 << field(ctl, event::CTL_VECTOR, event::CTL_VECTOR_SHIFT);
        let old = self
            .words
            .update(at, context::PENDING, |pending| pending | vector);
        let Some(old) = old else { return };
        self.step(posted(old & vector != 0));
        self.tell_context(at);
    }

    /// Tells the hart that a context names, if nobody has been told.
    fn tell_context(&mut self, at: u64) {
        let tells =
            |ctl: u64| ctl & (context::CTL_V | context::CTL_M | context::CTL_N) == context::CTL_V;
        let old = self.words.update(at, context::CTL, |ctl| {
            if tells(ctl) {
                ctl | context::CTL_N
            } else {
                ctl
            }
        });
        let Some(ctl) = old.filter(|ctl| tells(*ctl)) else {
            return;
        };
        let to = if ctl & context::CTL_OWN != 0 {
            self.by.hart
        } else {
            field(ctl, context::CTL_HART, context::CTL_HART_SHIFT) as usize
        };
        let id = field(ctl, context::CTL_ID, context::CTL_ID_SHIFT) as u32;
        if self.enqueue(to, ENTRY | at) {
            self.step(StepKind::EventQueued { to, id });
        }
    }

    /// The token is given back; what has been posted meanwhile needs another one.
    fn end(&mut self, at: u64) -> Option<()> {
        self.words
            .update(at, context::CTL, |ctl| ctl & !context::CTL_N)?;
        if self.words.load(at, context::PENDING)? != 0 {
            self.tell_context(at);
        }
        Some(())
    }

    /// Begins the handler of the context that comes next: saves the guest's registers and replaces
    /// them. `grant` is `hgrant` now.
    pub fn enter(&mut self, registers: &mut Exchanged, grant: u64) -> Option<Entered> {
        let at = self.harts[self.by.hart].next_context(self.by.now)?;
        self.dequeue();
        let ctl = self.words.load(at, context::CTL)?;
        let runs = ctl & (context::CTL_V | context::CTL_M) == context::CTL_V;
        let pending = if runs {
            self.words.update(at, context::PENDING, |_| 0)?
        } else {
            0
        };
        if pending == 0 {
            self.end(at);
            return None;
        }
        self.save(registers, grant)?;
        let hart = &mut self.harts[self.by.hart];
        let word = |offset| self.words.load(at, offset);
        hart.context = at;
        hart.share.begin(self.by.now);
        hart.suatp = registers.satp;
        hart.suscratch = registers.sscratch;
        hart.budget_ends = self.by.now.saturating_add(word(context::BUDGET)?);
        registers.pc = 0;
        registers.x = [0; 32];
        registers.ustatus = 0;
        registers.utvec = word(context::UTVEC)?;
        registers.uscratch = word(context::USCRATCH)?;
        registers.satp = word(context::SUATP)?;
        if ctl & context::CTL_SS != 0 {
            registers.sscratch = word(context::SUSCRATCH)?;
        }
        let grant = word(context::GRANT)?;
        let id = field(ctl, context::CTL_ID, context::CTL_ID_SHIFT) as u32;
        self.step(StepKind::ContextEntered { id });
        self.effects.change(self.by.hart);
        Some(Entered { pending, grant })
    }

    fn save(&self, registers: &Exchanged, grant: u64) -> Option<()> {
        let area = self.harts[self.by.hart].save & hucsave::ADDRESS;
        for (offset, value) in (save::X..).step_by(8).zip(&registers.x[1..]) {
            self.words.store(area, offset, *value)?;
        }
        for (offset, value) in [
            (save::PC, registers.pc),
            (save::USTATUS, registers.ustatus),
            (save::UTVEC, registers.utvec),
            (save::USCRATCH, registers.uscratch),
            (save::GRANT, grant),
        ] {
            self.words.store(area, offset, value)?;
        }
        Some(())
    }

    /// The handler that runs here has ended: restores the guest's registers. Returns `hgrant` for
    /// it.
    pub fn leave(&mut self, registers: &mut Exchanged) -> Option<u64> {
        let hart = &mut self.harts[self.by.hart];
        let at = std::mem::take(&mut hart.context);
        if at == 0 {
            return None;
        }
        hart.share.end(self.by.now);
        self.effects.change(self.by.hart);
        let area = hart.save & hucsave::ADDRESS;
        registers.satp = hart.suatp;
        registers.sscratch = hart.suscratch;
        for (offset, value) in (save::X..).step_by(8).zip(&mut registers.x[1..]) {
            *value = self.words.load(area, offset)?;
        }
        registers.pc = self.words.load(area, save::PC)?;
        registers.ustatus = self.words.load(area, save::USTATUS)?;
        registers.utvec = self.words.load(area, save::UTVEC)?;
        registers.uscratch = self.words.load(area, save::USCRATCH)?;
        let grant = self.words.load(area, save::GRANT)?;
        let ctl = self.words.load(at, context::CTL)?;
        let id = field(ctl, context::CTL_ID, context::CTL_ID_SHIFT) as u32;
        self.step(StepKind::ContextLeft { id });
        self.end(at)?;
        Some(grant)
    }
}
