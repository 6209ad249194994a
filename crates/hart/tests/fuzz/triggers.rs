//! Runs a program with triggers, and compares what is seen of it with what an observer of every
//! instruction sees.

use std::sync::Arc;

use trapless_hart::{DataTrigger, Hart, MemoryAccess, Observer, Snapshot, Triggers};
use trapless_isa::inst::Inst;

use super::program::Program;
use super::rng::Rng;
use super::world::World;

/// Instructions and accesses of a run, every so many of which are kept.
#[derive(Default)]
struct Sample {
    count: u64,
    every: u64,
    pcs: Vec<u64>,
    accesses: Vec<MemoryAccess>,
}

impl Observer for Sample {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        self.count += 1;
        if self.count % self.every == 0 {
            self.pcs.push(pc);
        }
        if self.count % self.every < 4 {
            self.accesses.extend(hart.memory_access(inst));
        }
        true
    }
}

/// Triggers, in a form that is compared here with each instruction.
#[derive(Clone)]
struct Set {
    execute: Vec<u64>,
    data: Vec<DataTrigger>,
    triggers: Arc<Triggers>,
}

impl Set {
    fn new(rng: &mut Rng, sample: &Sample) -> Self {
        let (mut execute, mut data) = (Vec::new(), Vec::new());
        for _ in 0..rng.below(4) {
            if !sample.pcs.is_empty() {
                execute.push(rng.pick(&sample.pcs).wrapping_add(rng.pick(&[0, 0, 0, 2])));
            }
        }
        for _ in 0..rng.below(4) {
            if sample.accesses.is_empty() {
                continue;
            }
            let access = rng.pick(&sample.accesses);
            // At it, beside it, elsewhere in its page, or over all of that and more.
            let offset = rng.pick(&[0, 0, 1, 4, 7, 8, u64::MAX, 0_u64.wrapping_sub(8), 0x123]);
            let (load, store) = rng.pick(&[(true, false), (false, true), (true, true)]);
            data.push(DataTrigger {
                addr: access.addr.wrapping_add(offset),
                len: rng.pick(&[1, 1, 2, 4, 8, 8, 64, 5000]),
                load,
                store,
            });
        }
        let triggers = Arc::new(Triggers::new(execute.clone(), data.clone()));
        Self {
            execute,
            data,
            triggers,
        }
    }

    fn matches(&self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        let accessed = |trigger: &DataTrigger| {
            hart.memory_access(inst).is_some_and(|access| {
                let kind = access.load && trigger.load || access.store && trigger.store;
                kind && access.overlaps(trigger.addr, trigger.len)
            })
        };
        self.execute.contains(&pc) || self.data.iter().any(accessed)
    }
}

/// What matches, with everything that tells where a run is.
struct Watcher {
    set: Set,
    /// Sees each instruction.
    all: bool,
    /// Stops at every so many matches.
    stops: Option<u64>,
    stopped: bool,
    seen: Vec<(usize, u64, u64, u64)>,
}

impl Observer for Watcher {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        if std::mem::take(&mut self.stopped) || !self.set.matches(hart, pc, inst) {
            return true;
        }
        let registers = (1..32).fold(0, |sum: u64, x| sum.rotate_left(5) ^ hart.x(x));
        self.seen
            .push((hart.id(), pc, hart.instruction_time(), registers));
        let count = self.seen.len() as u64;
        self.stopped = self.stops.is_some_and(|every| count % every == 0);
        !self.stopped
    }

    fn triggers(&self) -> Option<&Arc<Triggers>> {
        (!self.all).then_some(&self.set.triggers)
    }
}

/// How a world is run.
const WORLDS: [(&str, bool, bool); 4] = [
    ("interpreted, all seen", false, true),
    ("interpreted, with triggers", false, false),
    ("compiled, with triggers", true, false),
    ("compiled, unseen", true, false),
];

/// The first difference between runs with triggers and others, as text, if there is one; and adds
/// what matched to `matches`.
pub fn check_triggers(program: &Program, matches: &mut u64) -> Option<String> {
    let rng = &mut Rng::new(program.seed ^ 0x0710_66E2);
    let mut sample = Sample {
        every: 1 + rng.below(50),
        ..Sample::default()
    };
    let end = program.slices.last().copied().unwrap_or_default();
    World::new(program, false).run(end, Some(&mut sample));
    let sets = [Set::new(rng, &sample), Set::new(rng, &sample)];
    let stops = rng.chance(25).then(|| 1 + rng.below(20));
    let mut worlds = WORLDS.map(|(_, compiled, _)| World::new(program, compiled));
    let (mut expected, mut other) = (Snapshot::default(), Snapshot::default());
    let last = program.slices.len() - 1;
    for (slice, until) in program.slices.iter().enumerate() {
        // Now and then none; and what comes back is the same set, or an equal one.
        let set = match rng.below(8) {
            0 => None,
            1..=5 => Some(sets[0].clone()),
            6 => Some(sets[1].clone()),
            _ => Some(Set {
                triggers: Arc::new((*sets[0].triggers).clone()),
                ..sets[0].clone()
            }),
        };
        let mut seen = Vec::new();
        for (world, (name, _, all)) in worlds.iter_mut().zip(WORLDS) {
            let Some(set) = set
                .as_ref()
                .filter(|_| name != WORLDS[3].0 || stops.is_some())
            else {
                world.run(*until, None);
                continue;
            };
            let mut watcher = Watcher {
                set: set.clone(),
                all,
                stops,
                stopped: false,
                seen: Vec::new(),
            };
            world.run(*until, Some(&mut watcher));
            seen.push((name, watcher.seen));
        }
        *matches += seen.first().map_or(0, |(_, seen)| seen.len() as u64);
        let mut wrong = Vec::new();
        for (name, other) in seen.iter().skip(1) {
            let expected = &seen[0].1;
            if expected != other {
                let same = expected.iter().zip(other).take_while(|(a, b)| a == b);
                let same = same.count();
                let (a, b) = (expected.get(same), other.get(same));
                wrong.push(format!("{name}: match {same} is {b:x?}, not {a:x?}"));
            }
        }
        let (first, others) = worlds.split_at(1);
        for (world, (name, ..)) in others.iter().zip(&WORLDS[1..]) {
            for (a, b) in first[0].harts.iter().zip(&world.harts) {
                expected.take(a);
                other.take(b);
                if let Some((what, a, b)) = expected.differences(&other).first() {
                    wrong.push(format!("{name}: {what} is {b:#x}, not {a:#x}"));
                }
            }
            if first[0].device.log != world.device.log {
                wrong.push(format!("{name}: another log"));
            }
            if slice == last && first[0].memory() != world.memory() {
                wrong.push(format!("{name}: another memory"));
            }
        }
        if !wrong.is_empty() {
            let triggers = set.map(|set| set.triggers);
            return Some(format!(
                "seed {} slice {slice}: {wrong:#?} with {triggers:#x?}, stops {stops:?}",
                program.seed
            ));
        }
    }
    None
}
