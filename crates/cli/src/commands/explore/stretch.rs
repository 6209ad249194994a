//! Stretches of a run: to the workload's measured part, past some time, to the end.

use anyhow::{Result, bail};
use trapless_machine::{Limits, Outcome};

use crate::interrupt;
use crate::plan::{Plan, Ready};

use super::symbols::Symbols;

/// Virtual time between two looks at the console and Ctrl-C, in cycles.
pub const SLICE: u64 = 1_000_000;

/// Virtual time in cycles at which a workload has failed.
pub fn limit(plan: &Plan<'_>) -> u64 {
    plan.args.time_limit.saturating_mul(1_000_000_000)
}

/// Lets the machine run for `cycles` of virtual time.
fn pass(cycles: u64, ready: &mut Ready) -> Outcome {
    ready.machine.run(&Limits {
        until: ready.machine.now() + cycles,
        ..Limits::default()
    })
}

/// Runs until the workload's measured part begins; the host has listed its symbols by then.
pub fn reach_workload(plan: &Plan<'_>, ready: &mut Ready) -> Result<Symbols> {
    loop {
        let outcome = pass(SLICE, ready);
        let recorder = ready.recorder.lock();
        if outcome != Outcome::Limit || ready.machine.now() > limit(plan) {
            plan.judge(outcome, &ready.config, &recorder.transcript)?;
            bail!("the workload ended before its measured part began");
        }
        if interrupt::requested() {
            return Err(interrupt::Interrupted.into());
        }
        if recorder.measuring() {
            let lines = recorder.transcript.dumps.get("host.symbols");
            return Ok(Symbols::parse(lines.map_or(&[], Vec::as_slice)));
        }
    }
}

/// Lets `cycles` of virtual time pass.
pub fn skip(cycles: u64, plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    match pass(cycles, ready) {
        Outcome::Limit => Ok(()),
        outcome => plan.judge(outcome, &ready.config, &ready.recorder.lock().transcript),
    }
}

/// Runs the measured part of the workload to its end and judges it. What the host does afterwards
/// takes longer than a short workload.
pub fn finish(plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    loop {
        let outcome = pass(SLICE, ready);
        let recorder = ready.recorder.lock();
        match recorder.measured_status() {
            Some(0) => return Ok(()),
            None if outcome == Outcome::Limit
                && ready.machine.now() <= limit(plan)
                && !interrupt::requested() => {}
            _ => return plan.judge(outcome, &ready.config, &recorder.transcript),
        }
    }
}
