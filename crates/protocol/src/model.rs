//! The model: its actions, which of them make progress without the environment, and their effects.

use std::sync::atomic::AtomicBool;

use crate::config::{Config, Mutation};
use crate::state::{Access, Handler, Hart, Kind, MAX, Pc, RunState, Scan, Stage, State, Thread};

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// `sgenipi`, `hgenvsi` or `ugenvsei` on any hart.
    Post {
        /// vCPU it interrupts.
        to: u8,
        /// Kind of interrupt.
        kind: Kind,
    },
    /// Next step of the post in this place.
    Advance(usize),
    /// Next step of the re-check that this hart's detach has started, or, last, of the host's EVAL.
    AdvanceRecheck(usize),
    /// The post in this place queues its notification at this hart.
    Queue(usize, u8),
    /// The re-check of the first hart (or, last, the host's EVAL) queues its notification at the
    /// second.
    QueueRecheck(usize, u8),
    /// Next step of the thread on this hart (attach, detach, block, unplug).
    Step(u8),
    /// Enter the guest.
    Enter(u8),
    /// The guest takes an interrupt.
    Take(u8, Kind),
    /// The guest executes WFI, which traps.
    Wfi(u8),
    /// The guest traps to the host, for whatever reason.
    Trap(u8),
    /// The scheduler preempts the thread on this hart.
    Preempt(u8),
    /// `KVM_RUN` returns to user space.
    Return(u8),
    /// The scheduler puts the thread of a vCPU on a hart.
    ScheduleIn(u8, u8),
    /// Take the notification interrupt: read `hnotify`.
    Fetch(u8),
    /// Next step of the interrupt handler.
    Handle(u8),
    /// Next step of the work that an overflow has queued for a vCPU.
    Scan(u8),
    /// Take the interrupt latched in `hip`, and clear it.
    TakeLatch(u8),
    /// The guest flips the enable bit of its source.
    FlipEnable(u8),
    /// The guest raises or lowers its threshold.
    FlipThreshold(u8),
    /// The host stores another priority of the source of a vCPU.
    SetPriority(u8),
    /// The guest flips its `vsie.SSIE`.
    FlipMask(u8),
    /// Begin to take a hart off line, or to let it fall asleep.
    Unplug(u8),
    /// Bring a hart back, or let it wake up.
    Plug(u8),
}

/// Number of properties that must hold in every state.
const PROPERTIES: usize = 9;

/// The delivery protocol, a [`Model`](stateright::Model).
pub struct Protocol {
    /// The configuration.
    pub config: Config,
    /// Whether a counterexample of this property was reported: the first is the shortest.
    pub(crate) reported: [AtomicBool; PROPERTIES],
}

impl Protocol {
    /// A model of this configuration.
    ///
    /// # Panics
    /// If a size is outside 1..=3.
    pub fn new(config: Config) -> Self {
        for size in [config.harts, config.vcpus, config.in_flight, config.queue] {
            assert!(
                (1..=MAX).contains(&usize::from(size)),
                "sizes are 1..={MAX}"
            );
        }
        Self {
            config,
            reported: Default::default(),
        }
    }

    /// All vCPUs runnable in user space, nothing pending, sources enabled.
    pub fn initial(&self) -> State {
        let mut s = State {
            left: self.config.sends.unwrap_or(0),
            open: self.config.harts,
            ..State::default()
        };
        for vcpu in &mut s.vcpus[..usize::from(self.config.vcpus)] {
            vcpu.enabled = true;
            vcpu.resume = Pc::Host;
        }
        for hart in &mut s.harts[usize::from(self.config.harts)..] {
            hart.pc = Pc::Offline;
        }
        s
    }

    /// Actions without the environment: hardware steps, and steps of host and guest when no new
    /// interrupt is sent and no thread is preempted.
    pub fn progress(&self, s: &State, out: &mut Vec<Action>) {
        self.accesses(s, out);
        out.extend(
            (0..self.config.vcpus)
                .filter(|&v| s.vcpus[usize::from(v)].scan != Scan::Done)
                .map(Action::Scan),
        );
        if self.harts(s).all(|hart| hart.pc == Pc::Offline) {
            // Sleeping harts wake up eventually.
            out.extend((0..self.config.harts).map(Action::Plug));
        }
        for h in 0..self.config.harts {
            let hart = &s.harts[usize::from(h)];
            if hart.handler != Handler::None {
                out.push(Action::Handle(h));
                continue;
            }
            if self.waits_for_poke(s, h) {
                continue;
            }
            if hart.interruptible() && hart.notified() {
                out.push(Action::Fetch(h));
            }
            if hart.interruptible() && hart.latch && !self.has(Mutation::LatchIgnored) {
                out.push(Action::TakeLatch(h));
            }
            match hart.pc {
                Pc::Idle => {
                    out.extend(self.runnable(s).map(|v| Action::ScheduleIn(h, v)));
                }
                Pc::Host if !hart.notified() => out.push(Action::Enter(h)),
                Pc::Guest => {
                    let vcpu = hart.thread.map(|v| s.vcpus[usize::from(v)]);
                    let open = vcpu.is_some_and(|vcpu| !vcpu.masked);
                    if hart.notified() {
                        out.push(Action::Trap(h));
                    }
                    if open && hart.ssip {
                        out.push(Action::Take(h, Kind::Soft));
                    }
                    if hart.seip {
                        out.push(Action::Take(h, Kind::External));
                    }
                    if Self::waits_in_vain(s, h) {
                        out.push(Action::Wfi(h));
                    }
                }
                Pc::Detach(step, _) if !Self::detach_ready(s, h, step) => {}
                Pc::Draining if hart.notified() => {}
                Pc::Opening if !self.synchronized(s, h) => {}
                Pc::Host | Pc::Offline => {}
                _ => out.push(Action::Step(h)),
            }
        }
    }

