//! Backwards: to the last place that gdb would have stopped at.
//!
//! ```text
//! a stretch of the past, up to where the machine stands, or to the last stretch:
//!     back to its beginning, then forward through it, counting instructions and noting what counts
//!     something was noted? back to its beginning, then forward by so many instructions
//!     else a longer stretch before it
//! ```

use trapless_hart::{Hart, Observer};
use trapless_isa::inst::Inst;
use trapless_machine::{History, Limits, Machine, Outcome, Place};

use crate::breaks::{Breaks, Hit, Watch};

/// Length of the first stretch in instructions, more than most rounds have, and of each as a
/// multiple of the one after it.
const FIRST: u64 = 50_000;
const LONGER: u64 = 8;
/// Instructions between two looks at the rest of the world.
const SLICE_FAST: u64 = 8_000_000;
const SLICE_OBSERVED: u64 = 500_000;
/// Most instructions of a block, all of which count as retired when it begins.
const BLOCK: u64 = 64;

/// Where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Before the last instruction of this hart.
    Step(usize),
    /// The last breakpoint, or behind the last watched access.
    Continue,
}

/// What a slice of the way came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// There is more to go.
    On,
    /// The machine stands there, because of this hart.
    There(usize, Hit),
    /// The history has no such place; the machine is at its beginning.
    Beginning,
}

/// A place on the way.
#[derive(Clone, Copy)]
struct Found {
    /// Instructions of the stretch before it.
    count: u64,
    hart: usize,
    hit: Hit,
}

/// What the machine does now.
enum Phase {
    /// Nothing yet.
    Back,
    /// Runs to the beginning of the stretch, after so many instructions of all harts.
    Forward { to: u64 },
    /// Runs through it.
    Look(Look),
    /// Runs to what was found.
    Seek(Found, u64),
}

/// A way back.
pub struct Travel {
    goal: Goal,
    /// End of the stretch, and instructions that all harts had retired there.
    end: Place,
    instret: u64,
    /// Its length in instructions.
    len: u64,
    /// Its beginning is that of the history.
    first: bool,
    phase: Phase,
}

/// Runs through a stretch.
struct Look {
    /// Its beginning: virtual time in cycles, and instructions of all harts.
    begin: u64,
    instret: u64,
    count: u64,
    last: Option<Found>,
    /// A watched access that this hart was about to make.
    access: Option<(usize, Watch)>,
    /// Where it stopped looking like the end, but was not.
    passed: bool,
}

/// The observer of a [`Look`].
struct Looker<'a> {
    look: &'a mut Look,
    goal: Goal,
    end: Place,
    breaks: &'a Breaks,
}

impl Observer for Looker<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        if !self.look.passed && may_be(self.end, hart, pc) {
            return false;
        }
        self.look.passed = false;
        let id = hart.id();
        let found = match self.goal {
            Goal::Step(stepped) => (stepped == id).then_some((id, Hit::Step)),
            Goal::Continue => {
                let access = self.breaks.watched(hart, inst).map(|watch| (id, watch));
                let made = std::mem::replace(&mut self.look.access, access);
                let made = made.map(|(hart, watch)| (hart, Hit::Watch(watch)));
                self.breaks.breakpoint(pc).map(|hit| (id, hit)).or(made)
            }
        };
        if let Some((hart, hit)) = found {
            let count = self.look.count;
            self.look.last = Some(Found { count, hart, hit });
        }
        self.look.count += 1;
        true
    }
}

/// Whether `hart`, about to execute the instruction at `pc`, may stand at `place`. Only when it is
/// stopped are its counters exact.
fn may_be(place: Place, hart: &Hart, pc: u64) -> bool {
    match place {
        Place::Round(_) => false,
        Place::Instruction {
            hart: id,
            instret,
            pc: at,
            ..
        } => {
            let ahead = hart.instret().wrapping_sub(instret);
            pc == at && hart.id() == id && ahead <= BLOCK
        }
    }
}

/// Stops before an instruction that may be at a place, of which the breaks do not hear then.
struct AtFirst<'a> {
    place: Place,
    passed: bool,
    stopped: bool,
    breaks: &'a mut Breaks,
}

impl Observer for AtFirst<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        self.stopped = !std::mem::take(&mut self.passed) && may_be(self.place, hart, pc);
        !self.stopped && self.breaks.before(hart, pc, inst)
    }
}

/// Stops after so many instructions.
struct Count<'a>(&'a mut u64);

impl Observer for Count<'_> {
    fn before(&mut self, _: &Hart, _: u64, _: &Inst) -> bool {
        let go_on = *self.0 > 0;
        *self.0 -= u64::from(go_on);
        go_on
    }
}

/// Limits of a slice that ends at virtual time `until`, or earlier.
fn slice(machine: &Machine, until: u64, instructions: u64) -> Limits {
    Limits {
        until,
        instret: machine.instret().saturating_add(instructions),
    }
}

