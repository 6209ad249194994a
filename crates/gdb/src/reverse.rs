//! Reverse execution: to the last place at which gdb would have stopped.
//!
//! ```text
//! a stretch of the past, up to the present position, or to the last stretch:
//!     back to its beginning, then forward through it, counting events
//!     any event? back to a snapshot before the last one, then forward to it
//!     else a longer stretch before it
//! ```
//!
//! Breakpoints and watchpoints are found at full speed; stretches begin at snapshots. To find the
//! last instruction of a hart, each instruction is observed, so those stretches are short.

mod present;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use trapless_hart::{Hart, Observer, Triggers};
use trapless_isa::inst::Inst;
use trapless_machine::{History, Limits, Machine, Outcome, Place};

use crate::breaks::{Breaks, Hit};
pub use present::towards_present;

/// Minimum length of the first stretch in instructions, if each of them is observed, which is more
/// than most rounds have, and if not; and of each as a multiple of the one after it.
const FIRST: u64 = 50_000;
const FIRST_FAST: u64 = 8_000_000;
const LONGER: u64 = 8;
/// Instructions between two polls of the host program.
const SLICE_FAST: u64 = 8_000_000;
const SLICE_OBSERVED: u64 = 500_000;
/// Maximum number of instructions of a block, all of which count as retired when it begins.
const BLOCK: u64 = 64;

/// Target of reverse execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Before the last instruction of this hart.
    Step(usize),
    /// The last breakpoint, or behind the last watched access.
    Continue,
}

impl Goal {
    /// Events of `hart` at an instruction that it is about to execute.
    fn events(self, breaks: &Breaks, hart: &Hart, pc: u64, inst: &Inst) -> [Option<Hit>; 2] {
        match self {
            Self::Step(stepped) => [(stepped == hart.id()).then_some(Hit::Step), None],
            Self::Continue => {
                let access = breaks.watched(hart, inst).map(Hit::Watch);
                [breaks.breakpoint(pc), access]
            }
        }
    }

    /// The triggers by which harts find the events, if they can.
    fn triggers(self, breaks: &Breaks) -> Option<&Arc<Triggers>> {
        (self == Self::Continue).then(|| breaks.triggers())
    }
}

/// Result of a slice of reverse execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Not finished.
    Ongoing,
    /// The machine is at the target, because of this hart.
    Stopped(usize, Hit),
    /// The history has no such place; the machine is at its beginning.
    Beginning,
}

/// A place between rounds, by virtual time in cycles, and the events of the stretch before it.
#[derive(Clone, Copy)]
struct Mark {
    time: u64,
    events: u64,
}

/// An event in a stretch.
#[derive(Clone, Copy)]
struct Found {
    /// Events of the stretch before it.
    events: u64,
    hart: usize,
    hit: Hit,
    /// Not far before it.
    mark: Mark,
}

/// Phase of reverse execution.
enum Phase {
    /// Nothing yet.
    Back,
    /// Runs to the beginning of the stretch, after so many instructions of all harts.
    Forward { to: u64 },
    /// Runs through it.
    Look(Look),
    /// Runs to the event that was found.
    Seek(Seek),
}

/// Reverse execution in progress.
pub struct Travel {
    goal: Goal,
    /// End of the stretch, and instructions that all harts had retired there.
    end: Place,
    instret: u64,
    /// Its minimum length in instructions.
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
    /// Where it stopped because it seemed to be the end, but was not.
    passed: bool,
}

/// The observer of a [`Look`].
struct Looker<'a> {
    look: &'a mut Look,
    goal: Goal,
    /// The end of the stretch, if it may be in this round.
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
    /// The machine is before the access after which it is to stop.
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

/// Whether `hart`, about to execute the instruction at `pc`, may be at `place`. Its counters are
/// exact only when it is stopped.
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
    /// From the present position of `machine`.
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

    /// Continues for a short while.
    pub fn go_on(
        &mut self,
        machine: &mut Machine,
        history: &mut History,
        breaks: &Breaks,
    ) -> Progress {
        let (goal, end) = (self.goal, self.end);
        match &mut self.phase {
            Phase::Back => self.back(machine, history),
            Phase::Forward { to } => {
                let left = to.saturating_sub(machine.instret());
                if left == 0 || machine.now() >= end.round() {
                    history.keep(machine);
                    return self.begin_search(machine);
                }
                machine.run(&slice(machine, end.round(), left.min(SLICE_FAST)));
                history.arrive(machine);
                history.follow(machine);
                Progress::Ongoing
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
                    return self.end_search(machine, history);
                }
                if machine.now() > end.round() {
                    // The event did not occur again, which must not happen.
                    return Progress::Beginning;
                }
                look.passed = matches!(outcome, Outcome::Observer(_));
                // Snapshots close to the start are reused most often.
                if self.len == FIRST_FAST {
                    history.follow(machine);
                }
                Progress::Ongoing
            }
            Phase::Seek(seek) => {
                let mark = seek.found.mark.time;
                let outcome = if machine.now() < mark {
                    machine.run(&slice(machine, mark, SLICE_FAST))
                } else {
                    if matches!(machine.place(), Place::Round(_)) && machine.now() == mark {
                        // For further steps from here.
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
                    return Progress::Stopped(seek.found.hart, seek.found.hit);
                }
                Progress::Ongoing
            }
        }
    }

    /// To a snapshot at or before the beginning of the stretch.
    fn back(&mut self, machine: &mut Machine, history: &mut History) -> Progress {
        let to = self.instret.saturating_sub(self.len);
        if history.beginning() == Some(self.end) {
            // The machine may have continued since.
            let _ = history.go_back(machine, 0);
            return Progress::Beginning;
        }
        if history.go_back_to_instret(machine, to).is_err() {
            return Progress::Beginning;
        }
        let earliest = history.beginning() == Some(machine.place());
        match self.goal {
            Goal::Step(_) => {
                self.first = earliest && machine.instret() >= to;
                self.phase = Phase::Forward { to };
                Progress::Ongoing
            }
            Goal::Continue => {
                self.first = earliest;
                self.begin_search(machine)
            }
        }
    }

    fn begin_search(&mut self, machine: &Machine) -> Progress {
        // A round may be longer.
        if machine.place() == self.end && !self.first {
            self.len = self.len.saturating_mul(LONGER);
            self.phase = Phase::Back;
            return Progress::Ongoing;
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
        Progress::Ongoing
    }

    fn end_search(&mut self, machine: &mut Machine, history: &mut History) -> Progress {
        let Phase::Look(look) = &mut self.phase else {
            return Progress::Ongoing;
        };
        let (begin, instret) = (look.begin, look.instret);
        if let Some(found) = look.last {
            if history.go_back(machine, found.mark.time).is_err() {
                return Progress::Beginning;
            }
            self.phase = Phase::Seek(Seek {
                found,
                left: found.events - found.mark.events,
                access: false,
                made: false,
            });
            return Progress::Ongoing;
        }
        if self.first {
            let _ = history.go_back(machine, 0);
            return Progress::Beginning;
        }
        self.end = begin;
        self.instret = instret;
        self.len = self.len.saturating_mul(LONGER);
        self.phase = Phase::Back;
        Progress::Ongoing
    }
}
