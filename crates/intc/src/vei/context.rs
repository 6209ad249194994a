//! User contexts (Xhcs): events for handlers in user mode that interrupt guests, in an address
//! space of their own.
//!
//! `N` of a context is a token: the post that sets it notifies a hart, by its queue; the hart that
//! removes the entry from the queue has the token, and clears `N` when the handler has ended.

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

/// Initial state of a handler.
struct Handler {
    registers: Exchanged,
    /// Cycles.
    budget: u64,
    grant: u64,
}

/// The context that an entry of a queue names; `None` if it is an event for HS-mode.
pub(super) fn named(word: u64) -> Option<u64> {
    (word & ENTRY != 0).then_some(word & hucontext::ADDRESS)
}

impl Hart {
    /// The next context in the queue, if it can interrupt a guest here.
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
        self.notify_context(at);
    }

    /// Notifies the hart that a context names, unless the context is masked or `N` is set already.
    fn notify_context(&mut self, at: u64) {
        let notifies =
            |ctl: u64| ctl & (context::CTL_V | context::CTL_M | context::CTL_N) == context::CTL_V;
        let old = self.words.update(at, context::CTL, |ctl| {
            if notifies(ctl) {
                ctl | context::CTL_N
            } else {
                ctl
            }
        });
        let Some(ctl) = old.filter(|ctl| notifies(*ctl)) else {
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

    /// Returns the token; events posted meanwhile need another one.
    fn end(&mut self, at: u64) -> Option<()> {
        self.words
            .update(at, context::CTL, |ctl| ctl & !context::CTL_N)?;
        if self.words.load(at, context::PENDING)? != 0 {
            self.notify_context(at);
        }
        Some(())
    }

    /// Enters the handler of the next context: saves the guest's registers and replaces them.
    /// `grant` is the present `hgrant`.
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
        let Some(handler) = self.prepare(at, ctl, registers, grant) else {
            // A word cannot be accessed: nothing is exchanged, and no pending event is lost.
            let restore = |later| later | pending;
            self.words.update(at, context::PENDING, restore)?;
            return None;
        };
        let hart = &mut self.harts[self.by.hart];
        hart.context = at;
        hart.share.begin(self.by.now);
        hart.suatp = registers.satp;
        hart.suscratch = registers.sscratch;
        hart.budget_ends = self.by.now.saturating_add(handler.budget);
        *registers = handler.registers;
        let id = field(ctl, context::CTL_ID, context::CTL_ID_SHIFT) as u32;
        self.step(StepKind::ContextEntered { id });
        self.effects.change(self.by.hart);
        Some(Entered {
            pending,
            grant: handler.grant,
        })
    }

    /// Saves the guest's registers, and loads those with which the handler of the context at `at`
    /// begins.
    fn prepare(&self, at: u64, ctl: u64, guest: &Exchanged, grant: u64) -> Option<Handler> {
        self.save(guest, grant)?;
        let word = |offset| self.words.load(at, offset);
        let sscratch = match ctl & context::CTL_SS {
            0 => guest.sscratch,
            _ => word(context::SUSCRATCH)?,
        };
        let registers = Exchanged {
            pc: 0,
            x: [0; 32],
            ustatus: 0,
            utvec: word(context::UTVEC)?,
            uscratch: word(context::USCRATCH)?,
            satp: word(context::SUATP)?,
            sscratch,
        };
        Some(Handler {
            registers,
            budget: word(context::BUDGET)?,
            grant: word(context::GRANT)?,
        })
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

    /// Ends the running handler: restores the guest's registers. Returns the guest's `hgrant`;
    /// `None`, without an effect, if no context runs or the save area cannot be read (`HCS-15`).
    pub fn leave(&mut self, registers: &mut Exchanged) -> Option<u64> {
        let hart = &self.harts[self.by.hart];
        let (at, area) = (hart.context, hart.save & hucsave::ADDRESS);
        if at == 0 {
            return None;
        }
        let word = |offset| self.words.load(area, offset);
        let mut guest = Exchanged {
            pc: word(save::PC)?,
            x: [0; 32],
            ustatus: word(save::USTATUS)?,
            utvec: word(save::UTVEC)?,
            uscratch: word(save::USCRATCH)?,
            satp: hart.suatp,
            sscratch: hart.suscratch,
        };
        for (offset, value) in (save::X..).step_by(8).zip(&mut guest.x[1..]) {
            *value = word(offset)?;
        }
        let grant = word(save::GRANT)?;
        *registers = guest;
        let hart = &mut self.harts[self.by.hart];
        hart.context = 0;
        hart.share.end(self.by.now);
        self.effects.change(self.by.hart);
        // The guest continues even if the context does not exist any more.
        if let Some(ctl) = self.words.load(at, context::CTL) {
            let id = field(ctl, context::CTL_ID, context::CTL_ID_SHIFT) as u32;
            self.step(StepKind::ContextLeft { id });
            self.end(at);
        }
        Some(grant)
    }
}
