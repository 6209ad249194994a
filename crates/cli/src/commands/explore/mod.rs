//! `trapless explore`: disturbs a workload at every instruction boundary of kernel functions.
//!
//! The machine is deterministic, so a boundary is a place one can come back to. At each one the
//! process forks; the child disturbs the hart there and runs the workload to its end, which must be
//! as good as without. The workload decides what counts as success: `sequence` numbers every
//! interrupt.
//!
//! The process has run to the end once, and gone back, so that its copies have the code compiled. A
//! first copy of the machine walks through the calls without a disturbance: it counts the
//! boundaries and shows how long a run takes, and which pages it writes.

mod ahead;
mod children;
pub mod disturbance;
mod progress;
mod stretch;
mod symbols;
mod walk;
mod walker;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trapless_machine::checkpoint::About;

use crate::args::ExploreArgs;
use crate::failure::Failed;
use crate::machine::EngineName;
use crate::observe::Observation;
use crate::plan::{Plan, Ready};
use crate::trapless::Trapless;
use crate::workload::RunId;
use crate::{interrupt, output};

use children::Children;
use disturbance::disturb;
use progress::Progress;
use stretch::{finish, reach_workload, skip};
use walk::Walk;

/// `trapless explore`.
pub fn main(args: &ExploreArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    if args.workload.harts_options.engine == EngineName::Both {
        bail!("explore watches each instruction of one machine; choose --engine jit or interp");
    }
    let mut plan = Plan::new(&args.workload, trapless)?;
    // What the host's kernel complains of makes the run fail, as what the workload does.
    plan.append("trapless.symbols=1 panic_on_warn=1 oops=panic panic=-1");
    let mut observation = Observation::new(&Default::default(), None)?;
    let run = RunId {
        machine: args.machine.clone(),
        seed: args.workload.seed(),
    };
    let place = plan.place(&run, args.early.then_some("KVM is loaded"))?;
    let mut ready = plan.start(&run, &mut observation, place.as_ref())?;
    if ready.resumed.is_none() {
        note!("Booting {} on {}", plan.experiment.name, args.machine);
    }
    let symbols = reach_workload(&plan, &mut ready, args.early)?;
    if let Some(place) = place.as_ref().filter(|_| ready.resumed.is_none()) {
        place.keep(&plan.about(&run), &ready.machine, &ready.recorder);
    }
    let wanted = args.functions.iter();
    let wanted = wanted.map(|name| Ok((symbols.find(name)?, args.calls)));
    let wanted: BTreeMap<u64, u32> = wanted.collect::<Result<_>>()?;
    for name in &args.within {
        symbols.find(name)?;
    }
    skip(args.skip, &plan, &mut ready)?;

    warm_up(&plan, &mut ready, args)?;
    let mut walk = Walk::new(args, &plan, &symbols, wanted);
    walk.choose_stride(&mut ready)?;
    let mut children = Children::default();
    let mut progress = Progress::new();
    let ended = walk.through(&mut ready, &mut |ready, hart, walk, place| {
        for &disturbance in &args.disturb {
            children.wait_below(walk.jobs)?;
            progress.tell(walk, &children);
            let what = format!("{disturbance} at {place}");
            children.start(what, || {
                ahead::copy(&walk.written);
                // What is judged is what the console says.
                ready.recorder.lock().count_nothing();
                disturb(&mut ready.machine, hart, disturbance);
                finish(&plan, ready, disturbance.outlasts())
            })?;
        }
        Ok(())
    });
    if interrupt::requested() {
        children.stop()?;
    } else {
        ended?;
        while children.running() > 0 && !interrupt::requested() {
            children.wait_below(children.running())?;
            progress.tell(&walk, &children);
        }
        if interrupt::requested() {
            children.stop()?;
        }
    }
    progress.clear();
    output::print(&if args.json {
        walk.json(&children)?
    } else {
        walk.text(&children)
    })?;
    verdict(&children)
}

/// Runs to the end once, without a disturbance, and goes back: copies of this process have the code
/// of the workload compiled then, which takes longer than to run it.
fn warm_up(plan: &Plan, ready: &mut Ready, args: &ExploreArgs) -> Result<()> {
    let mut saved = Vec::new();
    ready.machine.save(&mut saved, About::default(), &[])?;
    let recorder = ready.recorder.lock().save();
    finish(plan, ready, args.disturb.iter().any(|d| d.outlasts()))?;
    ready.machine.go_back(&saved)?;
    let ram = ready.machine.ram();
    let restored = ready.recorder.lock().restore(recorder, ram);
    restored.context("a ledger that was saved can be decoded")
}

/// Exit status.
fn verdict(children: &Children) -> Result<ExitCode> {
    if !children.failed.is_empty() {
        return Err(Failed(format!("failed: {}", children.failed.join("; "))).into());
    }
    if interrupt::requested() {
        note!("trapless: interrupted; what is said above holds for the runs that have ended");
        return Ok(ExitCode::from(interrupt::STATUS));
    }
    if children.done == 0 {
        let none = "none of the functions was called; try --skip 0 or more --calls";
        return Err(Failed(none.into()).into());
    }
    Ok(ExitCode::SUCCESS)
}
