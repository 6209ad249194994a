//! The way through the wanted calls: which boundaries there are, and which are taken.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use trapless_machine::{Limits, Outcome};

use crate::args::ExploreArgs;
use crate::interrupt;
use crate::plan::{Plan, Ready};

use super::ahead;
use super::children::{Children, ask};
use super::disturbance::Disturbance;
use super::stretch::{SLICE, finish, limit};
use super::symbols::Symbols;
use super::walker::Walker;

/// What is done at a boundary that is taken: the machine, the hart that stands there, and where it
/// is.
pub type Visit<'v> = &'v mut dyn FnMut(&mut Ready, usize, &Walk<'_>, &str) -> Result<()>;

/// A walk, and what it has found so far.
pub struct Walk<'a> {
    args: &'a ExploreArgs,
    plan: &'a Plan,
    symbols: &'a Symbols,
    /// Entry addresses of functions, and how many calls of each are wanted.
    wanted: BTreeMap<u64, u32>,
    /// Runs at a time.
    pub jobs: usize,
    /// Every `stride`-th boundary is taken.
    pub stride: u64,
    /// Boundaries in calls of each function, and in the text of each function that these enter.
    boundaries: BTreeMap<String, u64>,
    within: BTreeMap<String, u64>,
    /// Pages that a run writes.
    pub written: Vec<Range<u64>>,
    /// Boundaries passed.
    pub seen: u64,
    /// Those among them that are not visited too often.
    counted: u64,
}

impl<'a> Walk<'a> {
    /// One that takes every boundary.
    pub fn new(
        args: &'a ExploreArgs,
        plan: &'a Plan,
        symbols: &'a Symbols,
        wanted: BTreeMap<u64, u32>,
    ) -> Self {
        let processors = || std::thread::available_parallelism().ok().map(Into::into);
        Self {
            args,
            plan,
            symbols,
            wanted,
            jobs: args.jobs.or_else(processors).unwrap_or(1),
            stride: 1,
            boundaries: BTreeMap::new(),
            within: BTreeMap::new(),
            written: Vec::new(),
            seen: 0,
            counted: 0,
        }
    }

    /// Counts boundaries and times a run in a copy of the machine, chooses which boundaries are
    /// taken, and tells the user how long that will take.
    ///
    /// # Errors
    /// If the run fails, or the user interrupts it.
    pub fn choose_stride(&mut self, ready: &mut Ready) -> Result<()> {
        let mut probe = Walk::new(self.args, self.plan, self.symbols, self.wanted.clone());
        let (counted, milliseconds, written) = ask(|| {
            probe.through(ready, &mut |_, _, _, _| Ok(()))?;
            let clock = Instant::now();
            let to_the_end = self.args.disturb.iter().any(|d| d.outlasts());
            finish(self.plan, ready, to_the_end)?;
            let milliseconds = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok((probe.counted, milliseconds, ahead::written()))
        })?;
        self.written = written;
        let each = self.args.disturb.len() as u64;
        let all = counted.saturating_mul(each);
        let stride = self.args.stride;
        self.stride = stride.unwrap_or_else(|| all.div_ceil(self.args.runs).max(1));
        let runs = counted.div_ceil(self.stride) * each;
        let rounds = runs.div_ceil(self.jobs as u64);
        let time = Duration::from_millis(milliseconds.saturating_mul(rounds)).as_secs();
        note!(
            "{counted} instruction boundaries; {runs} runs of {:.1} s, {} at a time, take about \
             {} min {} s (--runs and --stride choose how many)",
            milliseconds as f64 / 1e3,
            self.jobs,
            time / 60,
            time % 60
        );
        Ok(())
    }

    /// Lets the machine go through all wanted calls and calls `visit` at each boundary that is
    /// taken.
    ///
    /// # Errors
    /// That of `visit`, or if the user interrupts.
    pub fn through(&mut self, ready: &mut Ready, visit: Visit<'_>) -> Result<()> {
        let mut walker = Walker::new(self.wanted.clone(), self.symbols.range());
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
                    if self.takes(&walker, pc, visits, times) {
                        let place = format!("{} on hart {hart}", self.symbols.name(pc));
                        visit(ready, hart, self, &place)?;
                    }
                }
                Outcome::Limit if walker.finished => return Ok(()),
                Outcome::Limit if ready.machine.now() < limit(self.plan) => {}
                _ => return Ok(()),
            }
            if interrupt::requested() {
                return Err(interrupt::Interrupted.into());
            }
        }
    }

    /// Counts the boundary before the instruction at `pc`; whether it is taken.
    fn takes(&mut self, walker: &Walker, pc: u64, visits: &mut u64, times: &mut u64) -> bool {
        let text = self.symbols.function(pc);
        if !self.args.within.is_empty() && !self.args.within.iter().any(|name| name == text) {
            return false;
        }
        *self.within.entry(text.into()).or_default() += 1;
        let function = walker.call.as_ref().map_or(pc, |call| call.function);
        let function = self.symbols.name(function);
        *self.boundaries.entry(function).or_default() += 1;
        self.seen += 1;
        *visits += 1;
        if self.args.visits.is_some_and(|most| *visits > most) {
            return false;
        }
        *times += 1;
        if self.args.times.is_some_and(|most| *times > most) {
            return false;
        }
        self.counted += 1;
        (self.counted - 1) % self.stride == 0
    }

    /// The result for programs.
    ///
    /// # Errors
    /// Serialization errors, which do not occur.
    pub fn json(&self, children: &Children) -> Result<String> {
        let disturbances: Vec<String> = self.args.disturb.iter().map(ToString::to_string).collect();
        let result = serde_json::json!({
            "workload": self.plan.experiment.name,
            "machine": self.args.machine,
            "calls": self.args.calls,
            "stride": self.stride,
            "visits": self.args.visits,
            "times": self.args.times,
            "disturbances": disturbances,
            "boundaries": self.boundaries,
            "within": self.within,
            "runs": children.done,
            "failed": children.failed,
            "dropped": children.dropped,
        });
        Ok(serde_json::to_string_pretty(&result)? + "\n")
    }

    /// The result for people.
    pub fn text(&self, children: &Children) -> String {
        let mut text = String::new();
        for (function, count) in &self.boundaries {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{function:<48} {count:>6} instructions");
        }
        let dropped = match children.dropped {
            0 => String::new(),
            n => format!(", {n} stopped before their end"),
        };
        let _ = writeln!(
            text,
            "{} runs disturbed at {} of {} instruction boundaries ({}), {} failed{dropped}",
            children.done,
            self.counted.div_ceil(self.stride),
            self.seen,
            names(&self.args.disturb),
            children.failed.len()
        );
        text
    }
}

fn names(list: &[Disturbance]) -> String {
    let names: Vec<String> = list.iter().map(ToString::to_string).collect();
    names.join(", ")
}