impl Travel {
    /// From where `machine` stands.
    pub fn new(goal: Goal, machine: &Machine) -> Self {
        Self {
            goal,
            end: machine.place(),
            instret: machine.instret(),
            len: FIRST,
            first: false,
            phase: Phase::Back,
        }
    }

    /// Goes on for a short while.
    pub fn go_on(&mut self, machine: &mut Machine, history: &mut History, breaks: &Breaks) -> Way {
        match &mut self.phase {
            Phase::Back => self.back(machine, history),
            Phase::Forward { to } => {
                let left = to.saturating_sub(machine.instret());
                let end = self.end.round();
                if left == 0 || machine.now() >= end {
                    return self.begin_look(machine, history);
                }
                machine.run(&slice(machine, end, left.min(SLICE_FAST)));
                history.arrive(machine);
                history.follow(machine);
                Way::On
            }
            Phase::Look(look) => {
                let mut looker = Looker {
                    look,
                    goal: self.goal,
                    end: self.end,
                    breaks,
                };
                let until = match self.end {
                    Place::Round(time) => time,
                    Place::Instruction { .. } => u64::MAX,
                };
                let limits = slice(machine, until, SLICE_OBSERVED);
                let outcome = machine.run_observed(&limits, Some(&mut looker));
                history.arrive(machine);
                if machine.place() == self.end {
                    return self.end_look(machine, history);
                }
                if machine.now() > self.end.round() {
                    // It did not come by here again, which must not be.
                    return Way::Beginning;
                }
                look.passed = matches!(outcome, Outcome::Observer(_));
                Way::On
            }
            Phase::Seek(found, left) => {
                let found = *found;
                let limits = slice(machine, u64::MAX, SLICE_OBSERVED);
                let outcome = machine.run_observed(&limits, Some(&mut Count(left)));
                history.arrive(machine);
                match outcome {
                    Outcome::Observer(_) => Way::There(found.hart, found.hit),
                    _ => Way::On,
                }
            }
        }
    }

    /// To a snapshot at or before the beginning of the stretch.
    fn back(&mut self, machine: &mut Machine, history: &mut History) -> Way {
        let to = self.instret.saturating_sub(self.len);
        if history.beginning() == Some(self.end) {
            // It may have gone on since.
            let _ = history.go_back(machine, 0);
            return Way::Beginning;
        }
        if history.go_back_to_instret(machine, to).is_err() {
            return Way::Beginning;
        }
        self.first = history.beginning() == Some(machine.place()) && machine.instret() >= to;
        self.phase = Phase::Forward { to };
        Way::On
    }

    fn begin_look(&mut self, machine: &mut Machine, history: &mut History) -> Way {
        // A round may be longer.
        if machine.place() == self.end && !self.first {
            self.len = self.len.saturating_mul(LONGER);
            self.phase = Phase::Back;
            return Way::On;
        }
        history.keep(machine);
        self.phase = Phase::Look(Look {
            begin: machine.now(),
            instret: machine.instret(),
            count: 0,
            last: None,
            access: None,
            passed: false,
        });
        Way::On
    }

    fn end_look(&mut self, machine: &mut Machine, history: &mut History) -> Way {
        let Phase::Look(look) = &mut self.phase else {
            return Way::On;
        };
        // The machine stands right behind an access.
        if let Some((hart, watch)) = look.access {
            return Way::There(hart, Hit::Watch(watch));
        }
        let (begin, instret) = (look.begin, look.instret);
        if let Some(found) = look.last {
            if history.go_back(machine, begin).is_err() || machine.now() != begin {
                return Way::Beginning;
            }
            self.phase = Phase::Seek(found, found.count);
            return Way::On;
        }
        if self.first {
            let _ = history.go_back(machine, 0);
            return Way::Beginning;
        }
        self.end = Place::Round(begin);
        self.instret = instret;
        self.len = self.len.saturating_mul(LONGER);
        self.phase = Phase::Back;
        Way::On
    }
}

/// Lets a machine that is in its past go on towards the present, for a short while and not beyond,
/// unless `breaks` stop it.
pub fn towards_present(
    machine: &mut Machine,
    history: &mut History,
    breaks: &mut Breaks,
    passed: &mut bool,
) -> Outcome {
    let Some(present) = history.present() else {
        return Outcome::Limit;
    };
    let mut stopped = false;
    let near = machine.now() >= present.round();
    let until = if near { u64::MAX } else { present.round() };
    let outcome = if near || breaks.active() {
        let instructions = if breaks.steps.is_empty() {
            SLICE_OBSERVED
        } else {
            1
        };
        let limits = slice(machine, until, instructions);
        let mut first = AtFirst {
            place: present,
            passed: *passed,
            stopped: false,
            breaks,
        };
        let outcome = machine.run_observed(&limits, Some(&mut first));
        stopped = first.stopped;
        outcome
    } else {
        machine.run(&slice(machine, until, SLICE_FAST))
    };
    let there = history.arrive(machine);
    *passed = false;
    match outcome {
        // At the present, or at a place that looked like it.
        Outcome::Observer(_) if stopped => {
            *passed = !there;
            Outcome::Limit
        }
        outcome => outcome,
    }
}