    fn accesses(&self, s: &State, out: &mut Vec<Action>) {
        for (i, access) in s.posts.iter().enumerate() {
            match access.stage {
                Stage::Free => {}
                // Equivalent accesses lead to the same state.
                _ if i > 0 && s.posts[i - 1] == *access => {}
                Stage::Queue(decision, closed) => {
                    out.extend(
                        self.queues_for(decision, closed)
                            .into_iter()
                            .map(|h| Action::Queue(i, h)),
                    );
                }
                _ if self.must_wait(s, access) => {}
                _ => out.push(Action::Advance(i)),
            }
        }
        for (i, access) in s.rechecks.iter().enumerate() {
            match access.stage {
                Stage::Free => {}
                Stage::Queue(decision, closed) => {
                    let to = self.queues_for(decision, closed).into_iter();
                    out.extend(to.map(|h| Action::QueueRecheck(i, h)));
                }
                _ if self.must_wait(s, access) => {}
                _ => out.push(Action::AdvanceRecheck(i)),
            }
        }
    }

    fn harts<'a>(&self, s: &'a State) -> impl Iterator<Item = &'a Hart> {
        s.harts[..usize::from(self.config.harts)].iter()
    }

    /// A hart finishes reading its file before it changes slot, file or `vsip` otherwise.
    fn waits_for_poke(&self, s: &State, h: u8) -> bool {
        s.being_read(h) && !self.has(Mutation::PokesOverlap)
    }

    /// The next step of an access must wait for others.
    fn must_wait(&self, s: &State, access: &Access) -> bool {
        match access.stage {
            Stage::Poke(h) => self.waits_for_poke(s, h),
            Stage::Sync => {
                let weak = s.vcpus[usize::from(access.target)].weak;
                let former = |post: &Access| {
                    post.target == access.target
                        && post.kind == Some(Kind::External)
                        && post.silent != weak
                };
                !self.has(Mutation::EvalWithoutSync) && s.posts.iter().any(former)
            }
            _ => false,
        }
    }

    /// A WFI now would find nothing. (While an access is in flight a guest may repeat WFI, but need
    /// not.)
    fn waits_in_vain(s: &State, h: u8) -> bool {
        let hart = &s.harts[usize::from(h)];
        let empty = |v: u8| !s.vcpus[usize::from(v)].deliverable();
        !hart.ssip && !hart.seip && hart.thread.is_some_and(empty)
    }

    fn runnable(&self, s: &State) -> impl Iterator<Item = u8> {
        let vcpus = s.vcpus;
        (0..self.config.vcpus).filter(move |&v| vcpus[usize::from(v)].thread == Thread::Runnable)
    }

    /// Actions of the environment: what may happen at any time, any number of times, or never.
    pub fn environment(&self, s: &State, out: &mut Vec<Action>) {
        let features = &self.config.features;
        let may_send = self.config.sends.is_none() || s.left > 0;
        let used = s
            .posts
            .iter()
            .filter(|post| post.stage != Stage::Free)
            .count();
        let harts_online = s
            .harts
            .iter()
            .filter(|hart| hart.queue_enabled() && hart.pc != Pc::Opening)
            .count();
        if may_send && used < usize::from(self.config.in_flight) {
            for to in 0..self.config.vcpus {
                out.push(Action::Post {
                    to,
                    kind: Kind::Soft,
                });
                if features.sources() {
                    out.push(Action::Post {
                        to,
                        kind: Kind::External,
                    });
                }
            }
        }
        if features.priority && s.rechecks[MAX].stage == Stage::Free {
            out.extend((0..self.config.vcpus).map(Action::SetPriority));
        }
        for h in 0..self.config.harts {
            let hart = &s.harts[usize::from(h)];
            if hart.handler != Handler::None || self.waits_for_poke(s, h) {
                continue;
            }
            match hart.pc {
                Pc::Guest => {
                    if !hart.notified() {
                        out.push(Action::Trap(h));
                    }
                    if !Self::waits_in_vain(s, h) {
                        out.push(Action::Wfi(h));
                    }
                    if features.enables {
                        out.push(Action::FlipEnable(h));
                    }
                    if features.threshold {
                        out.push(Action::FlipThreshold(h));
                    }
                    if features.vsie {
                        out.push(Action::FlipMask(h));
                    }
                }
                Pc::Host => {
                    if hart.notified() {
                        out.push(Action::Enter(h));
                    }
                    out.push(Action::Preempt(h));
                    if features.user {
                        out.push(Action::Return(h));
                    }
                }
                // Preempted before it has looked at its file it looks afterwards: as if before WFI.
                Pc::CheckBlock if self.config.merge => {}
                Pc::SetInterruptible | Pc::CheckBlock | Pc::Schedule => {
                    out.push(Action::Preempt(h));
                }
                Pc::Idle if features.sleep || features.hotplug && harts_online > 1 => {
                    out.push(Action::Unplug(h));
                }
                Pc::Offline if features.hotplug || features.sleep => out.push(Action::Plug(h)),
                _ => {}
            }
        }
    }

    /// The state after an action that [`Self::progress`] or [`Self::environment`] offers.
    pub fn apply(&self, s: &State, action: Action) -> Option<State> {
        let mut s = *s;
        match action {
            Action::Post { to, kind } => self.post(&mut s, to, kind),
            Action::Advance(i) => {
                let access = s.posts[i];
                s.posts[i] = self.advance(&mut s, access, 0);
            }
            Action::AdvanceRecheck(i) => {
                let access = s.rechecks[i];
                s.rechecks[i] = self.advance(&mut s, access, i as u8);
            }
            Action::Queue(i, hart) => {
                let access = s.posts[i];
                s.posts[i] = self.enqueue(&mut s, hart, access)?;
            }
            Action::QueueRecheck(i, hart) => {
                let access = s.rechecks[i];
                s.rechecks[i] = self.enqueue(&mut s, hart, access)?;
            }
            Action::Step(h) => self.step(&mut s, h)?,
            Action::Enter(h) => {
                let hart = &mut s.harts[usize::from(h)];
                (hart.pc, hart.latch) = (Pc::Guest, false);
            }
            Action::Take(h, kind) => self.take(&mut s, h, kind),
            Action::Wfi(h) => {
                let v = s.harts[usize::from(h)].thread?;
                s.vcpus[usize::from(v)].blocking = true;
                self.go_on(&mut s, h, self.block_start());
            }
            Action::Trap(h) => s.harts[usize::from(h)].pc = Pc::Host,
            Action::Preempt(h) => self.preempt(&mut s, h),
            Action::Return(h) => {
                let v = s.harts[usize::from(h)].thread?;
                s.vcpus[usize::from(v)].resume = Pc::Host;
                self.detach(&mut s, h, 1, RunState::Stopped);
            }
            Action::ScheduleIn(h, v) => self.schedule_in(&mut s, h, v),
            Action::Fetch(h) => self.fetch(&mut s, h),
            Action::Handle(h) => self.handle(&mut s, h),
            Action::Scan(v) => self.scan(&mut s, v),
            Action::TakeLatch(h) => {
                let hart = &mut s.harts[usize::from(h)];
                (hart.latch, hart.handler) = (false, Handler::Latch);
            }
            Action::FlipEnable(h) => {
                let v = s.harts[usize::from(h)].thread?;
                s.vcpus[usize::from(v)].enabled ^= true;
                self.read_file(&mut s, h);
            }
            Action::FlipThreshold(h) => {
                let v = s.harts[usize::from(h)].thread?;
                s.vcpus[usize::from(v)].raised ^= true;
                self.read_file(&mut s, h);
            }
            Action::SetPriority(v) => {
                s.vcpus[usize::from(v)].weak ^= true;
                s.rechecks[MAX] = Access {
                    stage: Stage::Sync,
                    target: v,
                    ..Access::default()
                };
            }
            Action::FlipMask(h) => {
                let v = s.harts[usize::from(h)].thread?;
                s.vcpus[usize::from(v)].masked ^= true;
            }
            Action::Unplug(h) => self.close(&mut s, h),
            Action::Plug(h) => {
                let hart = &mut s.harts[usize::from(h)];
                // Opening makes a queue empty.
                hart.queue = Default::default();
                (hart.overflow, hart.pc) = (false, Pc::Opening);
            }
        }
        if self.config.merge {
            self.merge(&mut s);
        }
        s.posts.sort_unstable_by(|a, b| b.cmp(a));
        Some(s)
    }
}
