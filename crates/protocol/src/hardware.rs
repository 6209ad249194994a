//! Steps of the controller and the harts: posts, lookups, attach, detach, rereading the file.
//!
//! Each function is one atomic step of the specification.

use crate::config::{Mutation, OnRules};
use crate::model::Protocol;
use crate::state::{Access, Decision, Fault, Kind, Note, Pc, RunState, Stage, State, Thread};

impl Protocol {
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.config.mutations.has(mutation)
    }

    fn on_kept_while_loaded(&self) -> bool {
        self.config.rules == OnRules::Strict || self.has(Mutation::OnKeptWhileLoaded)
    }

    fn write_pending(s: &mut State, target: u8, kind: Kind) {
        let vcpu = &mut s.vcpus[usize::from(target)];
        match kind {
            Kind::Soft => {
                vcpu.soft = true;
                vcpu.owed_soft = true;
            }
            Kind::External => {
                vcpu.external = true;
                vcpu.owed_external = true;
            }
        }
    }

    fn lookup(&self, s: &State, target: u8) -> Option<u8> {
        if self.config.features.directory {
            let vcpu = &s.vcpus[usize::from(target)];
            return (vcpu.state == RunState::Loaded).then_some(vcpu.hart);
        }
        (0..self.config.harts).find(|&h| s.harts[usize::from(h)].slot == Some(target))
    }

    /// Post step 1, and the access that continues with the lookup.
    pub(crate) fn post(&self, s: &mut State, target: u8, kind: Kind) {
        let vcpu = &s.vcpus[usize::from(target)];
        let source = kind == Kind::External;
        let early = source && self.has(Mutation::DeliverabilityEarly);
        let silent = source && vcpu.weak || early && (!vcpu.enabled || vcpu.raised);
        let stage = if self.has(Mutation::LookupBeforePost) {
            Stage::LatePost(self.lookup(s, target))
        } else if early || source && self.config.features.priority {
            Stage::Write
        } else {
            self.write_file(s, target, kind)
        };
        let free = s.posts.iter_mut().find(|post| post.stage == Stage::Free);
        let access = Access {
            stage,
            target,
            kind: Some(kind),
            silent,
        };
        *free.expect("a post is sent only if one is free") = self.normalized(access);
        if self.config.sends.is_some() {
            s.left -= 1;
        }
    }

    /// Writes the file; returns the next stage.
    fn write_file(&self, s: &mut State, target: u8, kind: Kind) -> Stage {
        Self::write_pending(s, target, kind);
        if self.has(Mutation::OnBeforeLookup) {
            Stage::EarlyOn
        } else {
            Stage::Lookup(None)
        }
    }

    /// Drops values that later steps do not use, so that equivalent states are identical.
    fn normalized(&self, access: Access) -> Access {
        let payload = self.has(Mutation::PokeWithPayload);
        match access.stage {
            Stage::Free => Access::default(),
            Stage::Amo | Stage::Queue(..) | Stage::Store(..) | Stage::PokeRest(..) => Access {
                kind: None,
                silent: false,
                ..access
            },
            Stage::Poke(_) if !payload => Access {
                kind: None,
                silent: false,
                ..access
            },
            _ => access,
        }
    }

    /// Next step of an access in flight; returns the rest of it.
    pub(crate) fn advance(&self, s: &mut State, access: Access, from: u8) -> Access {
        let target = access.target;
        let stage = match access.stage {
            Stage::Free | Stage::Queue(..) => unreachable!("not offered as an action"),
            Stage::Write => self.write_file(s, target, access.kind.unwrap_or_default()),
            Stage::Sync => Stage::Lookup(None),
            Stage::Store(decision, hart) => {
                self.store(s, hart, target, decision);
                Stage::Free
            }
            Stage::LatePost(hit) => {
                let kind = access.kind.unwrap_or_default();
                Self::write_pending(s, target, kind);
                hit.map_or(missed(access.kind), Stage::Poke)
            }
            Stage::LateState(state) => {
                self.leave_loaded(s, target, from, state);
                let vcpu = &s.vcpus[usize::from(target)];
                let eval = state == RunState::Preempted && vcpu.blocking && vcpu.has_interrupts();
                if state == RunState::Halted || eval {
                    Stage::Check
                } else {
                    Stage::Free
                }
            }
            Stage::EarlyOn => {
                if s.vcpus[usize::from(target)].deliverable() {
                    Stage::Lookup(self.decide(s, target))
                } else {
                    Stage::Lookup(None)
                }
            }
            Stage::Lookup(decided) => match (self.lookup(s, target), decided) {
                (Some(hart), _) => Stage::Poke(hart),
                (None, Some(decision)) => Stage::Queue(decision, 0),
                (None, None) if self.has(Mutation::OnBeforeLookup) => Stage::Free,
                (None, None) => missed(access.kind),
            },
            Stage::Poke(hart) if self.has(Mutation::PokeWithPayload) => {
                self.set_pending(s, hart, target, access.kind.unwrap_or_default());
                Stage::Free
            }
            Stage::Poke(hart) => match s.harts[usize::from(hart)].slot {
                Some(v) if self.config.features.words => {
                    Stage::PokeRest(hart, s.vcpus[usize::from(v)].soft)
                }
                _ => {
                    self.read_file(s, hart);
                    Stage::Free
                }
            },
            Stage::PokeRest(hart, soft) => {
                self.read_rest(s, hart, soft);
                Stage::Free
            }
            Stage::Check => {
                let vcpu = &s.vcpus[usize::from(target)];
                let wanted = match access.kind {
                    None => vcpu.deliverable(),
                    Some(Kind::Soft) => true,
                    Some(Kind::External) if self.has(Mutation::DeliverabilityEarly) => {
                        !access.silent
                    }
                    Some(Kind::External) => vcpu.enabled && !access.silent,
                };
                let threshold = self.config.features.threshold && access.kind.is_some();
                match wanted {
                    false => Stage::Free,
                    true if threshold && !self.has(Mutation::DeliverabilityEarly) => {
                        Stage::CheckThreshold
                    }
                    true => Stage::Amo,
                }
            }
            Stage::CheckThreshold => {
                let raised = s.vcpus[usize::from(target)].raised;
                if raised { Stage::Free } else { Stage::Amo }
            }
            Stage::Amo => match self.decide(s, target) {
                Some(decision) => Stage::Queue(decision, 0),
                None => Stage::Free,
            },
        };
        self.normalized(Access { stage, ..access })
    }

    /// Step 4: the atomic update of `CTL` and what follows from the old value.
    fn decide(&self, s: &mut State, target: u8) -> Option<Decision> {
        let vcpu = &mut s.vcpus[usize::from(target)];
        let old = vcpu.on;
        vcpu.on |= matches!(vcpu.state, RunState::Preempted | RunState::Halted)
            || self.has(Mutation::OnSetAlways);
        let decision = match vcpu.state {
            _ if old => None,
            RunState::Stopped | RunState::Loaded => None,
            RunState::Halted => Some(Decision::Wake(vcpu.hart)),
            RunState::Preempted => Some(Decision::Yield(vcpu.hart)),
        };
        if decision.is_some() {
            let twice = std::mem::replace(&mut vcpu.told, self.config.promises_told_once());
            if twice && s.fault == Fault::None {
                s.fault = Fault::ToldTwice;
            }
        }
        decision
    }

    /// Harts whose queue a notification may try next, if those of `closed` have been found closed.
    pub(crate) fn queues_for(&self, decision: Decision, closed: u8) -> Vec<u8> {
        let untried = |&h: &u8| closed >> h & 1 == 0;
        match decision {
            Decision::Wake(hart) | Decision::Yield(hart)
                if untried(&hart) && !self.config.features.any =>
            {
                vec![hart]
            }
            _ => (0..self.config.harts).filter(untried).collect(),
        }
    }

    fn queue_enabled(&self, s: &State, hart: u8) -> bool {
        match s.harts[usize::from(hart)].pc {
            Pc::Offline => false,
            Pc::Draining => self.has(Mutation::QueueDroppedOnDisable),
            _ => true,
        }
    }

    /// The notification of an access goes to the queue of `hart`, which takes or refuses it;
    /// returns the rest of the access. If all queues have refused, there is no notification.
    pub(crate) fn enqueue(&self, s: &mut State, hart: u8, access: Access) -> Option<Access> {
        let Stage::Queue(decision, closed) = access.stage else {
            return None;
        };
        let closed = closed | 1 << hart;
        let stage = if self.queue_enabled(s, hart) {
            if self.has(Mutation::QueueChosenThenStored) {
                Stage::Store(decision, hart)
            } else {
                self.store(s, hart, access.target, decision);
                Stage::Free
            }
        } else if closed == (1 << self.config.harts) - 1 {
            if self.has(Mutation::OnClearedUnheard) {
                s.vcpus[usize::from(access.target)].on = false;
            }
            Stage::Free
        } else {
            Stage::Queue(decision, closed)
        };
        Some(self.normalized(Access { stage, ..access }))
    }

    fn store(&self, s: &mut State, hart: u8, vcpu: u8, decision: Decision) {
        let note = Note {
            wake: matches!(decision, Decision::Wake(_)),
            vcpu,
        };
        let hart = &mut s.harts[usize::from(hart)];
        let room = &mut hart.queue[..usize::from(self.config.queue)];
        match room.iter_mut().find(|entry| entry.is_none()) {
            Some(entry) => *entry = Some(note),
            None => hart.overflow = !self.has(Mutation::OverflowUnreported),
        }
    }

    /// Read `hnotify`.
    pub(crate) fn dequeue(s: &mut State, hart: u8) -> (Option<Note>, bool) {
        let hart = &mut s.harts[usize::from(hart)];
        let note = hart.queue[0];
        hart.queue.rotate_left(1);
        hart.queue[hart.queue.len() - 1] = None;
        (note, std::mem::take(&mut hart.overflow))
    }

    /// A hart reads the file of the vCPU in its slot; inputs that rise at V=0 set the latch in
    /// `hip`.
    pub(crate) fn read_file(&self, s: &mut State, hart: u8) {
        if let Some(v) = s.harts[usize::from(hart)].slot {
            self.read_rest(s, hart, s.vcpus[usize::from(v)].soft);
        }
    }

    /// The hart has read `CTL`, with this `SOFT`; it reads the other words and updates its inputs.
    fn read_rest(&self, s: &mut State, hart: u8, ssip: bool) {
        let hart = &mut s.harts[usize::from(hart)];
        let Some(slot) = hart.slot else { return };
        let seip = s.vcpus[usize::from(slot)].seip();
        let rises = (ssip && !hart.ssip) || (seip && !hart.seip);
        hart.ssip = ssip;
        hart.seip = seip;
        hart.latch |= rises && self.latches(hart.pc);
    }

    /// Mutations with a payload: set the pending bit of whatever is in the slot.
    fn set_pending(&self, s: &mut State, hart: u8, target: u8, kind: Kind) {
        let hart = &mut s.harts[usize::from(hart)];
        if hart.slot.is_none() {
            return;
        }
        let bit = match kind {
            Kind::Soft => &mut hart.ssip,
            Kind::External => &mut hart.seip,
        };
        let rises = !std::mem::replace(bit, true);
        hart.tainted |= rises && hart.slot != Some(target);
        hart.latch |= rises && self.latches(hart.pc);
    }

    /// Writing `hifmap` with V=1: step `step` of 3.
    pub(crate) fn attach(&self, s: &mut State, hart: u8, step: u8) {
        let v = s.harts[usize::from(hart)]
            .thread
            .expect("a thread attaches its vCPU");
        let order = if self.has(Mutation::AttachReadsFirst) {
            [3, 1, 2]
        } else {
            [1, 2, 3]
        };
        match order[usize::from(step - 1)] {
            1 => s.harts[usize::from(hart)].slot = Some(v),
            2 => {
                let vcpu = &mut s.vcpus[usize::from(v)];
                vcpu.state = RunState::Loaded;
                let named = self.config.features.directory;
                (vcpu.hart, vcpu.told) = (if named { hart } else { 0 }, false);
                vcpu.on &= self.on_kept_while_loaded();
            }
            _ => {
                let vcpu = &s.vcpus[usize::from(v)];
                let slot = &mut s.harts[usize::from(hart)];
                (slot.ssip, slot.seip) = (vcpu.soft, vcpu.seip());
            }
        }
        if step < 3 {
            s.harts[usize::from(hart)].pc = Pc::Attach(step + 1);
        } else {
            let vcpu = &mut s.vcpus[usize::from(v)];
            let resume = std::mem::take(&mut vcpu.resume);
            self.go_on(s, hart, resume);
        }
    }

    /// The atomic update of `CTL` in a detach.
    fn leave_loaded(&self, s: &mut State, v: u8, hart: u8, state: RunState) {
        let vcpu = &mut s.vcpus[usize::from(v)];
        vcpu.state = state;
        vcpu.hart = match state {
            RunState::Halted | RunState::Preempted => hart,
            RunState::Stopped | RunState::Loaded => 0,
        };
        vcpu.told = false;
        vcpu.on &= self.on_kept_while_loaded();
    }

    fn empty_slot(s: &mut State, hart: u8) {
        let hart = &mut s.harts[usize::from(hart)];
        (hart.slot, hart.ssip, hart.seip, hart.tainted) = (None, false, false, false);
    }

    /// The next step of a detach can be taken: its re-check, or that of the detach before, is
    /// complete. (Pokes in flight need not be waited for: they carry no data.)
    pub(crate) fn detach_ready(s: &State, hart: u8, step: u8) -> bool {
        step == 1 || s.rechecks[usize::from(hart)].stage == Stage::Free
    }

    /// Writing `hifmap` with V=0: step `step` of 3, leaving the vCPU in `state`.
    pub(crate) fn detach(&self, s: &mut State, hart: u8, step: u8, state: RunState) {
        let v = s.harts[usize::from(hart)]
            .thread
            .expect("a thread detaches its vCPU");
        let recheck = &mut s.rechecks[usize::from(hart)];
        let start = |stage| Access {
            stage,
            target: v,
            ..Access::default()
        };
        let halted = state == RunState::Halted;
        if self.has(Mutation::DetachRechecksFirst) {
            if step == 1 {
                if halted && s.vcpus[usize::from(v)].deliverable() {
                    *recheck = start(Stage::Amo);
                }
                self.leave_loaded(s, v, hart, state);
                s.harts[usize::from(hart)].pc = Pc::Detach(2, state);
            } else {
                Self::empty_slot(s, hart);
                self.release(s, hart);
            }
            return;
        }
        match step {
            1 => {
                Self::empty_slot(s, hart);
                s.harts[usize::from(hart)].pc = Pc::Detach(2, state);
            }
            2 if self.has(Mutation::DetachStateLate) => {
                *recheck = start(Stage::LateState(state));
                self.release(s, hart);
            }
            2 => {
                self.leave_loaded(s, v, hart, state);
                let vcpu = &s.vcpus[usize::from(v)];
                // EVAL after the detach, by host software.
                let eval = state == RunState::Preempted && vcpu.blocking && vcpu.has_interrupts();
                if eval || (halted && !self.has(Mutation::DetachWithoutRecheck)) {
                    s.harts[usize::from(hart)].pc = Pc::Detach(3, state);
                } else {
                    self.release(s, hart);
                }
            }
            3 => {
                *recheck = start(Stage::Check);
                if self.has(Mutation::DetachNotifiesLate) {
                    self.release(s, hart);
                } else {
                    s.harts[usize::from(hart)].pc = Pc::Detach(4, state);
                }
            }
            _ => self.release(s, hart),
        }
    }

    /// The hart has switched away from the thread.
    fn release(&self, s: &mut State, hart: u8) {
        let slot = &mut s.harts[usize::from(hart)];
        slot.pc = Pc::Idle;
        // Its handler would find no vCPU here.
        slot.latch = false;
        let v = slot.thread.take().expect("a thread was here");
        if self.has(Mutation::MigrateBeforeDetach) {
            return;
        }
        let vcpu = &mut s.vcpus[usize::from(v)];
        if vcpu.thread == Thread::Deactivated {
            vcpu.waiting = false;
            vcpu.thread = if std::mem::take(&mut vcpu.woken) {
                Thread::Runnable
            } else {
                Thread::Asleep
            };
            vcpu.resume = self.block_start();
        } else {
            vcpu.thread = Thread::Runnable;
        }
    }

    /// The guest takes and clears an interrupt its hart shows.
    pub(crate) fn take(&self, s: &mut State, hart: u8, kind: Kind) {
        let slot = &mut s.harts[usize::from(hart)];
        let vcpu = &mut s.vcpus[usize::from(slot.thread.expect("a guest runs"))];
        if kind == Kind::External && vcpu.external && !vcpu.seip() {
            // The host has changed the priority: the claim returns 0.
            self.read_file(s, hart);
            return;
        }
        let owed = match kind {
            Kind::Soft => &mut vcpu.owed_soft,
            Kind::External => &mut vcpu.owed_external,
        };
        if !std::mem::take(owed) && s.fault == Fault::None {
            s.fault = if slot.tainted {
                Fault::WrongTarget
            } else {
                Fault::Duplicate
            };
        }
        slot.tainted = false;
        match kind {
            Kind::Soft => vcpu.soft = false,
            Kind::External => vcpu.external = false,
        }
        if kind == Kind::Soft && self.has(Mutation::ClearInTwoSteps) {
            slot.pc = Pc::GuestClear;
        } else {
            self.read_file(s, hart);
        }
    }

    /// Second half of a clear that is not atomic.
    pub(crate) fn finish_clear(s: &mut State, hart: u8) {
        let slot = &mut s.harts[usize::from(hart)];
        slot.ssip = false;
        slot.pc = Pc::Guest;
    }

    /// Handler: clear `ON`, and ask for no further notification until the next attach.
    pub(crate) fn clear_on(&self, s: &mut State, v: u8) {
        let keeps_halted = self.has(Mutation::HandlerKeepsHalted);
        let vcpu = &mut s.vcpus[usize::from(v)];
        vcpu.on = false;
        let stops = match vcpu.state {
            RunState::Preempted => self.config.rules != OnRules::Draft,
            RunState::Halted => self.config.rules != OnRules::Draft && !keeps_halted,
            RunState::Stopped | RunState::Loaded => false,
        };
        if stops {
            (vcpu.state, vcpu.hart, vcpu.told) = (RunState::Stopped, 0, false);
        }
    }
}

/// A lookup has missed: whether a source is enabled must be looked up, a software interrupt always
/// is.
fn missed(kind: Option<Kind>) -> Stage {
    if kind == Some(Kind::Soft) {
        Stage::Amo
    } else {
        Stage::Check
    }
}
