//! Posts: set the pending bit in memory first, then look up the hart that runs the vhart. Sources
//! of the host have no vhart: the hart is told.

use trapless_isa::port::StepKind;
use trapless_isa::xtrapless::{htlcfg, kind, op, state};

use super::file::File;
use super::operation::Operation;
use super::queue::Notification;
use super::tables::{Domain, Source};

impl Operation<'_> {
    /// Makes a software interrupt pending for a vhart (DEL-1).
    pub(super) fn post_soft(&mut self, domain: &Domain, vhart: u16) {
        let Some(file) = domain.file(self.words, vhart) else {
            return;
        };
        let Some(old) = file.update(self.words, |ctl| ctl.with_soft(true)) else {
            return;
        };
        let merged = old.soft();
        self.step(domain.id, StepKind::PostSoft { vhart, merged });
        self.deliver(domain, vhart, file, None);
    }

    /// EDGE, ASSERT or DEASSERT of a source of `domain`; other operations do nothing.
    pub(super) fn drive_source(&mut self, domain: &Domain, operation: u64, source: u16) {
        match operation {
            op::EDGE => {
                self.pulse_source(domain, source);
            }
            op::ASSERT => self.raise_source(domain, source),
            op::DEASSERT => self.lower_source(domain, source),
            _ => {}
        }
    }

    /// Returns whether the source was pending already; `None` if nothing was posted.
    pub(super) fn pulse_source(&mut self, domain: &Domain, number: u16) -> Option<bool> {
        let source = domain.source(self.words, number)?;
        self.post_source(domain, number, source)
    }

    /// Makes a source pending for the vhart that its entry names (DEL-2). Returns whether it was;
    /// `None` if nothing was posted.
    pub(super) fn post_source(
        &mut self,
        domain: &Domain,
        number: u16,
        source: Source,
    ) -> Option<bool> {
        if domain.host {
            return self.post_host(domain, number, source);
        }
        let vhart = source.vhart;
        let file = domain.file(self.words, vhart)?;
        let merged = file.set_pending(self.words, number, true)?;
        let step = StepKind::PostSource {
            vhart,
            source: number,
            merged,
        };
        self.step(domain.id, step);
        let posted = Some((number, source.priority));
        self.deliver(domain, vhart, file, posted);
        Some(merged)
    }

    /// Makes a source of the host pending, and notifies its hart (MSG-10). Returns as
    /// [`post_source`](Self::post_source) does.
    fn post_host(&mut self, domain: &Domain, number: u16, source: Source) -> Option<bool> {
        let merged = domain.set_resample(self.words, number, true)?;
        let step = StepKind::PostHost {
            source: number,
            merged,
        };
        self.step(domain.id, step);
        if !merged && source.priority != 0 {
            // Without a queue, software that opens one finds the bit.
            if let Some(to) = self.queue_near(source.vhart.into()) {
                let notification = Notification {
                    kind: kind::SOURCE,
                    domain: domain.id,
                    id: number,
                };
                self.enqueue(to, number, notification);
            }
        }
        Some(merged)
    }

    pub(super) fn raise_source(&mut self, domain: &Domain, number: u16) {
        let Some(source) = domain.source(self.words, number) else {
            return;
        };
        if domain.set_line(self.words, number, true) == Some(false) {
            self.post_source(domain, number, source);
        }
    }

    pub(super) fn lower_source(&mut self, domain: &Domain, number: u16) {
        let Some(source) = domain.source(self.words, number) else {
            return;
        };
        if domain.set_line(self.words, number, false).is_none() {
            return;
        }
        let file = domain.file(self.words, source.vhart);
        // A pending edge stays pending independent of its line.
        if let Some(file) = file.filter(|_| source.level) {
            if file.set_pending(self.words, number, false) == Some(true) {
                if let Some(hart) = self.lookup(domain.id, source.vhart) {
                    self.poke(hart);
                }
            }
        }
        self.step(domain.id, StepKind::Lowered { source: number });
    }

    /// Delivers pending interrupts of a vhart as if they had just been posted (DEL-12). A hart that
    /// runs the vhart rereads the file even if nothing can be delivered.
    pub(super) fn evaluate(&mut self, domain: &Domain, vhart: u16) {
        let Some(file) = domain.file(self.words, vhart) else {
            return;
        };
        if let Some(on) = self.lookup(domain.id, vhart) {
            self.hit(domain, vhart, on);
        } else if file.lines(self.words, domain) != 0 {
            self.miss(domain, vhart, file, true);
        }
    }

    /// Lookup after a post, and delivery or notification. `posted`: source and its priority, `None`
    /// for a software interrupt (DEL-8).
    fn deliver(&mut self, domain: &Domain, vhart: u16, file: File, posted: Option<(u16, u8)>) {
        if let Some(on) = self.lookup(domain.id, vhart) {
            self.hit(domain, vhart, on);
            return;
        }
        let words = self.words;
        let deliverable = posted.is_none_or(|(source, priority)| {
            file.enabled(words, source) == Some(true)
                && file.threshold(words).is_some_and(|floor| priority > floor)
        });
        self.miss(domain, vhart, file, deliverable);
    }

    fn hit(&mut self, domain: &Domain, vhart: u16, on: usize) {
        self.poke(on);
        self.step(domain.id, StepKind::Hit { vhart, on });
    }

    fn miss(&mut self, domain: &Domain, vhart: u16, file: File, deliverable: bool) {
        let notified = deliverable && self.notify(domain, vhart, file);
        if !notified {
            self.step(domain.id, StepKind::Silent { vhart });
        }
    }

    /// Queues a notification for a vhart that no hart runs, unless one is outstanding or its state
    /// wants none (DEL-9 to DEL-11). Returns whether a notification was attempted.
    fn notify(&mut self, domain: &Domain, vhart: u16, file: File) -> bool {
        let wanted = |state| matches!(state, state::HALTED | state::PREEMPTED);
        let old = file.update(self.words, |ctl| {
            if wanted(ctl.state()) {
                ctl.with_on(true)
            } else {
                ctl
            }
        });
        let Some(old) = old.filter(|ctl| !ctl.on() && wanted(ctl.state())) else {
            return false;
        };
        let kind = if old.state() == state::HALTED {
            kind::WAKE
        } else {
            kind::YIELD
        };
        let any = self.state.harts[self.by.hart].config & htlcfg::ANY != 0;
        let to = if any && !self.by.window {
            self.next_queue()
        } else {
            self.queue_near(old.hart())
        };
        // Software that opens a queue finds ON.
        let Some(to) = to else { return false };
        let notification = Notification {
            kind,
            domain: domain.id,
            id: vhart,
        };
        self.enqueue(to, vhart, notification);
        true
    }

    /// Notifies the host that a vhart completed a RESAMPLE source (EXT-7).
    pub(super) fn notify_resample(&mut self, domain: &Domain, vhart: u16, source: u16) {
        if domain.set_resample(self.words, source, true) != Some(false) {
            return;
        }
        // Without a queue, software that opens one finds the bit.
        let Some(to) = self.queue_near(self.by.hart) else {
            return;
        };
        let notification = Notification {
            kind: kind::RESAMPLE,
            domain: domain.id,
            id: source,
        };
        self.enqueue(to, vhart, notification);
    }

    fn enqueue(&mut self, to: usize, vhart: u16, notification: Notification) {
        let queue = &mut self.state.harts[to].queue;
        let step = if queue.push(self.words, notification) {
            StepKind::Notified {
                vhart,
                to,
                kind: notification.kind as u8,
            }
        } else {
            StepKind::Overflow { on: to }
        };
        self.effects.change(to);
        self.step(notification.domain, step);
    }

    /// `preferred` if its queue accepts notifications, else the lowest hart whose queue does.
    fn queue_near(&self, preferred: usize) -> Option<usize> {
        let takes = |hart: usize| {
            let hart = self.state.harts.get(hart);
            hart.is_some_and(|hart| hart.queue.enabled())
        };
        std::iter::once(preferred)
            .chain(0..self.state.harts.len())
            .find(|&hart| takes(hart))
    }

    /// The next hart in turn whose queue accepts notifications.
    fn next_queue(&mut self) -> Option<usize> {
        let harts = self.state.harts.len();
        let to = (0..harts)
            .map(|i| (self.state.next + i) % harts)
            .find(|&hart| self.state.harts[hart].queue.enabled())?;
        self.state.next = (to + 1) % harts;
        Some(to)
    }
}
