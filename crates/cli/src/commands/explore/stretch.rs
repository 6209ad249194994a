//! Stretches of a run: to the workload's measured part, past some time, to the end.

use anyhow::{Result, bail};
use trapless_machine::{Limits, Outcome};
use trapless_run::plan::Ready;
use trapless_run::{Plan, interrupt};

use super::symbols::Symbols;

/// Virtual time between two checks of the console and Ctrl-C, in cycles.
pub const SLICE: u64 = 1_000_000;

/// The same for a run to its end: shorter, because what runs after the verdict is known is wasted.
const SHORT_SLICE: u64 = 100_000;

/// Lets the machine run for `cycles` of virtual time.
fn pass(cycles: u64, ready: &mut Ready) -> Outcome {
    run_until(ready.machine.now() + cycles, ready)
}

fn run_until(until: u64, ready: &mut Ready) -> Outcome {
    ready.machine.run(&Limits {
        until,
        ..Limits::default()
    })
}

/// Lets the machine run until this virtual time, in cycles. Returns whether it can go on, and its
/// workload does.
pub fn pass_until(until: u64, ready: &mut Ready) -> bool {
    run_until(until, ready) == Outcome::Limit && ready.recorder.lock().measured_status().is_none()
}

/// Runs until the workload's measured part begins, or, if `early`, until the host has loaded KVM
/// and listed its functions. A machine that was resumed from there is left as it is.
pub fn reach_workload(plan: &Plan, ready: &mut Ready, early: bool) -> Result<Symbols> {
    loop {
        if let Some(symbols) = reached(ready, early) {
            return Ok(symbols);
        }
        let outcome = pass(SLICE, ready);
        let recorder = ready.recorder.lock();
        if outcome != Outcome::Limit || ready.machine.now() > plan.time_limit() {
            plan.judge(outcome, &ready.config, &recorder.transcript)?;
            bail!("the workload ended before its measured part began");
        }
        if interrupt::requested() {
            return Err(interrupt::Interrupted::WithoutResult.into());
        }
    }
}

/// The functions of KVM, if the machine is where the exploration begins.
fn reached(ready: &Ready, early: bool) -> Option<Symbols> {
    let recorder = ready.recorder.lock();
    let listed = recorder.transcript.dumped("host.symbols");
    let there = recorder.measuring() || (early && listed.is_some());
    there.then(|| Symbols::parse(listed.unwrap_or_default()))
}

/// Lets `cycles` of virtual time pass.
pub fn skip(cycles: u64, plan: &Plan, ready: &mut Ready) -> Result<()> {
    match pass(cycles, ready) {
        Outcome::Limit => Ok(()),
        outcome => plan.judge(outcome, &ready.config, &ready.recorder.lock().transcript),
    }
}

/// Runs the measured part of the workload to its end and judges it: what the host does afterwards
/// takes longer than a short workload. If that part has ended already, or `to_the_end` says so,
/// runs until the host is off.
pub fn finish(plan: &Plan, ready: &mut Ready, to_the_end: bool) -> Result<()> {
    let ended = to_the_end || ready.recorder.lock().measured_status().is_some();
    let slice = if ended { SLICE } else { SHORT_SLICE };
    loop {
        let outcome = pass(slice, ready);
        let recorder = ready.recorder.lock();
        match recorder.measured_status() {
            Some(0) if !ended => return Ok(()),
            // What the host does afterwards does not matter.
            Some(_) if !ended => {
                return plan.judge(Outcome::PoweredOff, &ready.config, &recorder.transcript);
            }
            _ if outcome == Outcome::Limit
                && ready.machine.now() <= plan.time_limit()
                && !interrupt::requested() => {}
            _ => return plan.judge(outcome, &ready.config, &recorder.transcript),
        }
    }
}
