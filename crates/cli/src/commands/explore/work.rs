//! What a copy of this process does: it goes through the wanted calls and makes the runs that it is
//! told to make.

use anyhow::{Result, bail};
use trapless_run::plan::Ready;
use trapless_run::{Plan, sentence};

use crate::args::ExploreArgs;

use super::boundary::Boundary;
use super::disturbance::disturb;
use super::stretch::finish;
use super::undisturbed::Undisturbed;
use super::walk::Walk;
use super::workers::{Line, Said};

/// Makes the runs that `line` asks for, whose numbers become larger, until there is none left or
/// the machine cannot go back. `returns`: without a disturbance it always can, until the workload
/// has ended.
///
/// # Errors
/// If there is no run with such a number, or nobody listens any more.
pub fn work(
    mut line: Line,
    walk: &Walk<'_>,
    ready: &mut Ready,
    args: &ExploreArgs,
    plan: &Plan,
    returns: bool,
) -> Result<()> {
    // What is judged is what the console says from now on.
    ready.recorder.lock().only_listen();
    let mut next = line.next();
    let mut number = 0;
    walk.through(ready, &mut |ready, hart, place| {
        let mut boundary = None;
        for &disturbance in &args.disturb {
            if next == Some(number) {
                line.say(&Said::Begins(format!("{disturbance} at {place}")))?;
                let boundary = boundary.get_or_insert_with(|| Boundary::here(ready));
                let goes_on = ready.recorder.lock().measured_status().is_none();
                let undisturbed = (returns && goes_on && disturbance.may_come_to_nothing())
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
                line.say(&Said::Ended {
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
