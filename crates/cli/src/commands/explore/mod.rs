//! `trapless explore`: disturbs a workload at every instruction boundary of kernel functions.
//!
//! The machine is deterministic, so a boundary can be restored. Copies of this process disturb the
//! hart at a boundary and run the workload to its end, which must succeed as without the
//! disturbance; then they restore the boundary and continue to their next one. The workload decides
//! what counts as success: `sequence` numbers every interrupt.
//!
//! ```text
//! mod ── workers   copies of the process: which makes which run, and what became of it
//!  ├──── work      what a copy does
//!  ├──── walk      through the wanted calls: boundaries, and which of them are taken
//!  │      └── walker   stops the machine before each instruction of a call
//!  ├──── stretch   parts of a run; disturbance: what happens at a boundary
//!  ├──── boundary  a place to go back to; undisturbed: what the machine is some time after it
//!  └──── summary, progress, symbols
//! ```
//!
//! The process first runs to the end once and restores the start, so that its copies inherit the
//! compiled code. A first copy then walks through the calls without a disturbance: it counts the
//! boundaries and shows how long a run takes.

mod boundary;
pub mod disturbance;
mod progress;
mod stretch;
mod summary;
mod symbols;
mod undisturbed;
mod walk;
mod walker;
mod work;
mod workers;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::{EngineName, ExploreArgs};
use crate::output;

use boundary::Boundary;
use progress::Progress;
use stretch::{finish, pass_until, reach_workload, skip};
use summary::Summary;
use symbols::Symbols;
use trapless_run::observe::Observation;
use trapless_run::plan::{Consoles, Ready};
use trapless_run::{Failed, Plan, RunId, Trapless, interrupt, note};
use undisturbed::SOON;
use walk::{Walk, outlasts};
use work::work;
use workers::Runs;

/// `trapless explore`.
pub fn main(args: &ExploreArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    if args.workload.machine_options.engine == EngineName::Both {
        bail!("explore watches each instruction of one machine; choose --engine jit or interp");
    }
    let mut plan = args.workload.plan(trapless, Consoles::Shown)?;
    // A warning of the host's kernel makes the run fail, too.
    plan.append("trapless.symbols=1 panic_on_warn=1 oops=panic panic=-1");
    let (mut ready, symbols) = begin(&plan, args)?;
    let returns = warm_up(&plan, &mut ready, args)?;
    if !returns {
        (ready, _) = begin(&plan, args)?;
    }
    let wanted = args.functions.iter();
    let wanted = wanted.map(|name| Ok((symbols.find(name)?, args.calls)));
    let wanted: BTreeMap<u64, u32> = wanted.collect::<Result<_>>()?;
    for name in &args.within {
        symbols.find(name)?;
    }
    let processors = || std::thread::available_parallelism().ok().map(Into::into);
    let jobs = args.jobs.or_else(processors).unwrap_or(1).max(1);
    let mut walk = Walk::new(args, &plan, &symbols, wanted);
    let boundaries = walk.choose_stride(&mut ready, jobs)?;
    let taken = walk.taken(&boundaries);
    let count = taken * args.disturb.len() as u64;
    let mut progress = Progress::new(count);
    let mut runs = Runs::default();
    runs.make(
        count,
        jobs,
        |line| work(line, &walk, &mut ready, args, &plan, returns),
        |runs| progress.update(runs),
    )?;
    progress.clear();
    let summary = Summary {
        args,
        workload: &plan.experiment.name,
        boundaries: &boundaries,
        stride: walk.stride,
        taken,
        runs: &runs,
    };
    if args.json {
        output::print_json_text(&summary.json()?)?;
    } else {
        output::print(&summary.text())?;
    }
    verdict(&runs)
}

/// A machine where the exploration begins, and the functions of its KVM.
fn begin(plan: &Plan, args: &ExploreArgs) -> Result<(Ready, Symbols)> {
    let mut observation = Observation::new(&Default::default())?;
    let run = RunId {
        machine: args.machine.clone(),
        seed: plan.spec.seed(),
    };
    let place = plan.place(&run, args.early.then_some("KVM is loaded"))?;
    let mut ready = plan.start(&run, &mut observation, place.as_ref())?;
    if ready.resumed.is_none() {
        note!("Booting {} on {}", plan.experiment.name, args.machine);
    }
    let symbols = reach_workload(plan, &mut ready, args.early)?;
    if let Some(place) = place.as_ref().filter(|_| ready.resumed.is_none()) {
        place.keep(&plan.about(&run), &ready.machine, &ready.recorder);
    }
    skip(args.skip, plan, &mut ready)?;
    Ok((ready, symbols))
}

/// Runs to the end once, without a disturbance, and restores the start, so that copies of this
/// process inherit the workload's compiled code: compiling takes longer than running. `false`: the
/// start cannot be restored.
fn warm_up(plan: &Plan, ready: &mut Ready, args: &ExploreArgs) -> Result<bool> {
    let boundary = Boundary::here(ready);
    finish(plan, ready, outlasts(&args.disturb))?;
    // So far as a run is compared with the undisturbed one near the workload's end.
    pass_until(ready.machine.now() + SOON, ready);
    boundary.go_back(ready)
}

/// Exit status.
fn verdict(runs: &Runs) -> Result<ExitCode> {
    let failed = runs.failed();
    if !failed.is_empty() {
        return Err(Failed(format!("failed: {}", failed.join("; "))).into());
    }
    if interrupt::requested() {
        note!("trapless: interrupted; the results above are those of the runs that have ended");
        return Ok(ExitCode::from(interrupt::status()));
    }
    if runs.done == 0 {
        let none = "none of the functions was called; try --skip 0 or more --calls";
        return Err(Failed(none.into()).into());
    }
    Ok(ExitCode::SUCCESS)
}
