//! Posting an event: note it in its entry first, then tell whom the entry names.

use trapless_isa::haiov::{event, target};
use trapless_isa::port::{EventOrigin, StepKind};

use super::operation::Operation;
use crate::words::field;

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
        let posted = self.words.update(entry, event::CTL, |ctl| {
            if ctl & event::CTL_V == 0 {
                ctl
            } else {
                ctl | event::CTL_P
            }
        });
        let Some(old) = posted.filter(|ctl| ctl & event::CTL_V != 0) else {
            return;
        };
        let merged = old & event::CTL_P != 0;
        self.step(StepKind::EventPosted {
            request,
            by,
            merged,
        });
        if !merged && old & event::CTL_M == 0 {
            self.tell(old);
        }
    }

    /// Tells whom the control word of an entry names.
    fn tell(&mut self, ctl: u64) {
        if field(ctl, event::CTL_KIND, event::CTL_KIND_SHIFT) != target::HART {
            return;
        }
        let to = field(ctl, event::CTL_HART, event::CTL_HART_SHIFT) as usize;
        let id = field(ctl, event::CTL_ID, event::CTL_ID_SHIFT) as u32;
        let Some(hart) = self.harts.get_mut(to) else {
            return;
        };
        if !hart.queue.enabled() {
            return;
        }
        self.effects.change(to);
        if hart.queue.push(self.words, id.into()) {
            self.step(StepKind::EventQueued { to, id });
        }
    }
}
