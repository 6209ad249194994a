//! Several runs of a workload side by side: machines, each with the same seeds.
//!
//! A run is one thread of work, so as many go on at a time as there are processors. Each has a
//! machine of its own and shares nothing with the others: its ledger does not depend on how many
//! run beside it.

mod memory;
mod progress;
mod repeat;

use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use trapless_ledger::LedgerFile;

use crate::failure::{Failed, sentence};
use crate::interrupt;
use crate::measure::Checkpoints;
use crate::observe::ObserveArgs;
use crate::plan::Plan;
use crate::workload::{RunId, WorkloadArgs};

pub use memory::at_a_time;
use progress::Progress;

/// Stack of a worker, as large as that of a program's first thread.
const STACK: usize = 8 << 20;

/// The seeds of `count` runs: the one that the options name and those that follow it.
///
/// # Errors
/// If there are not so many.
pub fn seeds(args: &WorkloadArgs, count: u32) -> Result<Vec<u64>> {
    let first = args.seed();
    let Some(last) = first.checked_add(u64::from(count) - 1) else {
        bail!(
            "--seed {first} is not followed by {} more seeds; name a smaller one",
            count - 1
        );
    };
    Ok((first..=last).collect())
}

/// Runs to make.
pub struct Series<'a> {
    plan: &'a Plan,
    runs: Vec<RunId>,
    jobs: usize,
}

/// What came out of a [`Series`].
pub struct Results {
    /// Ledgers of runs that ended well, by machine and seed.
    pub ledgers: Vec<LedgerFile>,
    failures: Vec<(RunId, anyhow::Error)>,
    total: usize,
    /// Command lines that repeat what failed.
    repeats: Vec<String>,
}

/// What becomes of each ledger as soon as there is one.
pub type Keep<'a> = &'a (dyn Fn(&RunId, &LedgerFile) -> Result<()> + Sync);

impl<'a> Series<'a> {
    /// Each of `machines` with each of `seeds`, at most `jobs` at a time.
    pub fn new(plan: &'a Plan, machines: &[String], seeds: &[u64], jobs: Option<usize>) -> Self {
        let with = |machine: &String, seed: &u64| RunId {
            machine: machine.clone(),
            seed: *seed,
        };
        let of = |machine| seeds.iter().map(move |seed| with(machine, seed));
        let runs: Vec<RunId> = machines.iter().flat_map(of).collect();
        let jobs = memory::at_a_time(jobs, runs.len(), &plan.args.harts_options);
        Self { plan, runs, jobs }
    }

    /// Makes all runs, the first seed on all machines first. One that fails does not keep the
    /// others from being made.
    pub fn run(&self, keep: Keep<'_>) -> Results {
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by_key(|i| self.runs[*i].seed);
        let queue = Mutex::new(VecDeque::from(order));
        let progress = Progress::new(&self.plan.experiment.name, self.runs.len(), self.jobs);
        let done = Mutex::new(Vec::new());
        let worker = || {
            while let Some(index) = next(&queue) {
                let result = self.one(&self.runs[index], &progress, keep);
                locked(&done).push((index, result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs {
                let builder = std::thread::Builder::new().stack_size(STACK);
                // If there are no more threads, fewer run at a time.
                let _ = builder.spawn_scoped(scope, worker);
            }
            worker();
        });
        progress.clear();
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        self.results(done)
    }

    fn one(&self, run: &RunId, progress: &Progress, keep: Keep<'_>) -> Result<LedgerFile> {
        let started = progress.begin(run);
        let observe = ObserveArgs::default();
        let result = self
            .plan
            .run(run, None, &observe, &Checkpoints::default(), &mut |_, _| {
                progress.tell()
            });
        let result = result.and_then(|(ledger, _)| keep(run, &ledger).map(|()| ledger));
        if !interrupt::requested() {
            progress.end(run, started, result.as_ref().err());
        }
        result
    }

    fn results(&self, done: Vec<(usize, Result<LedgerFile>)>) -> Results {
        let (mut ledgers, mut failures) = (Vec::new(), Vec::new());
        for (index, result) in done {
            match result {
                Ok(ledger) => ledgers.push(ledger),
                Err(error) => failures.push((self.runs[index].clone(), error)),
            }
        }
        let repeat = |(run, _): &(RunId, _)| repeat::command(self.plan, run);
        Results {
            repeats: failures.iter().map(repeat).collect(),
            ledgers,
            failures,
            total: self.runs.len(),
        }
    }
}

/// The next run, unless the user wants no more of them.
fn next(queue: &Mutex<VecDeque<usize>>) -> Option<usize> {
    if interrupt::requested() {
        return None;
    }
    locked(queue).pop_front()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Results {
    /// Exit status after the user interrupted: says that `place` has the ledgers of runs that had
    /// ended.
    pub fn interrupted(&self, place: &Path) -> ExitCode {
        let (place, done, all) = (place.display(), self.ledgers.len(), self.total);
        note!(
            "trapless: interrupted; {place} has the ledgers of the {done} of {all} runs that had ended"
        );
        ExitCode::from(interrupt::status())
    }

    /// Exit status after everything was shown.
    ///
    /// # Errors
    /// Which runs failed, why, and how to repeat each alone.
    pub fn verdict(mut self) -> Result<ExitCode> {
        if self.total == 1 && !self.failures.is_empty() {
            return Err(self.failures.remove(0).1);
        }
        if self.failures.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let text = self.told();
        let workload = |(_, error): &(_, anyhow::Error)| error.is::<Failed>();
        if self.failures.iter().all(workload) {
            return Err(Failed(text).into());
        }
        Err(anyhow::anyhow!(text))
    }

    fn told(&self) -> String {
        let mut text = format!("{} of {} runs failed:", self.failures.len(), self.total);
        for ((run, error), repeat) in self.failures.iter().zip(&self.repeats) {
            text.push_str(&format!(
                "\n  {run}: {}\n    alone: {repeat}",
                sentence(error)
            ));
        }
        text
    }
}
