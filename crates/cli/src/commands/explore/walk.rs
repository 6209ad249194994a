//! Walks through the wanted calls: finds their boundaries, and chooses which are taken.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use trapless_machine::{Limits, Outcome};
use trapless_run::plan::Ready;
use trapless_run::{Plan, interrupt, note};

use crate::args::ExploreArgs;

use super::disturbance::Disturbance;
use super::stretch::{SLICE, finish};
use super::symbols::Symbols;
use super::walker::Walker;
use super::workers::ask;

/// What is done at a boundary that is taken: the machine, the hart that stands there, and where it
/// is. Returns whether the walk goes on.
pub type Visit<'v> = &'v mut dyn FnMut(&mut Ready, usize, &str) -> Result<bool>;

/// Boundaries that a walk has passed.
#[derive(Default, Serialize, Deserialize)]
pub struct Boundaries {
    /// In calls of each function.
    pub calls: BTreeMap<String, u64>,
    /// In the text of each function that these enter.
    pub within: BTreeMap<String, u64>,
    /// All.
    pub seen: u64,
    /// Those among them that are not visited too often.
    counted: u64,
}

/// Calls to walk through, and which of their boundaries to take.
#[derive(Clone)]
pub struct Walk<'a> {
    args: &'a ExploreArgs,
    plan: &'a Plan,
    symbols: &'a Symbols,
    /// Entry addresses of functions, and how many calls of each are wanted.
    wanted: BTreeMap<u64, u32>,
    /// Every `stride`-th boundary is taken.
    pub stride: u64,
}

impl<'a> Walk<'a> {
    /// One that takes every boundary.
    pub fn new(
        args: &'a ExploreArgs,
        plan: &'a Plan,
        symbols: &'a Symbols,
        wanted: BTreeMap<u64, u32>,
    ) -> Self {
        Self {
            args,
            plan,
            symbols,
            wanted,
            stride: 1,
        }
    }

    /// Counts boundaries and times a run in a copy of the machine, chooses which boundaries are
    /// taken, and prints an estimate of the time with so many runs at a time.
    ///
    /// # Errors
    /// If the run fails, or the user interrupts it.
    pub fn choose_stride(&mut self, ready: &mut Ready, jobs: usize) -> Result<Boundaries> {
        let (boundaries, milliseconds) = ask(|| {
            let boundaries = self.through(ready, &mut |_, _, _| Ok(true))?;
            let clock = Instant::now();
            finish(self.plan, ready, outlasts(&self.args.disturb))?;
            let milliseconds = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok((boundaries, milliseconds))
        })?;
        let each = self.args.disturb.len() as u64;
        let all = boundaries.counted.saturating_mul(each);
        let stride = self.args.stride;
        self.stride = stride.unwrap_or_else(|| all.div_ceil(self.args.runs).max(1));
        let runs = self.taken(&boundaries) * each;
        let rounds = runs.div_ceil(jobs as u64);
        let time = Duration::from_millis(milliseconds.saturating_mul(rounds)).as_secs();
        note!(
            "{} instruction boundaries; {runs} runs of {:.2} s at most, {jobs} at a time, take up \
             to {} min {} s (--runs and --stride choose how many)",
            boundaries.counted,
            milliseconds as f64 / 1e3,
            time / 60,
            time % 60
        );
        Ok(boundaries)
    }

    /// How many of these boundaries are taken.
    pub fn taken(&self, boundaries: &Boundaries) -> u64 {
        boundaries.counted.div_ceil(self.stride)
    }

    /// Lets the machine go through all wanted calls and calls `visit` at each boundary that is
    /// taken. Returns those that it has passed.
    ///
    /// # Errors
    /// That of `visit`, or if the user interrupts.
    pub fn through(&self, ready: &mut Ready, visit: Visit<'_>) -> Result<Boundaries> {
        let mut walker = Walker::new(self.wanted.clone(), self.symbols.range());
        let mut passed = Boundaries::default();
        let mut visits = BTreeMap::new();
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        loop {
            let limits = Limits {
                until: ready.machine.now() + SLICE,
                ..Limits::default()
            };
            match ready.machine.run_observed(&limits, Some(&mut walker)) {
                Outcome::Observer(hart) => {
                    walker.passing = Some(hart);
                    let pc = ready.machine.harts()[hart].pc();
                    let visits = visits.entry((walker.calls, pc)).or_default();
                    let times = times.entry(pc).or_default();
                    if self.takes(&walker, pc, &mut passed, visits, times) {
                        let place = format!("{} on hart {hart}", self.symbols.name(pc));
                        if !visit(ready, hart, &place)? {
                            return Ok(passed);
                        }
                    }
                }
                Outcome::Limit if walker.finished => return Ok(passed),
                Outcome::Limit if ready.machine.now() < self.plan.time_limit() => {}
                _ => return Ok(passed),
            }
            if interrupt::requested() {
                return Err(interrupt::Interrupted::WithoutResult.into());
            }
        }
    }

    /// Counts the boundary before the instruction at `pc`; whether it is taken.
    fn takes(
        &self,
        walker: &Walker,
        pc: u64,
        passed: &mut Boundaries,
        visits: &mut u64,
        times: &mut u64,
    ) -> bool {
        let text = self.symbols.function(pc);
        if !self.args.within.is_empty() && !self.args.within.iter().any(|name| name == text) {
            return false;
        }
        *passed.within.entry(text.into()).or_default() += 1;
        let function = walker.call.as_ref().map_or(pc, |call| call.function);
        let function = self.symbols.name(function);
        *passed.calls.entry(function).or_default() += 1;
        passed.seen += 1;
        *visits += 1;
        if self.args.visits.is_some_and(|most| *visits > most) {
            return false;
        }
        *times += 1;
        if self.args.times.is_some_and(|most| *times > most) {
            return false;
        }
        passed.counted += 1;
        (passed.counted - 1) % self.stride == 0
    }
}

/// Whether success of one of these disturbances is known only when the host is off.
pub fn outlasts(disturbances: &[Disturbance]) -> bool {
    disturbances.iter().any(|d| d.outlasts())
}
