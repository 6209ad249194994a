//! Posting an event: set it in its entry first, then notify the target of the entry.

use trapless_isa::haiov::{event, target};
use trapless_isa::port::{EventOrigin, StepKind};

use super::operation::Operation;
use crate::ring::Taken;
use crate::words::field;

/// A user context named by an entry of an event table.
struct Target {
    /// Control word of the entry.
    ctl: u64,
    /// Its word `TARGET`.
    at: u64,
}

impl Operation<'_> {
    /// Whether the virtual machine that runs on this hart has a valid entry for `request`.
    pub fn can_post(&self, request: u16) -> bool {
        let entry = self.harts[self.by.hart].entry(request.into());
        let ctl = entry.and_then(|entry| self.words.load(entry, event::CTL));
        ctl.is_some_and(|ctl| ctl & event::CTL_V != 0)
    }

    /// Posts event `request` of the virtual machine that runs on this hart, if that has such an
    /// event.
    pub fn post_request(&mut self, request: u16, by: EventOrigin) {
        if let Some(entry) = self.harts[self.by.hart].entry(request.into()) {
            self.post(entry, request, by);
        }
    }

    /// Posts the event whose entry is at `entry`, if that is valid.
    pub fn post(&mut self, entry: u64, request: u16, by: EventOrigin) {
        let posted = |merged| StepKind::EventPosted {
            request,
            by,
            merged,
        };
        if let Some(target) = self.context_of(entry) {
            self.post_to_context(target.at, target.ctl, posted);
            return;
        }
        let updated = self.words.update(entry, event::CTL, |ctl| {
            if ctl & event::CTL_V == 0 {
                ctl
            } else {
                ctl | event::CTL_P
            }
        });
        let Some(old) = updated.filter(|ctl| ctl & event::CTL_V != 0) else {
            return;
        };
        let merged = old & event::CTL_P != 0;
        self.step(posted(merged));
        if !merged && old & event::CTL_M == 0 {
            self.notify(old);
        }
    }

    /// The user context that an entry names, if it is valid and names one.
    fn context_of(&self, entry: u64) -> Option<Target> {
        if !self.contexts {
            return None;
        }
        let ctl = self.words.load(entry, event::CTL)?;
        let kind = field(ctl, event::CTL_KIND, event::CTL_KIND_SHIFT);
        if ctl & event::CTL_V == 0 || kind != target::CONTEXT {
            return None;
        }
        let at = self.words.load(entry, event::TARGET)?;
        Some(Target { ctl, at })
    }

    /// Notifies the target in the control word of an entry.
    fn notify(&mut self, ctl: u64) {
        if field(ctl, event::CTL_KIND, event::CTL_KIND_SHIFT) != target::HART {
            return;
        }
        let to = field(ctl, event::CTL_HART, event::CTL_HART_SHIFT) as usize;
        let id = field(ctl, event::CTL_ID, event::CTL_ID_SHIFT) as u32;
        if self.enqueue(to, id.into()) {
            self.step(StepKind::EventQueued { to, id });
        }
    }

    /// Adds an entry to the queue of hart `to`, if that exists and accepts entries.
    pub fn enqueue(&mut self, to: usize, word: u64) -> bool {
        let Some(hart) = self.harts.get_mut(to) else {
            return false;
        };
        if !hart.queue.enabled() {
            return false;
        }
        self.effects.change(to);
        let queued = hart.queue.push(self.words, word);
        if queued && hart.next.is_none() {
            hart.next = Some(word);
        }
        queued
    }

    /// Removes the oldest entry from the queue of this hart.
    pub fn dequeue(&mut self) -> Taken {
        let hart = &mut self.harts[self.by.hart];
        let taken = hart.queue.pop(self.words);
        hart.next = hart.queue.peek(self.words);
        taken
    }
}
