//! Two engines side by side: a machine and its interpreted twin, compared after every round.
//!
//! ```text
//! accompany ── twin from the same configuration and input
//! run:  one round of the machine, one of the twin
//!       equal? program counters, time, integer registers, events    every round
//!              all registers and CSRs                                every FULL rounds
//!              RAM                                                   every RAM_INTERVAL, and at the end
//! on a difference: rerun both from reset up to there, then narrow by round and by block
//! ```

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use trapless_hart::Snapshot;
use trapless_isa::decode::decode;
use trapless_isa::disasm::disasm;
use trapless_isa::page::page_offset;
use trapless_ledger::event::{Event, Sink};
use vm_memory::{Bytes, GuestAddress};

use crate::config::preset::Engine;
use crate::drive::progress::{Limits, Outcome};
use crate::error::Error;
use crate::machine::Machine;
use crate::outside::Input;

/// Rounds between two comparisons of all registers.
const FULL: u64 = 16;
/// Virtual time between two comparisons of all RAM, in cycles.
const RAM_INTERVAL: u64 = 2_000_000_000;
/// Bytes of RAM compared at once.
const CHUNK: usize = 1 << 16;
/// Events shown before a difference.
const LAST_EVENTS: usize = 8;
/// Maximum number of instructions shown of a block.
const SHOWN: usize = 64;
/// Rounds that the search for a difference continues after the time at which it was found.
const GRACE: u64 = 4 * FULL;

/// Builds the machine again, with this engine and without console input.
pub type Build = Box<dyn Fn(Engine) -> Result<Machine, Error> + Send>;

/// Events of a machine since the last comparison.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<Event>>>);

impl Sink for Tape {
    fn record(&mut self, event: &Event) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(*event);
    }
}

impl Tape {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A difference: its name, and its values on the machine and on the twin.
type Difference = (String, String, String);

/// Compares machines.
#[derive(Default)]
struct Comparison {
    tapes: [Tape; 2],
    snapshots: [Snapshot; 2],
    last_events: VecDeque<Event>,
}

impl Comparison {
    /// Records the events of both.
    fn of(machines: [&mut Machine; 2]) -> Self {
        let comparison = Self::default();
        for (machine, tape) in machines.into_iter().zip(&comparison.tapes) {
            machine.add_sink(Box::new(tape.clone()));
        }
        comparison
    }

