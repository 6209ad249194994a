//! Rules for the steps of an interrupt controller that delivers virtual interrupts by itself.
//!
//! `docs/ledger.md`, section "Interrupt classes", states them; `tests/classes.rs` tests each.

use trapless_isa::Mode;
use trapless_isa::xtrapless::kind;

use crate::class::{Class, Left, Place};
use crate::events::event::{StepKind, VirtualStep};
use crate::ledger::Ledger;
use crate::state::hart::vhart_place;
use crate::state::vcpu::NEVER;
use crate::state::vhart::Pending;

impl Ledger {
    /// One step of an interrupt architecture that delivers by itself.
    pub(crate) fn virtual_step(&mut self, s: &VirtualStep) {
        // No hart causes what a device does, so nothing is charged to one.
        if !s.by_device {
            self.at(s.hart, s.time);
        }
        let words = u64::from(s.memory);
        let vhart = |ledger: &mut Self, vhart: u16| ledger.vharts.find((s.domain, vhart));
        let class = match s.kind {
            StepKind::Message {
                on,
                file,
                identity,
                merged,
            } => return self.message(s, on, file, identity, merged),
            StepKind::FileClaimed { file, identity } => {
                return self.file_claimed(s, file, identity);
            }
            StepKind::FileSelected { file } => return self.file_selected(s.hart, file),
            StepKind::EventPosted { by, merged, .. } => return self.event_posted(s, by, merged),
            StepKind::EventQueued { to, id } => return self.event_queued(s, to, id),
            StepKind::EventTaken { id } => return self.event_taken(s, id),
            StepKind::ContextEntered { id } => return self.event_handled(s, id),
            StepKind::ContextLeft { .. } => {
                self.totals().events.memory_words += words;
                return;
            }
            StepKind::PostSoft { vhart: to, merged } => {
                let target = vhart(self, to);
                self.post_soft(s, target, merged);
                Some(Class::Ipi)
            }
            StepKind::PostSource {
                vhart: to,
                source,
                merged,
            } => {
                let target = vhart(self, to);
                self.post_source(s, target, source, merged);
                Some(Class::Device)
            }
            StepKind::PostHost { .. } => {
                self.post_slot(s).take();
                None
            }
            StepKind::Lowered { source } => {
                let vharts = self.vharts.of_domain(s.domain);
                let pending = vharts.filter_map(|v| v.sources.remove(&source)).count();
                let totals = self.class(Class::Device);
                totals.lowered += 1;
                totals.withdrawn += pending as u64;
                Some(Class::Device)
            }
            StepKind::Claimed { vhart: by, source } => {
                let target = vhart(self, by);
                self.claimed(s, target, source);
                Some(Class::Device)
            }
            StepKind::Completed { source, again, .. } => {
                // A source that is pending again is posted next.
                let totals = self.class(Class::Device);
                totals.completions += 1;
                totals.repended += u64::from(again);
                self.harts[s.hart].completed = source;
                Some(Class::Device)
            }
            StepKind::Notified { vhart, kind, .. } => {
                let resample = u64::from(kind) == kind::RESAMPLE;
                let id = if resample {
                    self.harts[s.hart].completed
                } else {
                    vhart
                };
                self.vharts.notify(s.domain, id, kind, s.time);
                self.totals().queue(kind).counts.queued += 1;
                self.posted(s)
            }
            StepKind::Silent { .. } => {
                self.totals().notifications.silent += 1;
                self.posted(s)
            }
            StepKind::Hit { .. } => self.posted(s),
            StepKind::Attached { vhart: id } => {
                let target = vhart(self, id);
                self.attached(s, target);
                self.totals().slots.memory_words += words;
                return;
            }
            StepKind::Detached { state, .. } => {
                if let Some(left) = Left::of(state) {
                    self.totals().detached[left as usize] += 1;
                }
                self.totals().slots.memory_words += words;
                self.detached(s.hart, Place::left_in(state));
                return;
            }
            StepKind::HartIpi { .. } => {
                self.totals().counts.host_ipis += 1;
                return;
            }
            StepKind::Fetched { id, kind } => {
                let queued = self.vharts.fetch(s.domain, id, kind);
                let queue = self.totals().queue(kind);
                queue.counts.fetched += 1;
                if let Some(time) = queued {
                    queue.latency.record(s.time.saturating_sub(time));
                }
                None
            }
            StepKind::Overflow { .. } => {
                self.totals().notifications.overflows += 1;
                None
            }
        };
        match class {
            Some(class) => {
                self.class(class).memory_words += words;
                *self.post_slot(s) = Some((s.time, class));
            }
            None => self.totals().notifications.memory_words += words,
        }
    }

