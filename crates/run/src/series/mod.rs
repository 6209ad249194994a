//! Several runs of a workload side by side: machines, each with the same seeds.
//!
//! A run is single-threaded, so by default there is one for each processor at a time. Each has a
//! machine of its own and shares nothing with the others: its ledger does not depend on how many
//! run in parallel.

pub mod memory;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use trapless_ledger::LedgerFile;
use trapless_machine::Machine;

use crate::interrupt;
use crate::measure::Checkpoints;
use crate::observe::ObserveOptions;
use crate::plan::Plan;
use crate::spec::{RunId, WorkloadSpec};
use trapless_recorder::SharedRecorder;

/// Stack of a worker, as large as that of a program's main thread.
const STACK: usize = 8 << 20;

/// The seeds of `count` runs: the one in the options and those that follow it.
///
/// # Errors
/// If the range of seeds ends before.
pub fn seeds(spec: &WorkloadSpec, count: u32) -> Result<Vec<u64>> {
    let first = spec.seed();
    let Some(last) = first.checked_add(u64::from(count) - 1) else {
        bail!(
            "--seed {first} is not followed by {} more seeds; name a smaller one",
            count - 1
        );
    };
    Ok((first..=last).collect())
}

/// Runs to make.
pub struct Series {
    plan: Arc<Plan>,
    runs: Vec<RunId>,
    jobs: usize,
}

/// Results of a [`Series`].
pub struct Results {
    /// Ledgers of runs that ended well, by machine and seed.
    pub ledgers: Vec<LedgerFile>,
    /// Failed runs, and why they failed.
    pub failures: Vec<(RunId, anyhow::Error)>,
    /// How many were to be made.
    pub total: usize,
}

/// Callback for each ledger as soon as it exists.
pub type Keep<'a> = &'a (dyn Fn(&RunId, &LedgerFile) -> Result<()> + Sync);

/// Observer of the progress of a series; called by all of its threads.
pub trait Watcher: Sync {
    /// A run begins.
    fn begins(&self, run: &RunId);
    /// Some run has made progress.
    fn progresses(&self);
    /// A run has ended: with an error, or well.
    fn ends(&self, run: &RunId, error: Option<&anyhow::Error>);
}

impl Series {
    /// A series of each of `machines` with each of `seeds`, at most `jobs` at a time.
    pub fn new(plan: Arc<Plan>, machines: &[String], seeds: &[u64], jobs: Option<usize>) -> Self {
        let with = |machine: &String, seed: &u64| RunId {
            machine: machine.clone(),
            seed: *seed,
        };
        let of = |machine| seeds.iter().map(move |seed| with(machine, seed));
        let runs: Vec<RunId> = machines.iter().flat_map(of).collect();
        let jobs = memory::at_a_time(jobs, runs.len(), &plan.spec.options);
        Self { plan, runs, jobs }
    }

    /// Makes all runs, the first seed on all machines first. A failed run does not stop the others.
    pub fn run(&self, watcher: &dyn Watcher, keep: Keep<'_>) -> Results {
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by_key(|i| self.runs[*i].seed);
        let queue = Mutex::new(VecDeque::from(order));
        let done = Mutex::new(Vec::new());
        let worker = || {
            while let Some(index) = next(&queue) {
                let result = self.one(&self.runs[index], watcher, keep);
                locked(&done).push((index, result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs {
                let builder = std::thread::Builder::new().stack_size(STACK);
                // If no more threads can be created, fewer run at a time.
                let _ = builder.spawn_scoped(scope, worker);
            }
            worker();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(index, _)| *index);
        self.results(done)
    }

    fn one(&self, run: &RunId, watcher: &dyn Watcher, keep: Keep<'_>) -> Result<LedgerFile> {
        watcher.begins(run);
        let (observe, checkpoints) = (ObserveOptions::default(), Checkpoints::default());
        let mut poll = |_: &Machine, _: &SharedRecorder| watcher.progresses();
        let result = self.plan.run(run, &observe, &checkpoints, &mut poll);
        let result = result.and_then(|(ledger, _)| keep(run, &ledger).map(|()| ledger));
        if !interrupt::requested() {
            watcher.ends(run, result.as_ref().err());
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
        Results {
            ledgers,
            failures,
            total: self.runs.len(),
        }
    }

    /// How many runs it makes.
    pub fn total(&self) -> usize {
        self.runs.len()
    }

    /// How many of them run at a time.
    pub fn jobs(&self) -> usize {
        self.jobs
    }
}

/// The next run, unless the user has interrupted the series.
fn next(queue: &Mutex<VecDeque<usize>>) -> Option<usize> {
    if interrupt::requested() {
        return None;
    }
    locked(queue).pop_front()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
