//! Backwards: to the last place that gdb would have stopped at.
//!
//! ```text
//! a stretch of the past, up to where the machine stands, or to the last stretch:
//!     back to its beginning, then forward through it, counting what it comes by
//!     something was there? back to a snapshot before the last of it, then forward to that
//!     else a longer stretch before it
//! ```
//!
//! Breakpoints and watchpoints are found at the speed of the run; stretches begin at snapshots. To
//! find the last instruction of a hart, each instruction is looked at: those stretches are short.

mod present;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use trapless_hart::{Hart, Observer, Triggers};
use trapless_isa::inst::Inst;
use trapless_machine::{History, Limits, Machine, Outcome, Place};

use crate::breaks::{Breaks, Hit};
pub use present::towards_present;

/// Least length of the first stretch in instructions, if each of them is looked at, which is more
/// than most rounds have, and if not; and of each as a multiple of the one after it.
const FIRST: u64 = 50_000;
const FIRST_FAST: u64 = 8_000_000;
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

impl Goal {
    /// What `hart` comes by at an instruction that it is about to execute.
    fn events(self, breaks: &Breaks, hart: &Hart, pc: u64, inst: &Inst) -> [Option<Hit>; 2] {
        match self {
            Self::Step(stepped) => [(stepped == hart.id()).then_some(Hit::Step), None],
            Self::Continue => {
                let access = breaks.watched(hart, inst).map(Hit::Watch);
                [breaks.breakpoint(pc), access]
            }
        }
    }

    /// Those that a hart looks for by itself, if it can.
    fn triggers(self, breaks: &Breaks) -> Option<&Arc<Triggers>> {
        (self == Self::Continue).then(|| breaks.triggers())
    }
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

/// A place between rounds, by virtual time in cycles, and the events of the stretch before it.
#[derive(Clone, Copy)]
struct Mark {
    time: u64,
    events: u64,
}

/// An event on the way.
#[derive(Clone, Copy)]
struct Found {
    /// Events of the stretch before it.
    events: u64,
    hart: usize,
    hit: Hit,
    /// Not far before it.
    mark: Mark,
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
    Seek(Seek),
}

/// A way back.
pub struct Travel {
    goal: Goal,
    /// End of the stretch, and instructions that all harts had retired there.
    end: Place,
    instret: u64,
    /// Its length in instructions, at least.
    len: u64,
    /// Its beginning is that of the history.
    first: bool,
    phase: Phase,
}

/// Runs through a stretch.
struct Look {
    /// Its beginning, and instructions of all harts there.
    begin: Place,
    instret: u64,
    events: u64,
    last: Option<Found>,
    /// Where the slice begins.
    mark: Mark,
    /// Where it stopped looking like the end, but was not.
    passed: bool,
}

/// The observer of a [`Look`].
struct Looker<'a> {
    look: &'a mut Look,
    goal: Goal,
    /// The end, if it may be in this round.
    end: Option<Place>,
    breaks: &'a Breaks,
}

impl Observer for Looker<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        let passed = std::mem::take(&mut self.look.passed);
        if !passed && self.end.is_some_and(|end| may_be(end, hart, pc)) {
            return false;
        }
        let events = self.goal.events(self.breaks, hart, pc, inst);
        for hit in events.into_iter().flatten() {
            self.look.last = Some(Found {
                events: self.look.events,
                hart: hart.id(),
                hit,
                mark: self.look.mark,
            });
            self.look.events += 1;
        }
        true
    }

    fn triggers(&self) -> Option<&Arc<Triggers>> {
        let triggers = self.goal.triggers(self.breaks);
        triggers.filter(|_| self.end.is_none())
    }
}

/// Runs from a mark to an event.
struct Seek {
    found: Found,
    /// Events before it.
    left: u64,
    /// The machine stands before the access that it is to stop behind.
    access: bool,
    /// The access is made.
    made: bool,
}

/// The observer of a [`Seek`].
struct Seeker<'a> {
    seek: &'a mut Seek,
    goal: Goal,
    breaks: &'a Breaks,
}

