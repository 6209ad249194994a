//! Random walks through the model and the real controller side by side.
//!
//! The controller completes each access at once, so the model's hardware steps are run to their end
//! after each action. After each action both must agree on files, slots, inputs of the harts,
//! arrivals at V=0 and notifications.

mod controller;

use controller::Controller;
use trapless_protocol::{
    Action, Config, Decision, Features, Handler, MAX, Note, Pc, Protocol, RunState, Scan, Stage,
    State,
};

/// Multiplicative congruential generator; the walks are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// What happened on all walks; each must have.
#[derive(Default, Debug)]
struct Seen {
    hits: usize,
    wakes: usize,
    yields: usize,
    rechecks: usize,
    evals: usize,
    silent: usize,
    latched: usize,
    overflows: usize,
    taken: usize,
    elsewhere: usize,
    unheard: usize,
    priorities: usize,
}

struct Walk {
    model: Protocol,
    state: State,
    controller: Controller,
    seen: Seen,
}

impl Walk {
    fn new(config: Config) -> Self {
        let model = Protocol::new(config);
        let state = model.initial();
        let controller = Controller::new(config.harts, config.vcpus, config.queue);
        Self {
            model,
            state,
            controller,
            seen: Seen::default(),
        }
    }

    fn apply(&mut self, action: Action) {
        let next = self.model.apply(&self.state, action);
        self.state = next.unwrap_or_else(|| panic!("{action:?} is not possible"));
    }

    fn pc(&self, hart: u8) -> Pc {
        self.state.harts[usize::from(hart)].pc
    }

    /// Queue that comes next where the controller chooses the wanted one, or else the
    /// lowest-numbered open one; those of `closed` have been tried.
    fn queue_for(&mut self, decision: Decision, closed: u8) -> u8 {
        let (Decision::Wake(wanted) | Decision::Yield(wanted)) = decision;
        let harts = 0..self.model.config.harts;
        let open = |hart: u8| self.state.harts[usize::from(hart)].queue_enabled();
        if closed >> wanted & 1 == 0 && !open(wanted) {
            return wanted;
        }
        let chosen = std::iter::once(wanted)
            .chain(harts.clone())
            .find(|&h| open(h));
        let Some(chosen) = chosen else {
            self.seen.unheard += 1;
            let untried = |&h: &u8| closed >> h & 1 == 0;
            return harts.clone().find(untried).expect("one refuses last");
        };
        self.seen.elsewhere += usize::from(chosen != wanted);
        match decision {
            Decision::Wake(_) => self.seen.wakes += 1,
            Decision::Yield(_) => self.seen.yields += 1,
        }
        chosen
    }

    /// Runs the only post to its end.
    fn finish_post(&mut self) {
        loop {
            match self.state.posts[0].stage {
                Stage::Free => return,
                Stage::Queue(decision, closed) => {
                    let to = self.queue_for(decision, closed);
                    self.apply(Action::Queue(0, to));
                }
                stage => {
                    let before = self.state;
                    self.apply(Action::Advance(0));
                    self.count(&before, stage);
                }
            }
        }
    }

    fn count(&mut self, before: &State, stage: Stage) {
        let ended = self.state.posts[0].stage == Stage::Free;
        self.seen.silent += usize::from(stage == Stage::Amo && ended);
        if let Stage::Poke(hart) = stage {
            let hart = usize::from(hart);
            self.seen.hits += 1;
            self.seen.latched +=
                usize::from(self.state.harts[hart].latch && !before.harts[hart].latch);
        }
    }

    /// Runs a detach that has begun to its end, on both sides.
    fn finish_detach(&mut self, hart: u8) {
        let Pc::Detach(mut step, state) = self.pc(hart) else {
            return;
        };
        self.controller.detach(hart, state);
        while step < 3 && self.pc(hart) != Pc::Idle {
            self.apply(Action::Step(hart));
            step += 1;
        }
        if self.pc(hart) == Pc::Detach(3, state) {
            if state == RunState::Preempted {
                let v = self.state.harts[usize::from(hart)]
                    .thread
                    .expect("still here");
                self.controller.evaluate(hart, v);
                self.seen.evals += 1;
            }
            self.apply(Action::Step(hart));
            self.finish_recheck(hart.into());
            self.apply(Action::Step(hart));
        }
        assert_eq!(self.pc(hart), Pc::Idle);
    }

    fn finish_recheck(&mut self, index: usize) {
        loop {
            match self.state.rechecks[index].stage {
                Stage::Free => return,
                Stage::Queue(decision, closed) => {
                    let to = self.queue_for(decision, closed);
                    self.apply(Action::QueueRecheck(index, to));
                    self.seen.rechecks += 1;
                }
                _ => self.apply(Action::AdvanceRecheck(index)),
            }
        }
    }

