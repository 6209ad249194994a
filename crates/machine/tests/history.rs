//! Machines that go back.

mod common;

use std::fmt::Write;

use common::*;
use trapless_hart::Tiers;
use trapless_ledger::event::{Event, Sink};
use trapless_machine::{
    Engine, History, Limits, Machine, MachineConfig, Outcome, Peripherals, Shared,
};

/// Every event as text.
#[derive(Default)]
struct Events(String);

impl Sink for Events {
    fn record(&mut self, event: &Event) {
        let _ = writeln!(self.0, "{event:?}");
    }
}

struct Watched {
    machine: Machine,
    console: Output,
    events: Shared<Events>,
}

impl Watched {
    fn new(engine: Engine) -> Self {
        let config = MachineConfig {
            engine,
            ..config("sstc", 2)
        };
        let (console, events) = (Output::default(), Shared::new(Events::default()));
        let peripherals = Peripherals::new(Box::new(console.clone()));
        let payload = timers_and_ipis().payload();
        let mut machine = Machine::boot(config, &payload, peripherals).unwrap();
        machine.add_sink(Box::new(events.clone()));
        Self {
            machine,
            console,
            events,
        }
    }

    fn run(&mut self, until: u64) -> Outcome {
        let instret = 10_000_000;
        self.machine.run(&Limits { until, instret })
    }

    /// All that can be seen of a run.
    fn seen(&self) -> (u64, u64, u64, String, String) {
        let machine = &self.machine;
        (
            machine.now(),
            machine.instret(),
            machine.state_hash(),
            self.console.text(),
            self.events.lock().0.clone(),
        )
    }
}

/// Promise: however often a machine goes back, what it does, prints and reports is what one does
/// that only went forward, once.
#[test]
fn a_machine_that_goes_back_does_the_same_again() {
    for engine in [Engine::Jit(Tiers::EAGER), Engine::Interp] {
        let mut whole = Watched::new(engine);
        assert_eq!(whole.run(u64::MAX), Outcome::PoweredOff);
        let end = whole.machine.now();
        assert!(whole.console.text().len() > 100 && whole.events.lock().0.len() > 1000);

        let mut other = Watched::new(engine);
        let mut history = History::new(1 << 30);
        history.begin(&mut other.machine);
        // Numbers in no order, the same each time.
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below.max(1)
        };
        let mut hashes = Vec::new();
        for step in 1..40 {
            let present = end * step / 40;
            other.run(present);
            history.keep(&mut other.machine);
            hashes.push((other.machine.now(), other.machine.state_hash()));
            for _ in 0..3 {
                let (time, hash) = hashes[next(hashes.len() as u64) as usize];
                history
                    .go_back(&mut other.machine, time - next(time))
                    .unwrap();
                other.run(time);
                assert_eq!(other.machine.state_hash(), hash, "at {time}");
                history.arrive(&other.machine);
            }
            let (now, _) = hashes[hashes.len() - 1];
            other.run(now);
            assert!(history.arrive(&other.machine));
        }
        assert!(history.snapshots() > 20 && history.size() > 0);
        assert_eq!(other.run(u64::MAX), Outcome::PoweredOff);
        assert_eq!(other.seen(), whole.seen(), "{engine:?}");
    }
}

/// Promise: a history keeps to its memory, and gives up the oldest past last.
#[test]
fn a_history_has_a_limit() {
    let mut watched = Watched::new(Engine::Interp);
    let mut history = History::new(1 << 20);
    history.begin(&mut watched.machine);
    let beginning = history.beginning();
    for step in 1..300 {
        watched.run(step * 500);
        history.keep(&mut watched.machine);
        assert!(history.size() <= 1 << 20 || history.snapshots() == 1);
    }
    assert!((2..=128).contains(&history.snapshots()));
    assert_eq!(history.beginning(), beginning);
    let mut none = History::new(0);
    none.begin(&mut watched.machine);
    assert!(none.go_back(&mut watched.machine, 0).is_err());
}