impl Observer for Seeker<'_> {
    fn before(&mut self, hart: &Hart, pc: u64, inst: &Inst) -> bool {
        if self.seek.access {
            return !std::mem::replace(&mut self.seek.made, true);
        }
        let events = self.goal.events(self.breaks, hart, pc, inst);
        for hit in events.into_iter().flatten() {
            if self.seek.left == 0 {
                self.seek.access = matches!(hit, Hit::Watch(_));
                return false;
            }
            self.seek.left -= 1;
        }
        true
    }

    fn triggers(&self) -> Option<&Arc<Triggers>> {
        let triggers = self.goal.triggers(self.breaks);
        triggers.filter(|_| !self.seek.access)
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
            len: match goal {
                Goal::Step(_) => FIRST,
                Goal::Continue => FIRST_FAST,
            },
            first: false,
            phase: Phase::Back,
        }
    }

    /// Goes on for a short while.
    pub fn go_on(&mut self, machine: &mut Machine, history: &mut History, breaks: &Breaks) -> Way {
        let (goal, end) = (self.goal, self.end);
        match &mut self.phase {
            Phase::Back => self.back(machine, history),
            Phase::Forward { to } => {
                let left = to.saturating_sub(machine.instret());
                if left == 0 || machine.now() >= end.round() {
                    history.keep(machine);
                    return self.begin_look(machine);
                }
                machine.run(&slice(machine, end.round(), left.min(SLICE_FAST)));
                history.arrive(machine);
                history.follow(machine);
                Way::On
            }
            Phase::Look(look) => {
                if matches!(machine.place(), Place::Round(_)) {
                    look.mark = Mark {
                        time: machine.now(),
                        events: look.events,
                    };
                }
                let near = machine.now() >= end.round();
                let mut looker = Looker {
                    look,
                    goal,
                    end: near.then_some(end),
                    breaks,
                };
                let until = match end {
                    Place::Instruction { .. } if near => u64::MAX,
                    end => end.round(),
                };
                let instructions = match looker.triggers() {
                    Some(_) => SLICE_FAST,
                    None => SLICE_OBSERVED,
                };
                let limits = slice(machine, until, instructions);
                let outcome = machine.run_observed(&limits, Some(&mut looker));
                history.arrive(machine);
                if machine.place() == end {
                    return self.end_look(machine, history);
                }
                if machine.now() > end.round() {
                    // It did not come by here again, which must not be.
                    return Way::Beginning;
                }
                look.passed = matches!(outcome, Outcome::Observer(_));
                // Close to where it began, snapshots are of use again and again.
                if self.len == FIRST_FAST {
                    history.follow(machine);
                }
                Way::On
            }
            Phase::Seek(seek) => {
                let mark = seek.found.mark.time;
                let outcome = if machine.now() < mark {
                    machine.run(&slice(machine, mark, SLICE_FAST))
                } else {
                    if matches!(machine.place(), Place::Round(_)) && machine.now() == mark {
                        // For the next steps from here.
                        history.keep(machine);
                    }
                    let until = match end {
                        Place::Round(time) => time,
                        Place::Instruction { .. } => u64::MAX,
                    };
                    let limits = slice(machine, until, SLICE_OBSERVED);
                    let mut seeker = Seeker { seek, goal, breaks };
                    machine.run_observed(&limits, Some(&mut seeker))
                };
                history.arrive(machine);
                let stopped = matches!(outcome, Outcome::Observer(_));
                let there = stopped && (seek.made || !seek.access);
                if there || machine.place() == end {
                    return Way::There(seek.found.hart, seek.found.hit);
                }
                Way::On
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
        let earliest = history.beginning() == Some(machine.place());
        match self.goal {
            Goal::Step(_) => {
                self.first = earliest && machine.instret() >= to;
                self.phase = Phase::Forward { to };
                Way::On
            }
            Goal::Continue => {
                self.first = earliest;
                self.begin_look(machine)
            }
        }
    }

    fn begin_look(&mut self, machine: &Machine) -> Way {
        // A round may be longer.
        if machine.place() == self.end && !self.first {
            self.len = self.len.saturating_mul(LONGER);
            self.phase = Phase::Back;
            return Way::On;
        }
        self.phase = Phase::Look(Look {
            begin: machine.place(),
            instret: machine.instret(),
            events: 0,
            last: None,
            mark: Mark {
                time: machine.now(),
                events: 0,
            },
            passed: false,
        });
        Way::On
    }

    fn end_look(&mut self, machine: &mut Machine, history: &mut History) -> Way {
        let Phase::Look(look) = &mut self.phase else {
            return Way::On;
        };
        let (begin, instret) = (look.begin, look.instret);
        if let Some(found) = look.last {
            if history.go_back(machine, found.mark.time).is_err() {
                return Way::Beginning;
            }
            self.phase = Phase::Seek(Seek {
                found,
                left: found.events - found.mark.events,
                access: false,
                made: false,
            });
            return Way::On;
        }
        if self.first {
            let _ = history.go_back(machine, 0);
            return Way::Beginning;
        }
        self.end = begin;
        self.instret = instret;
        self.len = self.len.saturating_mul(LONGER);
        self.phase = Phase::Back;
        Way::On
    }
}