    /// One action on both sides, with all hardware steps it entails.
    fn act(&mut self, action: Action, random: &mut Random) {
        match action {
            Action::Post { to, kind } => {
                let from = self.any_online(random);
                let guest = self.pc(from) == Pc::Guest;
                self.apply(action);
                self.controller.post(from, guest, to, kind);
                self.finish_post();
            }
            Action::ScheduleIn(hart, v) => {
                self.apply(action);
                self.controller.attach(hart, v);
                while matches!(self.pc(hart), Pc::Attach(_)) {
                    self.apply(Action::Step(hart));
                }
            }
            Action::Take(hart, kind) => {
                let v = self.state.harts[usize::from(hart)]
                    .thread
                    .expect("a guest runs");
                self.apply(action);
                self.controller.take(hart, v, kind);
                self.seen.taken += 1;
            }
            Action::FlipEnable(hart) => {
                self.apply(action);
                let v = self.state.harts[usize::from(hart)]
                    .thread
                    .expect("a guest runs");
                self.controller
                    .enable(hart, v, self.state.vcpus[usize::from(v)].enabled);
            }
            Action::FlipThreshold(hart) => {
                self.apply(action);
                let v = self.state.harts[usize::from(hart)]
                    .thread
                    .expect("a guest runs");
                let raised = self.state.vcpus[usize::from(v)].raised;
                self.controller.set_threshold(hart, raised);
            }
            Action::SetPriority(v) => {
                let from = self.any_online(random);
                self.apply(action);
                let weak = self.state.vcpus[usize::from(v)].weak;
                self.controller.set_priority(from, v, weak);
                self.finish_recheck(MAX);
                self.seen.priorities += 1;
            }
            Action::Fetch(hart) => {
                let entry: Option<Note> = self.state.harts[usize::from(hart)].queue[0];
                let overflow = self.state.harts[usize::from(hart)].overflow;
                self.seen.overflows += usize::from(overflow);
                self.apply(action);
                assert_eq!(self.controller.fetch(hart), (entry, overflow));
            }
            Action::Unplug(hart) => {
                self.apply(action);
                self.controller.close_queue(hart);
            }
            Action::Plug(hart) => {
                self.apply(action);
                self.controller.open_queue(hart);
                self.apply(Action::Step(hart));
            }
            _ => self.other(action),
        }
        for hart in 0..self.model.config.harts {
            self.finish_detach(hart);
        }
    }

    /// Host software only; its atomic updates of CTL are made in the controller's memory too.
    fn other(&mut self, action: Action) {
        let clears = match action {
            Action::Handle(hart) => match self.state.harts[usize::from(hart)].handler {
                Handler::Clear(note) => Some(note.vcpu),
                _ => None,
            },
            Action::Scan(v) if self.state.vcpus[usize::from(v)].scan == Scan::Clear => {
                self.state.vcpus[usize::from(v)].on.then_some(v)
            }
            _ => None,
        };
        self.apply(action);
        if let Some(v) = clears {
            self.controller.clear_on(v);
        }
    }

    fn any_online(&self, random: &mut Random) -> u8 {
        loop {
            let hart = random.below(usize::from(self.model.config.harts)) as u8;
            // A hart that has closed its queue still posts; that is enough if none is on line.
            let asleep = self.model.config.features.sleep;
            if asleep || self.pc(hart) != Pc::Offline {
                return hart;
            }
        }
    }

    fn run(&mut self, random: &mut Random, length: usize) {
        let mut actions = Vec::new();
        for _ in 0..length {
            self.model.progress(&self.state, &mut actions);
            self.model.environment(&self.state, &mut actions);
            let action = actions[random.below(actions.len())];
            actions.clear();
            self.act(action, random);
            self.controller.compare(&self.state, action);
        }
    }
}

/// Many short walks: a guest that masks its interrupts and sleeps does not come back.
fn walks(config: Config, number: u64) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..number {
        let mut walk = Walk::new(Config {
            merge: false,
            in_flight: 1,
            ..config
        });
        walk.seen = seen;
        walk.run(&mut Random(seed), 500);
        seen = walk.seen;
    }
    println!("{seen:?}");
    seen
}

#[test]
fn controller_does_what_the_model_does() {
    let features = Features {
        external: true,
        enables: true,
        vsie: true,
        user: true,
        hotplug: true,
        threshold: true,
        priority: true,
        ..Features::default()
    };
    let seen = walks(
        Config {
            features,
            ..Config::new(3, 3)
        },
        1000,
    );
    for count in [
        seen.hits,
        seen.wakes,
        seen.yields,
        seen.rechecks,
        seen.evals,
        seen.silent,
        seen.latched,
        seen.taken,
        seen.elsewhere,
        seen.priorities,
    ] {
        assert!(count > 50, "hardly ever seen: {seen:?}");
    }
}

#[test]
fn controller_does_not_notify_where_the_model_does() {
    let features = Features {
        sleep: true,
        ..Features::default()
    };
    let seen = walks(
        Config {
            features,
            ..Config::new(2, 2)
        },
        400,
    );
    assert!(seen.unheard > 50, "hardly ever seen: {seen:?}");
}

#[test]
fn controller_overflows_as_the_model_does() {
    let seen = walks(
        Config {
            queue: 1,
            ..Config::new(2, 3)
        },
        200,
    );
    assert!(seen.overflows > 50, "hardly ever seen: {seen:?}");
}
