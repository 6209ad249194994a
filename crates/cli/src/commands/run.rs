//! `trapless run`: a workload in a guest, and the ledger of its traps; with several seeds, that
//! many ledgers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::args::RunArgs;
use crate::checkpoint::Checkpoint;
use crate::identity::Identity;
use crate::machine::EngineName;
use crate::measure::Checkpoints;
use crate::plan::Plan;
use crate::series::{self, Series};
use crate::single::Progress;
use crate::trapless::Trapless;
use crate::workload::RunId;
use crate::{files, interrupt, measure, observe, output};

/// Runs it and shows the report.
pub fn main(args: &RunArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    args.workload.check_settings(&[&args.machine])?;
    measure::check(&args.workload, &args.machine, &trapless.machines()?)?;
    observe::check_engine(&args.workload.harts_options, &args.observe)?;
    observe::check_single(&args.observe, args.trace.as_deref(), args.seeds)?;
    check_checkpoints(args)?;
    if args.identity {
        return identity(args, trapless);
    }
    if args.seeds == 1 {
        one(args, None, trapless)
    } else {
        several(args, trapless)
    }
}

fn identity(args: &RunArgs, trapless: &Trapless) -> Result<ExitCode> {
    let plan = Plan::new(&args.workload, trapless)?;
    let run = RunId {
        machine: args.machine.clone(),
        seed: args.workload.seed(),
    };
    let identity = Identity::of(&plan, &run)?;
    output::print_json(&identity)?;
    Ok(ExitCode::SUCCESS)
}

fn check_checkpoints(args: &RunArgs) -> Result<()> {
    let some = !args.checkpoint.is_empty();
    if some && args.seeds > 1 {
        bail!(
            "--checkpoint saves one run, and --seeds {} makes {0}; leave out --seeds, and choose \
             the run with --seed",
            args.seeds
        );
    }
    if some && args.workload.harts_options.engine == EngineName::Both {
        bail!("--checkpoint saves one machine; choose --engine jit or interp");
    }
    let mut files = args.checkpoint.iter().map(|request| &request.file);
    files.try_for_each(|file| files::check_output(file))
}

/// Makes one run, from its beginning or out of a checkpoint, and shows its report.
pub fn one(args: &RunArgs, resume: Option<&Checkpoint>, trapless: &Trapless) -> Result<ExitCode> {
    let path = args.ledger.clone().unwrap_or_else(|| {
        let name = args.workload.result_name(&args.machine, None);
        PathBuf::from(format!("{}.json", name.display()))
    });
    files::check_output(&path)?;
    observe::check(&args.observe, args.trace.as_deref())?;
    let plan = Plan::new(&args.workload, trapless)?;
    let run = RunId {
        machine: args.machine.clone(),
        seed: args.workload.seed(),
    };
    let title = format!("{} on {}", args.workload.workload, args.machine);
    let progress = Progress::new(title, args.workload.console);
    let result = plan.run(
        &run,
        args.trace.as_deref(),
        &args.observe,
        &Checkpoints {
            resume,
            make: &args.checkpoint,
        },
        &mut |machine, recorder| progress.tell(machine, recorder),
    );
    drop(progress);
    let (ledger, profile) = result?;
    files::write(&path, ledger.to_json())?;
    if args.json {
        output::print_json_text(&ledger.to_json())?;
    } else {
        output::print_report(&[ledger])?;
    }
    if let Some(profile) = profile {
        note!("{}", profile.trim_end());
    }
    note!("Ledger: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn several(args: &RunArgs, trapless: &Trapless) -> Result<ExitCode> {
    let seeds = series::seeds(&args.workload, args.seeds)?;
    let folder = folder(args)?;
    let path = |run: &RunId| path(args, &folder, run);
    for &seed in &seeds {
        let machine = args.machine.clone();
        files::check_output(&path(&RunId { machine, seed }))?;
    }
    let mut plan = Plan::new(&args.workload, trapless)?;
    plan.label_consoles();
    let machines = [args.machine.clone()];
    let series = Series::new(&plan, &machines, &seeds, args.jobs);
    let results = series.run(&|run, ledger| files::write(&path(run), ledger.to_json()));
    if interrupt::requested() {
        return Ok(results.interrupted(&folder));
    }
    output::show(&results.ledgers, args.json)?;
    note!("Ledgers: {} in {}", results.ledgers.len(), folder.display());
    results.verdict()
}

/// Where the ledgers of several runs go.
fn folder(args: &RunArgs) -> Result<PathBuf> {
    let Some(folder) = &args.ledger else {
        let name = args.workload.result_name(&args.machine, None);
        return Ok(name.parent().unwrap_or(Path::new("")).into());
    };
    let file = folder.extension().is_some_and(|e| e == "json") || folder.is_file();
    if file {
        bail!(
            "--ledger {} is a file, and --seeds {} makes as many ledgers; name a folder for them",
            folder.display(),
            args.seeds
        );
    }
    Ok(folder.clone())
}

/// The ledger of one of several runs: its seed is always in the name.
fn path(args: &RunArgs, folder: &Path, run: &RunId) -> PathBuf {
    let name = args.workload.for_run(run).result_name(&run.machine, None);
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    folder.join(format!("{name}.json"))
}
