//! The same run twice.

use serde_json::Value;

use crate::runs::{Engine, Job, Run, Watched, by_engine, run};

/// The ledger without the block about the host's time.
pub fn reproducible(json: &str) -> String {
    let mut ledger: Value = serde_json::from_str(json).expect("ledgers are JSON");
    let block = ledger.as_object_mut().and_then(|l| l.remove("host"));
    assert!(block.is_some(), "a run tells its time on the host");
    ledger.to_string()
}

fn assert_same(a: &Run, b: &Run) {
    // Compared as text: a difference in order or number format is one, too.
    let (x, y) = (reproducible(&a.json), reproducible(&b.json));
    let at = x.bytes().zip(y.bytes()).position(|(p, q)| p != q);
    let around = at.map(|at| &x[at.saturating_sub(200)..(at + 100).min(x.len())]);
    assert!(x == y, "{} differs near: {around:?}", a.name());
}

/// Promise: two runs write identical ledgers except `host`, however they are watched and whatever
/// else the computer does meanwhile (other runs are active meanwhile).
#[test]
fn watching_a_run_does_not_change_its_ledger() {
    let plain = run("sstc", "timer", Watched::Plain);
    assert_same(run("sstc", "timer", Watched::Log), plain);
}

/// Promise: the same with two harts and two vCPUs that run in turns, and with an interrupt
/// controller that acts on its own.
#[test]
fn harts_take_turns_in_the_same_way_every_time() {
    let traced = run("trapless", "ipi", Watched::Trace);
    assert_same(run("trapless", "ipi", Watched::Log), traced);
}

/// Promise: the engine makes no difference: everything a ledger counts and times is the same with
/// the interpreter as with compiled code, and when code is dropped and compiled again all the time.
#[test]
fn engines_write_the_same_ledger() {
    for engine in [Engine::Interpreted, Engine::SmallCache] {
        let other = by_engine(engine);
        let Job {
            machine, workload, ..
        } = other.job;
        assert_same(other, run(machine, workload, Watched::Log));
    }
}

/// Promise: the log shows what the ledger counts: every trap and every device access, no more, no
/// less.
#[test]
fn log_and_ledger_agree() {
    for run in crate::runs::logged() {
        let mut ledger = std::collections::BTreeMap::new();
        for t in &run.ledger.total.traps {
            let step = format!("{}>{}", t.from, t.to);
            let cause = if t.interrupt {
                crate::interrupts::short(&t.cause).to_string()
            } else {
                t.cause.clone()
            };
            *ledger.entry((t.hart, step, cause)).or_insert(0) += t.count;
        }
        let mut log = std::collections::BTreeMap::new();
        for ((hart, step, cause), n) in run.log.traps() {
            log.insert((hart, step.to_string(), cause.to_string()), n);
        }
        assert_eq!(log, ledger, "{}", run.name());

        use crate::log::Kind;
        let accesses = |kind| run.log.events.iter().filter(|e| e.kind == kind).count() as u64;
        let devices = || run.ledger.total.devices.values().flatten();
        assert_eq!(
            accesses(Kind::Read),
            devices().map(|d| d.reads).sum::<u64>()
        );
        assert_eq!(
            accesses(Kind::Write),
            devices().map(|d| d.writes).sum::<u64>()
        );
        let returns = run
            .ledger
            .total
            .returns
            .iter()
            .map(|r| r.count)
            .sum::<u64>();
        assert_eq!(accesses(Kind::Return), returns);
    }
}
