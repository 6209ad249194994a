//! `trapless resume`: a run of a workload or a session of `boot` goes on where it made a
//! checkpoint.

use std::process::ExitCode;

use super::{boot, run};
use crate::args::{BootArgs, Cli, Command, ResumeArgs, RunArgs};
use crate::checkpoint::Checkpoint;
use crate::machine::{EngineName, HartArgs};
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
    let words = checkpoint.header.about.command.clone();
    let program = std::iter::once("trapless");
    let cli = Cli::try_parse_from(program.chain(words.iter().map(String::as_str)));
    match cli.map(|cli| cli.command) {
        Ok(Command::Run(run)) => {
            let run = run_args(args, run);
            observe::check_engine(&run.workload.harts_options, &run.observe)?;
            run::one(&run, Some(&checkpoint), trapless)
        }
        Ok(Command::Boot(session)) => {
            let session = boot_args(args, *session)?;
            boot::resume(&session, words, &checkpoint, trapless)
        }
        _ => bail!(
            "{} is neither of a run nor of a session; make one with --checkpoint of trapless run \
             or boot",
            args.file.display()
        ),
    }
}

/// The engine, with what is asked for now.
fn engine(args: &ResumeArgs, usual: EngineName) -> EngineName {
    match args.engine.as_deref() {
        Some("interp") => EngineName::Interp,
        Some(_) => EngineName::Jit,
        None => usual,
    }
}

/// The options of a session of boot, with what is asked for now. What typed for it, and where it
/// was recorded, was for its beginning.
fn boot_args(args: &ResumeArgs, session: BootArgs) -> Result<BootArgs> {
    if args.json {
        bail!("--json prints the ledger of a run; this is a session of boot: give --ledger FILE");
    }
    let harts_options = HartArgs {
        engine: engine(args, session.harts_options.engine),
        ..session.harts_options
    };
    Ok(BootArgs {
        harts_options,
        time_limit: args.time_limit,
        ledger: args.ledger.clone(),
        trace: args.trace.clone(),
        checkpoint: args.checkpoint.clone(),
        observe: args.observe.clone(),
        record: None,
        script: None,
        until: None,
        dump_dtb: None,
        ..session
    })
}

/// The options of a run, with what is asked for now.
fn run_args(args: &ResumeArgs, mut run: RunArgs) -> RunArgs {
    let options = &mut run.workload.harts_options;
    options.engine = engine(args, options.engine);
    run.workload.time_limit = args.time_limit.unwrap_or(run.workload.time_limit);
    run.workload.console = args.console;
    run.ledger.clone_from(&args.ledger);
    run.trace.clone_from(&args.trace);
    run.json = args.json;
    run.checkpoint.clone_from(&args.checkpoint);
    run.observe = args.observe.clone();
    run
}
