//! `trapless resume`: a run goes on where it made a checkpoint.

use std::process::ExitCode;

use super::run;
use crate::args::{Cli, Command, ResumeArgs, RunArgs};
use crate::checkpoint::Checkpoint;
use crate::machine::EngineName;
use crate::trapless::Trapless;
use crate::{interrupt, observe, output};
use anyhow::{Result, bail};
use clap::Parser;

/// Goes on and shows the report.
pub fn main(args: &ResumeArgs, trapless: &Trapless) -> Result<ExitCode> {
    let checkpoint = Checkpoint::open(&args.file)?;
    if args.show {
        output::print_json(&checkpoint.header)?;
        return Ok(ExitCode::SUCCESS);
    }
    checkpoint.check_program()?;
    interrupt::catch()?;
    let run = run_args(args, &checkpoint)?;
    observe::check_engine(&run.workload.harts_options, &run.observe)?;
    run::one(&run, Some(&checkpoint), trapless)
}

/// The options of the run, with what is asked for now.
fn run_args(args: &ResumeArgs, checkpoint: &Checkpoint) -> Result<RunArgs> {
    let program = std::iter::once("trapless");
    let words = program.chain(checkpoint.header.about.command.iter().map(String::as_str));
    let Ok(Cli {
        command: Command::Run(mut run),
        ..
    }) = Cli::try_parse_from(words)
    else {
        bail!(
            "{} is not of a run of a workload; make one with trapless run --checkpoint",
            args.file.display()
        );
    };
    match args.engine.as_deref() {
        Some("interp") => run.workload.harts_options.engine = EngineName::Interp,
        Some(_) => run.workload.harts_options.engine = EngineName::Jit,
        None => {}
    }
    run.workload.time_limit = args.time_limit.unwrap_or(run.workload.time_limit);
    run.workload.console = args.console;
    run.ledger.clone_from(&args.ledger);
    run.trace.clone_from(&args.trace);
    run.json = args.json;
    run.checkpoint.clone_from(&args.checkpoint);
    run.observe = args.observe.clone();
    Ok(run)
}