    /// Differences between the harts of `a` and `b`, and between the events since the last
    /// comparison.
    fn differences(&mut self, a: &Machine, b: &Machine, full: bool) -> Vec<Difference> {
        let mut found = Vec::new();
        for (left, right) in a.harts.iter().zip(&b.harts) {
            if full || !left.agrees(right) {
                let [x, y] = &mut self.snapshots;
                x.take(left);
                y.take(right);
                found.extend(x.differences(y).into_iter().map(|(name, x, y)| {
                    let name = format!("hart {} {name}", left.id());
                    (name, format!("{x:#x}"), format!("{y:#x}"))
                }));
            }
        }
        if a.now() != b.now() {
            let both = (a.now().to_string(), b.now().to_string());
            found.push(("machine's time".into(), both.0, both.1));
        }
        let [ours, theirs] = self.tapes.each_ref().map(Tape::take);
        let same = ours.iter().zip(&theirs).take_while(|(x, y)| x == y).count();
        for event in &ours[..same] {
            if self.last_events.len() == LAST_EVENTS {
                self.last_events.pop_front();
            }
            self.last_events.push_back(*event);
        }
        if ours.len() != same || theirs.len() != same {
            let text = |events: &[Event]| match events.get(same) {
                Some(event) => format!("{event:?}"),
                None => "none".into(),
            };
            found.push(("event".into(), text(&ours), text(&theirs)));
        }
        found
    }
}

/// The first differing doubleword of RAM.
fn ram_difference(a: &Machine, b: &Machine) -> Option<u64> {
    let (mut x, mut y) = (vec![0; CHUNK], vec![0; CHUNK]);
    let end = a.ram.base() + a.ram.size();
    for at in (a.ram.base()..end).step_by(CHUNK) {
        let len = (end - at).min(CHUNK as u64) as usize;
        let read = |machine: &Machine, data: &mut [u8]| {
            let memory = machine.ram.guest_memory();
            memory
                .read_slice(&mut data[..len], GuestAddress(at))
                .is_ok()
        };
        if !(read(a, &mut x) && read(b, &mut y)) || x == y {
            continue;
        }
        let byte = x.iter().zip(&y).position(|(x, y)| x != y);
        return byte.map(|byte| at + (byte as u64 & !7));
    }
    None
}

/// The doubleword at `at`, if it differs.
fn word_difference(a: &Machine, b: &Machine, at: Option<u64>) -> Option<Difference> {
    let at = at?;
    let (x, y) = (a.ram.load(at, 8)?, b.ram.load(at, 8)?);
    (x != y).then(|| {
        (
            format!("RAM at {at:#x}"),
            format!("{x:#x}"),
            format!("{y:#x}"),
        )
    })
}

/// Instructions from the program counter of hart `index` on, to the end of their block.
fn block(machine: &mut Machine, index: usize) -> String {
    let hart = &mut machine.harts[index];
    let (mut pc, mut text) = (hart.pc(), String::new());
    for _ in 0..SHOWN {
        let Some(pa) = hart.debug_translate(pc) else {
            break;
        };
        let parcel = |at| machine.ram.load(at, 2).map(|parcel| parcel as u32);
        let (Some(low), high) = (parcel(pa), parcel(pa + 2)) else {
            break;
        };
        let inst = decode(low | high.unwrap_or_default() << 16);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {pc:#x}: {}", disasm(inst, pc));
        pc = pc.wrapping_add(inst.len.into());
        if inst.op.ends_block() || page_offset(pc) == 0 {
            break;
        }
    }
    text
}

/// A pair of new machines.
struct Pair {
    machines: [Machine; 2],
    comparison: Comparison,
}

impl Pair {
    fn new(build: &Build, engine: Engine, inputs: &[(u64, Input)]) -> Result<Self, Error> {
        let mut machines = [build(engine)?, build(Engine::Interp)?];
        for machine in &mut machines {
            for (at, input) in inputs {
                machine.bring(*at, input.clone());
            }
        }
        let [a, b] = &mut machines;
        let comparison = Comparison::of([a, b]);
        Ok(Self {
            machines,
            comparison,
        })
    }

    /// Runs both to virtual time `until` without comparing them.
    fn run_to(&mut self, until: u64) {
        let limits = Limits {
            until,
            ..Limits::default()
        };
        for machine in &mut self.machines {
            machine.run(&limits);
        }
        let [a, b] = &self.machines;
        self.comparison.differences(a, b, false);
    }

    /// One step of both: a block if the machines stop after each, else a round.
    fn step(&mut self, watch: Option<u64>) -> (Vec<Difference>, bool) {
        let [a, b] = &mut self.machines;
        let limits = Limits {
            until: a.now() + 1,
            ..Limits::default()
        };
        let outcomes = [a.run(&limits), b.run(&limits)];
        let mut found = self.comparison.differences(a, b, true);
        if outcomes[0] != outcomes[1] {
            let [x, y] = outcomes.map(|outcome| format!("{outcome:?}"));
            found.push(("end of the run".into(), x, y));
        }
        found.extend(word_difference(a, b, watch));
        (found, outcomes[0] == Outcome::Limit)
    }
}

/// A second machine that runs in lock-step with a machine and is compared with it.
pub(crate) struct Twin {
    machine: Machine,
    build: Build,
    comparison: Comparison,
    inputs: Vec<(u64, Input)>,
    rounds: u64,
    /// Virtual time up to which all registers were equal, and RAM.
    equal: u64,
    ram_equal: u64,
    report: String,
}

impl Twin {
    fn new(machine: &mut Machine, build: Build) -> Result<Self, Error> {
        let mut twin = build(Engine::Interp)?;
        let comparison = Comparison::of([machine, &mut twin]);
        Ok(Self {
            machine: twin,
            build,
            comparison,
            inputs: Vec::new(),
            rounds: 0,
            equal: 0,
            ram_equal: 0,
            report: String::new(),
        })
    }

    fn run(&mut self, machine: &mut Machine, limits: &Limits) -> Outcome {
        loop {
            if machine.now() >= limits.until {
                return Outcome::Limit;
            }
            let round = Limits {
                until: machine.now() + 1,
                ..*limits
            };
            let ours = machine.run_alone(&round, None);
            if ours == Outcome::Stopped {
                return ours;
            }
            let theirs = self.machine.run_alone(&round, None);
            self.rounds += 1;
            let over = !matches!(ours, Outcome::Limit | Outcome::Idle);
            let full = ours != Outcome::Limit || self.rounds % FULL == 0;
            let mut found = self.comparison.differences(machine, &self.machine, full);
            if ours != theirs {
                let [x, y] = [ours, theirs].map(|outcome| format!("{outcome:?}"));
                found.push(("end of the run".into(), x, y));
            }
            let (mut from, mut watch) = (self.equal, None);
            if found.is_empty() && (over || machine.now() >= self.ram_equal + RAM_INTERVAL) {
                watch = ram_difference(machine, &self.machine);
                found.extend(word_difference(machine, &self.machine, watch));
                if found.is_empty() {
                    self.ram_equal = machine.now();
                } else {
                    from = self.ram_equal;
                }
            }
            if !found.is_empty() {
                self.report = self.explain(machine, from, watch, &found);
                return Outcome::Diverged;
            }
            if full {
                self.equal = machine.now();
            }
            if ours != Outcome::Limit || machine.instret() >= limits.instret {
                return ours;
            }
        }
    }

    /// Describes the differences `found`, which did not exist yet at virtual time `from`.
    fn explain(
        &self,
        machine: &Machine,
        from: u64,
        watch: Option<u64>,
        found: &[Difference],
    ) -> String {
        let until = machine.now();
        match self.locate(machine.config.engine, from, until, watch) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let mut text = format!(
                    "the engines differ between cycles {from} and {until}; when the machines ran again, \
                     in smaller steps, they did not\n"
                );
                list(&mut text, found);
                events(&mut text, &self.comparison);
                text
            }
            Err(error) => format!(
                "the engines differ between cycles {from} and {until}, and the machines cannot be built \
                 again to find out where: {error}"
            ),
        }
    }

