//! What a copy of this process does: it goes through the wanted calls and makes the runs that it is
//! told to make.

use anyhow::{Context, Result, bail};
use trapless_machine::Moment;

use crate::args::ExploreArgs;
use crate::console::RecorderState;
use crate::failure::sentence;
use crate::plan::{Plan, Ready};

use super::disturbance::disturb;
use super::stretch::finish;
use super::walk::Walk;
use super::workers::{Line, Said};

/// A place to go back to.
pub struct Boundary {
    moment: Moment,
    recorder: RecorderState,
}

impl Boundary {
    /// Where the machine stands.
    pub fn here(ready: &mut Ready) -> Self {
        Self {
            moment: ready.machine.moment(),
            recorder: ready.recorder.lock().save(),
        }
    }

    /// Goes back to it. `false`: there is no way back.
    ///
    /// # Errors
    /// If the machine or the recorder is another one.
    pub fn go_back(&self, ready: &mut Ready) -> Result<bool> {
        if !ready.machine.return_to(&self.moment)? {
            return Ok(false);
        }
        let (recorder, ram) = (self.recorder.clone(), ready.machine.ram());
        let restored = ready.recorder.lock().restore(recorder, ram);
        restored.context("a ledger that was saved can be decoded")?;
        Ok(true)
    }
}

/// Makes the runs that `line` asks for, whose numbers become larger, until there is none left or
/// the machine cannot go back.
///
/// # Errors
/// If there is no run with such a number, or nobody listens any more.
pub fn work(
    mut line: Line,
    walk: &Walk<'_>,
    ready: &mut Ready,
    args: &ExploreArgs,
    plan: &Plan,
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
                disturb(&mut ready.machine, hart, disturbance);
                let verdict = finish(plan, ready, disturbance.outlasts());
                let last = !boundary.go_back(ready)?;
                line.say(&Said::Ended {
                    failure: verdict.err().map(|error| sentence(&error)),
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
