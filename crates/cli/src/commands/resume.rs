//! `trapless resume`: a run of a workload or a session of `boot` goes on where it made a
//! checkpoint.

use std::process::ExitCode;

use anyhow::{Result, bail};
use trapless_run::checkpoint::Checkpoint;
use trapless_run::plan::Consoles;
use trapless_run::spec::EngineChoice;
use trapless_run::{BootSpec, ObserveOptions, Plan, RunSpec, Spec, Trapless, interrupt, observe};

use super::boot::{self, Driving};
use super::run::Single;
use crate::args::ResumeArgs;
use crate::output;

/// Resumes it and shows the report.
pub fn main(args: &ResumeArgs, trapless: &Trapless) -> Result<ExitCode> {
    let checkpoint = Checkpoint::open(&args.file)?;
    if args.show {
        output::print_json(&checkpoint.header)?;
        return Ok(ExitCode::SUCCESS);
    }
    checkpoint.check_program()?;
    interrupt::catch()?;
    match checkpoint.spec()? {
        Spec::Run(run) => resume_run(args, run, &checkpoint, trapless),
        Spec::Boot(session) => resume_boot(args, *session, &checkpoint, trapless),
        Spec::Exec(_) => bail!(
            "{} is neither of a run nor of a session; make one with --checkpoint of trapless run \
             or boot",
            args.file.display()
        ),
    }
}

/// The engine, with the options given now.
fn engine(args: &ResumeArgs, usual: EngineChoice) -> EngineChoice {
    match args.engine.as_deref() {
        Some("interp") => EngineChoice::Interp,
        Some(_) => EngineChoice::Jit,
        None => usual,
    }
}

/// Logs, traces and gdb from here on.
fn observe(args: &ResumeArgs) -> ObserveOptions {
    args.observe.options(args.trace.as_deref())
}

/// A session of boot, with the options given now. Scripts and records of the first part are not
/// continued.
fn resume_boot(
    args: &ResumeArgs,
    mut spec: BootSpec,
    checkpoint: &Checkpoint,
    trapless: &Trapless,
) -> Result<ExitCode> {
    if args.json {
        bail!("--json prints the ledger of a run; this is a session of boot: give --ledger FILE");
    }
    spec.record = None;
    spec.options.engine = engine(args, spec.options.engine);
    let driving = Driving {
        time_limit: args.time_limit,
        ledger: args.ledger.clone(),
        checkpoint: args.checkpoint.clone(),
        observe: observe(args),
        ..Driving::default()
    };
    boot::start(&spec, &driving, Some(checkpoint), trapless)
}

/// A run, with the options given now.
fn resume_run(
    args: &ResumeArgs,
    mut run: RunSpec,
    checkpoint: &Checkpoint,
    trapless: &Trapless,
) -> Result<ExitCode> {
    let workload = &mut run.workload;
    workload.options.engine = engine(args, workload.options.engine);
    workload.time_limit = args.time_limit.unwrap_or(workload.time_limit);
    let workload = workload.clone();
    let plan = || {
        let mut plan = Plan::new(&workload, trapless)?;
        if args.console {
            plan.show_consoles(Consoles::Shown);
        }
        Ok(plan)
    };
    let single = Single {
        run,
        observe: observe(args),
        console: args.console,
        ledger: args.ledger.clone(),
        json: args.json,
        checkpoint: &args.checkpoint,
        resume: Some(checkpoint),
    };
    observe::check_engine(&workload.options, &single.observe)?;
    single.make(plan)
}
