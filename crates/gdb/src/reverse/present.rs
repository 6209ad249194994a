//! Forward execution from the past to the present, where the machine was before it went back.

use trapless_hart::{Hart, Observer};
use trapless_isa::inst::Inst;
use trapless_machine::{History, Machine, Outcome, Place};

use super::{SLICE_FAST, SLICE_OBSERVED, may_be, slice};
use crate::breaks::Breaks;

/// Stops before an instruction that may be at a place, without a check of breakpoints.
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

/// Runs a machine in its past towards the present, for a short while and not beyond, unless
/// `breaks` stop it.
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
    let instructions = match (breaks.steps.is_empty(), near || breaks.observes_all()) {
        (false, _) => 1,
        (true, true) => SLICE_OBSERVED,
        (true, false) => SLICE_FAST,
    };
    let limits = slice(machine, until, instructions);
    let outcome = if near {
        let mut first = AtFirst {
            place: present,
            passed: *passed,
            stopped: false,
            breaks,
        };
        let outcome = machine.run_observed(&limits, Some(&mut first));
        stopped = first.stopped;
        outcome
    } else if breaks.active() {
        machine.run_observed(&limits, Some(breaks))
    } else {
        machine.run(&limits)
    };
    let there = history.arrive(machine);
    *passed = false;
    match outcome {
        // At the present, or at a place that seemed to be it.
        Outcome::Observer(_) if stopped => {
            *passed = !there;
            Outcome::Limit
        }
        outcome => outcome,
    }
}
