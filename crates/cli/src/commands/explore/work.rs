//! Body of a worker process: walks through the wanted calls and makes the runs assigned to it.

use anyhow::{Result, bail};
use trapless_run::plan::Ready;
use trapless_run::{Plan, sentence};

use crate::args::ExploreArgs;

use super::boundary::Boundary;
use super::disturbance::disturb;
use super::stretch::finish;
use super::undisturbed::Undisturbed;
use super::walk::Walk;
use super::workers::{Line, Message};

/// Makes the runs that `line` assigns, in increasing order, until none is left or the machine
/// cannot be restored. `returns`: without a disturbance it always can, until the workload has
/// ended.
///
/// # Errors
/// If there is no run with such a number, or the parent process has gone.
pub fn work(
    mut line: Line,
    walk: &Walk<'_>,
    ready: &mut Ready,
    args: &ExploreArgs,
    plan: &Plan,
    returns: bool,
) -> Result<()> {
    // Success is judged by the console output from here on.
    ready.recorder.lock().only_listen();
    let mut next = line.next();
    let mut number = 0;
    walk.through(ready, &mut |ready, hart, place| {
        let mut boundary = None;
        for &disturbance in &args.disturb {
            if next == Some(number) {
                line.send(&Message::Begins(format!("{disturbance} at {place}")))?;
                let boundary = boundary.get_or_insert_with(|| Boundary::here(ready));
                let continues = ready.recorder.lock().measured_status().is_none();
                let undisturbed = (returns && continues && disturbance.may_come_to_nothing())
                    .then(|| Undisturbed::after(boundary, ready))
                    .transpose()?;
                disturb(&mut ready.machine, hart, disturbance);
                let no_effect = undisturbed.is_some_and(|u| u.is_met(boundary, ready));
                let verdict = if no_effect {
                    Ok(())
                } else {
                    finish(plan, ready, disturbance.outlasts())
                };
                let last = !boundary.go_back(ready)?;
                line.send(&Message::Ended {
                    failure: verdict.err().map(|error| sentence(&error)),
                    no_effect,
                    last,
                })?;
                next = if last { None } else { line.next() };
            }
            if next.is_none() {
                return Ok(false);
            }
            number += 1;
        }
        Ok(true)
    })?;
    match next {
        Some(run) => bail!("run {run} of {number} does not exist"),
        None => Ok(()),
    }
}