    /// Runs two new machines to the first difference after virtual time `from`.
    fn locate(
        &self,
        engine: Engine,
        from: u64,
        until: u64,
        watch: Option<u64>,
    ) -> Result<Option<String>, Error> {
        let mut pair = Pair::new(&self.build, engine, &self.inputs)?;
        pair.run_to(from);
        let mut grace = 0;
        let (start, in_round) = loop {
            let start = pair.machines[0].now();
            let (found, continues) = pair.step(watch);
            if !found.is_empty() {
                break (start, found);
            }
            grace += u64::from(pair.machines[0].now() > until);
            if !continues || grace > GRACE {
                return Ok(None);
            }
        };
        let mut pair = Pair::new(&self.build, engine, &self.inputs)?;
        pair.run_to(start);
        for machine in &mut pair.machines {
            machine.clock.single = true;
        }
        while pair.machines[0].now() == start {
            let harts = pair.machines[0].harts.len();
            let mut blocks = Vec::new();
            for hart in 0..harts {
                // Of both machines, so that inspection has the same side effects on both.
                block(&mut pair.machines[0], hart);
                blocks.push(block(&mut pair.machines[1], hart));
            }
            let before: Vec<_> = pair.machines[1]
                .harts
                .iter()
                .map(|hart| (hart.now(), hart.pc(), hart.mode()))
                .collect();
            let (found, continues) = pair.step(watch);
            if !found.is_empty() {
                let moved = |hart: &usize| {
                    let ran = |machine: &Machine| machine.harts[*hart].now() != before[*hart].0;
                    pair.machines.iter().any(ran)
                };
                let hart = (0..harts).find(moved).unwrap_or(0);
                let (time, pc, mode) = before[hart];
                let mut text = format!(
                    "the engines differ after the block at {pc:#x} of hart {hart} in {mode:?}-mode, which \
                     began at cycle {time}\n"
                );
                list(&mut text, &found);
                text.push_str("the block:\n");
                text.push_str(&blocks[hart]);
                events(&mut text, &pair.comparison);
                return Ok(Some(text));
            }
            if !continues {
                break;
            }
        }
        let mut text = format!(
            "the engines differ in the round that began at cycle {start}; block by block they do not\n"
        );
        list(&mut text, &in_round);
        events(&mut text, &pair.comparison);
        Ok(Some(text))
    }
}

fn list(text: &mut String, found: &[Difference]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {:24} {:>20} {:>20}", "", "compiled", "interpreted");
    for (name, ours, theirs) in found {
        let _ = writeln!(text, "  {name:24} {ours:>20} {theirs:>20}");
    }
}

fn events(text: &mut String, comparison: &Comparison) {
    if !comparison.last_events.is_empty() {
        text.push_str("last events before:\n");
    }
    for event in &comparison.last_events {
        let _ = writeln!(text, "  {event:?}");
    }
}

impl Machine {
    /// Runs an interpreted twin of this machine, built by `build`, in lock-step from now on: a run
    /// ends with [`Outcome::Diverged`] when they differ. To be called before the first instruction.
    /// The twin gets the machine's input, but no changes that a debugger makes.
    ///
    /// # Errors
    /// As [`boot`](Self::boot).
    pub fn accompany(&mut self, build: Build) -> Result<(), Error> {
        self.twin = Some(Box::new(Twin::new(self, build)?));
        Ok(())
    }

    /// The differences after [`Outcome::Diverged`]: lines of text.
    #[must_use]
    pub fn divergence(&self) -> &str {
        self.twin.as_ref().map_or("", |twin| &twin.report)
    }

    /// Runs with the twin, if there is one.
    pub(crate) fn run_with_twin(&mut self, limits: &Limits) -> Option<Outcome> {
        let mut twin = self.twin.take()?;
        let outcome = twin.run(self, limits);
        // A machine that stopped in the middle of a round has no twin from now on.
        if outcome != Outcome::Stopped {
            self.twin = Some(twin);
        }
        Some(outcome)
    }

    /// Passes input to the twin.
    pub(crate) fn twin_input(&mut self, at: u64, input: &Input) {
        if let Some(twin) = &mut self.twin {
            twin.machine.bring(at, input.clone());
            twin.inputs.push((at, input.clone()));
        }
    }
}
