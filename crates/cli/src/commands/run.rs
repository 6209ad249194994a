//! `trapless run`: a workload in a guest, and the ledger of its traps; with several seeds, that
//! many ledgers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use trapless_ledger::LedgerFile;
use trapless_machine::Machine;
use trapless_run::checkpoint::{Checkpoint, Request};
use trapless_run::measure::Checkpoints;
use trapless_run::plan::Consoles;
use trapless_run::series::{self, Series};
use trapless_run::{
    Identity, ObserveOptions, Plan, RunId, RunSpec, Trapless, WorkloadSpec, files, interrupt,
    measure, note, observe,
};

use crate::args::{EngineName, RunArgs};
use crate::output;
use crate::single::Progress;

/// Runs it and shows the report.
pub fn main(args: &RunArgs, trapless: &Trapless) -> Result<ExitCode> {
    interrupt::catch()?;
    let (run, observe) = (args.spec(), args.observe());
    measure::check(&run.workload, &[&run.machine], &trapless.machines()?)?;
    observe::check_engine(&run.workload.options, &observe)?;
    observe::check_single(&observe, args.seeds)?;
    check_checkpoints(args)?;
    if args.identity {
        return identity(&run, trapless);
    }
    if args.seeds > 1 {
        return several(args, trapless);
    }
    let plan = || args.workload.plan(trapless, Consoles::Shown);
    let single = Single {
        run,
        observe,
        console: args.workload.console,
        ledger: args.ledger.clone(),
        json: args.json,
        checkpoint: &args.checkpoint,
        resume: None,
    };
    single.make(plan)
}

fn identity(run: &RunSpec, trapless: &Trapless) -> Result<ExitCode> {
    let plan = trapless.plan(&run.workload)?;
    let identity = Identity::of(&plan, &run.id())?;
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
    if some && args.workload.machine_options.engine == EngineName::Both {
        bail!("--checkpoint saves one machine; choose --engine jit or interp");
    }
    let mut files = args.checkpoint.iter().map(|request| &request.file);
    files.try_for_each(|file| files::check_output(file))
}

/// One run, from its beginning or out of a checkpoint, and where its report goes.
pub struct Single<'a> {
    /// The run.
    pub run: RunSpec,
    /// Logs, traces and gdb.
    pub observe: ObserveOptions,
    /// Whether its console is shown.
    pub console: bool,
    /// File for the ledger.
    pub ledger: Option<PathBuf>,
    /// Whether the ledger is printed instead of a report.
    pub json: bool,
    /// Checkpoints to make.
    pub checkpoint: &'a [Request],
    /// Checkpoint from which it is resumed.
    pub resume: Option<&'a Checkpoint>,
}

impl Single<'_> {
    /// Makes the run with what `plan` prepares, and shows its report.
    ///
    /// # Errors
    /// If a file or an image cannot be used, or the workload does not do what it should.
    pub fn make(&self, plan: impl FnOnce() -> Result<Plan>) -> Result<ExitCode> {
        let workload = &self.run.workload;
        let path = self.ledger.clone().unwrap_or_else(|| {
            let name = workload.result_name(&self.run.machine, None);
            PathBuf::from(format!("{}.json", name.display()))
        });
        files::check_output(&path)?;
        observe::check(&self.observe)?;
        let plan = Arc::new(plan()?);
        let title = format!("{} on {}", workload.workload, self.run.machine);
        let progress = Progress::new(title, self.console);
        let checkpoints = Checkpoints {
            resume: self.resume,
            make: self.checkpoint,
        };
        let mut poll = |machine: &Machine, recorder: &_| progress.update(machine, recorder);
        let result = plan.run(&self.run.id(), &self.observe, &checkpoints, &mut poll);
        drop(progress);
        let (ledger, profile) = result?;
        files::write(&path, ledger.to_json())?;
        if self.json {
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
}

fn several(args: &RunArgs, trapless: &Trapless) -> Result<ExitCode> {
    let workload = args.workload.spec();
    let seeds = series::seeds(&workload, args.seeds)?;
    let folder = folder(args, &workload)?;
    let path = |run: &RunId| path(&workload, &folder, run);
    for &seed in &seeds {
        let machine = args.machine.clone();
        files::check_output(&path(&RunId { machine, seed }))?;
    }
    let plan = Arc::new(args.workload.plan(trapless, Consoles::Labelled)?);
    let machines = [args.machine.clone()];
    let series = Series::new(plan.clone(), &machines, &seeds, args.jobs);
    let keep = |run: &RunId, ledger: &LedgerFile| files::write(&path(run), ledger.to_json());
    let results = crate::series::run(&plan, &series, &keep);
    if interrupt::requested() {
        return Ok(crate::series::interrupted(&results, &folder));
    }
    output::show(&results.ledgers, args.json)?;
    note!("Ledgers: {} in {}", results.ledgers.len(), folder.display());
    crate::series::verdict(&plan, results)
}

/// Where the ledgers of several runs go.
fn folder(args: &RunArgs, workload: &WorkloadSpec) -> Result<PathBuf> {
    let Some(folder) = &args.ledger else {
        let name = workload.result_name(&args.machine, None);
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
fn path(workload: &WorkloadSpec, folder: &Path, run: &RunId) -> PathBuf {
    let name = workload.for_run(run).workload;
    let name = name.result_name(&run.machine, None);
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    folder.join(format!("{name}.json"))
}
