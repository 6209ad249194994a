//! `trapless explore`: disturbs a workload at every instruction boundary of kernel functions.
//!
//! The machine is deterministic, so a boundary is a place one can come back to. At each one the
//! process forks; the child disturbs the hart there and runs the workload to its end, which must be
//! as good as without. What counts as a good end is the workload's own affair: `sequence` numbers
//! every interrupt.

pub mod disturbance;
mod symbols;
mod walker;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, fork};
use trapless_machine::{Limits, Outcome};

use crate::args::ExploreArgs;
use crate::failure::Failed;
use crate::interrupt;
use crate::machine::EngineName;
use crate::observe::Observation;
use crate::plan::{Plan, Ready};

use disturbance::{Disturbance, disturb};
use symbols::Symbols;
use walker::Walker;

/// Virtual time between two looks at the console and Ctrl-C, in cycles.
const SLICE: u64 = 1_000_000;

/// Children under way and what became of them.
#[derive(Default)]
struct Children {
    running: BTreeMap<i32, String>,
    done: u64,
    failed: Vec<String>,
}

impl Children {
    /// Waits until fewer than `most` run.
    fn wait_below(&mut self, most: usize) -> Result<()> {
        while self.running.len() >= most.max(1) {
            let status = wait().context("cannot wait for a run")?;
            let Some(pid) = status.pid() else { continue };
            let Some(what) = self.running.remove(&pid.as_raw()) else {
                continue;
            };
            self.done += 1;
            if !matches!(status, WaitStatus::Exited(_, 0)) {
                self.failed.push(what);
            }
        }
        Ok(())
    }
}

/// `trapless explore`.
pub fn main(args: &ExploreArgs) -> Result<ExitCode> {
    interrupt::catch()?;
    if args.workload.harts_options.engine == EngineName::Both {
        bail!("explore watches each instruction of one machine; choose --engine jit or interp");
    }
    let mut plan = Plan::new(&args.workload)?;
    plan.append("trapless.symbols=1");
    let mut observation = Observation::new(&Default::default(), None)?;
    let mut ready = plan.machine(&args.machine, &mut observation)?;
    eprintln!("Booting {} on {}", plan.experiment.name, args.machine);
    let symbols = reach_workload(&plan, &mut ready)?;
    let mut walker = Walker {
        wanted: args
            .functions
            .iter()
            .map(|name| Ok((symbols.find(name)?, args.calls)))
            .collect::<Result<_>>()?,
        text: symbols.range(),
        call: None,
        calls: 0,
        passing: None,
        finished: false,
    };
    skip(args.skip, &plan, &mut ready)?;

    let jobs = args
        .jobs
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let bar = progress();
    let mut children = Children::default();
    let mut boundaries: BTreeMap<String, u64> = BTreeMap::new();
    let mut within: BTreeMap<String, u64> = BTreeMap::new();
    let mut visits: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut seen = 0_u64;
    let mut taken = 0_u64;
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        match ready.machine.run_observed(&limits, Some(&mut walker)) {
            Outcome::Observer(hart) => {
                walker.passing = Some(hart);
                let pc = ready.machine.harts()[hart].pc();
                let function = walker.call.as_ref().map_or(pc, |call| call.function);
                let count = boundaries.entry(symbols.name(function)).or_default();
                *count += 1;
                *within.entry(symbols.function(pc).into()).or_default() += 1;
                seen += 1;
                let visits = visits.entry((walker.calls, pc)).or_default();
                *visits += 1;
                if args.visits.is_some_and(|most| *visits > most) {
                    continue;
                }
                taken += 1;
                if (taken - 1) % args.stride != 0 {
                    continue;
                }
                for &disturbance in &args.disturb {
                    children.wait_below(jobs)?;
                    bar.set_message(format!(
                        "{seen} boundaries, {} runs, {} failed; {}",
                        children.done,
                        children.failed.len(),
                        symbols.name(pc)
                    ));
                    let what = format!("{disturbance} at {} on hart {hart}", symbols.name(pc));
                    // SAFETY: the child only touches this process's own data and ends by `exit`; the
                    // other threads, which wait for signals, hold no lock of it.
                    match unsafe { fork() }.context("cannot start a run")? {
                        ForkResult::Child => {
                            disturb(&mut ready.machine, hart, disturbance);
                            let verdict = finish(&plan, &mut ready);
                            if let Err(error) = &verdict {
                                eprintln!("{what}: {error:#}");
                            }
                            std::process::exit(i32::from(verdict.is_err()));
                        }
                        ForkResult::Parent { child } => {
                            children.running.insert(child.as_raw(), what);
                        }
                    }
                }
            }
            Outcome::Limit if walker.finished => break,
            Outcome::Limit if ready.machine.now() < limit(&plan) => {}
            _ => break,
        }
        if interrupt::requested() {
            children.wait_below(1)?;
            return Err(interrupt::Interrupted.into());
        }
    }
    children.wait_below(1)?;
    bar.finish_and_clear();
    if args.json {
        let disturbances: Vec<String> = args.disturb.iter().map(ToString::to_string).collect();
        let result = serde_json::json!({
            "workload": plan.experiment.name,
            "machine": args.machine,
            "calls": args.calls,
            "stride": args.stride,
            "visits": args.visits,
            "disturbances": disturbances,
            "boundaries": boundaries,
            "within": within,
            "runs": children.done,
            "failed": children.failed,
        });
        println!("{}", serde_json::to_string_pretty(&result)?);
    } else {
        for (function, count) in &boundaries {
            println!("{function:<48} {count:>6} instructions");
        }
        println!(
            "{} runs disturbed at {} of {seen} instruction boundaries ({}), {} failed",
            children.done,
            taken.div_ceil(args.stride),
            names(&args.disturb),
            children.failed.len()
        );
    }
    if children.done == 0 {
        return Err(Failed(
            "none of the functions was called; try --skip 0 or more --calls".into(),
        )
        .into());
    }
    if !children.failed.is_empty() {
        return Err(Failed(format!("failed: {}", children.failed.join("; "))).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A line that tells how far it is, on a terminal.
fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    // It does not tick by itself: a thread of its own would not survive in the children.
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar
}

fn names(list: &[Disturbance]) -> String {
    let names: Vec<String> = list.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Virtual time in cycles at which a workload has failed.
fn limit(plan: &Plan<'_>) -> u64 {
    plan.args.time_limit.saturating_mul(1_000_000_000)
}

/// Runs until the workload's measured part begins; the host has listed its symbols by then.
fn reach_workload(plan: &Plan<'_>, ready: &mut Ready) -> Result<Symbols> {
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        let outcome = ready.machine.run(&limits);
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
fn skip(cycles: u64, plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    let limits = Limits {
        until: ready.machine.now() + cycles,
        ..Limits::default()
    };
    match ready.machine.run(&limits) {
        Outcome::Limit => Ok(()),
        outcome => plan.judge(outcome, &ready.config, &ready.recorder.lock().transcript),
    }
}

/// Runs the measured part of the workload to its end and judges it. What the host does afterwards takes longer than a
/// short workload.
fn finish(plan: &Plan<'_>, ready: &mut Ready) -> Result<()> {
    loop {
        let limits = Limits {
            until: ready.machine.now() + SLICE,
            ..Limits::default()
        };
        let outcome = ready.machine.run(&limits);
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