    /// Class of the post whose lookup this is; `None` for an evaluation without a post.
    fn posted(&mut self, s: &VirtualStep) -> Option<Class> {
        let (time, class) = (*self.post_slot(s))?;
        (time == s.time).then_some(class)
    }

    /// The last post of whoever causes a step: a hart, or devices.
    fn post_slot(&mut self, s: &VirtualStep) -> &mut Option<(u64, Class)> {
        if s.by_device {
            &mut self.device_post
        } else {
            &mut self.harts[s.hart].posted
        }
    }

    fn post_soft(&mut self, s: &VirtualStep, target: Option<usize>, merged: bool) {
        let vcpu = target.and_then(|t| self.vharts.get(t).vcpu);
        // KVM posts IPIs that a guest has sent by SBI, which have been counted.
        let announced = vcpu.is_some_and(|v| self.vcpus.get_mut(v).ipi_sent != NEVER);
        if announced && !s.mode.v() {
            return;
        }
        self.class(Class::Ipi).sent += 1;
        if merged {
            self.class(Class::Ipi).coalesced += 1;
            return;
        }
        let pending = self.pending_for(s, target);
        self.arrival(Class::Ipi, pending.place);
        if let Some(target) = target {
            self.vharts.get_mut(target).soft = Some(pending);
        }
    }

    fn post_source(&mut self, s: &VirtualStep, target: Option<usize>, source: u16, merged: bool) {
        if s.mode == Mode::HS && !s.by_device {
            self.signalled(s.hart, Class::Device);
        }
        self.class(Class::Device).sent += 1;
        if merged {
            self.class(Class::Device).coalesced += 1;
            return;
        }
        let pending = self.pending_for(s, target);
        self.arrival(Class::Device, pending.place);
        if let Some(target) = target {
            self.vharts.get_mut(target).post(source, pending);
        }
    }

    fn pending_for(&self, s: &VirtualStep, target: Option<usize>) -> Pending {
        let (place, traps) = match target {
            Some(target) => {
                let vhart = self.vharts.get(target);
                (vhart_place(&self.harts, vhart), vhart.traps)
            }
            None => (Place::Unknown, 0),
        };
        Pending {
            time: s.time,
            place,
            traps,
        }
    }

    fn claimed(&mut self, s: &VirtualStep, target: Option<usize>, source: u16) {
        let totals = self.class(Class::Device);
        totals.claims += 1;
        totals.empty_claims += u64::from(source == 0);
        let Some(vhart) = target.map(|t| self.vharts.get_mut(t)) else {
            return;
        };
        let Some(pending) = vhart.sources.remove(&source) else {
            return;
        };
        // A running handler takes it without another trap.
        let taken = if vhart.traps > pending.traps {
            vhart.last_trap
        } else {
            s.time
        };
        self.answer(Class::Device, pending, taken, s.hart);
    }

    fn attached(&mut self, s: &VirtualStep, target: Option<usize>) {
        self.totals().slots.attached += 1;
        self.detached(s.hart, Place::Off);
        self.harts[s.hart].slot = target;
        if let Some(target) = target {
            let vhart = self.vharts.get_mut(target);
            vhart.hart = Some(s.hart);
            let vcpu = vhart.vcpu;
            self.load(vcpu, s.hart, s.time);
        }
    }

    fn detached(&mut self, hart: usize, left: Place) {
        if let Some(slot) = self.harts[hart].slot.take() {
            let vhart = self.vharts.get_mut(slot);
            if vhart.hart == Some(hart) {
                vhart.hart = None;
                vhart.left = left;
            }
        }
        self.harts[hart].loaded = None;
    }
}
