//! What other programs use: the command, with machines of their own, and its parts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Parser;
use trapless_images::Project;
use trapless_intc::InterruptArchitecture;
use trapless_ledger::LedgerFile;
use trapless_machine::{Architecture, MachineConfig, Machines, OwnMachine};

use crate::args::{Cli, Command};
use crate::checkpoint::Checkpoint;
use crate::machine::HartArgs;
use crate::plan::Plan;
use crate::session::Session;
use crate::workload::WorkloadArgs;
use crate::{commands, failure, files, machine, own, qemu};

/// Where the console of a machine is copied to.
pub type Console = Box<dyn Write + Send>;

/// The command and its parts: where the project is, and which machines there are beside its own and
/// those of the user.
///
/// ```no_run
/// use trapless_cli::Trapless;
/// use trapless_intc::aclint_plic::{AclintPlic, Config};
///
/// fn main() -> std::process::ExitCode {
///     let plain = |config: &trapless_machine::MachineConfig| {
///         AclintPlic::new(Config {
///             harts: config.harts,
///             cycles_per_tick: config.hart.cycles_per_tick,
///             sswi: true,
///             edge_triggered: 0,
///         })
///     };
///     Trapless::new().with_machine("mine", "sstc", "sstc with an SSWI", plain).main()
/// }
/// ```
#[derive(Clone, Default)]
pub struct Trapless {
    project: Option<PathBuf>,
    own: Vec<OwnMachine>,
}

/// The options of a workload without a command.
#[derive(Parser)]
#[command(name = "trapless")]
struct WorkloadOptions {
    #[command(flatten)]
    workload: WorkloadArgs,
}

impl Trapless {
    /// The command as it comes: with the project folder that was installed with this program, or
    /// from which it was built.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes images and workloads out of this folder, unless the command line names another one.
    #[must_use]
    pub fn with_project(mut self, folder: &Path) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Adds the machine `name`: `base` with the interrupt architecture that `make` makes. If the
    /// name is taken, or there is no such base, every command that needs a machine says so.
    #[must_use]
    pub fn with_machine<A, F>(mut self, name: &str, base: &str, summary: &str, make: F) -> Self
    where
        A: InterruptArchitecture + 'static,
        F: Fn(&MachineConfig) -> A + Send + Sync + 'static,
    {
        self.own.push(OwnMachine {
            name: name.into(),
            base: base.into(),
            summary: summary.into(),
            architecture: Architecture::new(move |config| Box::new(make(config))),
        });
        self
    }

    /// Reads the command line, does what it says, and returns the exit status that `trapless
    /// --help` lists.
    pub fn main(mut self) -> ExitCode {
        let cli = Cli::try_parse().unwrap_or_else(|error| {
            if let Some(hint) = qemu::hint(std::env::args().skip(1)) {
                note!("trapless: {hint}");
                std::process::exit(failure::USAGE.into());
            }
            error.exit()
        });
        self.project = cli.project.clone().or(self.project);
        commands::run(&cli, &self).unwrap_or_else(|error| failure::report(&error))
    }

    pub(crate) fn project(&self) -> Project {
        Project::new(self.project.as_deref())
    }

    /// Machines by name.
    ///
    /// # Errors
    /// If a file with machines of the user cannot be used, or one of
    /// [`with_machine`](Self::with_machine) not be added.
    pub fn machines(&self) -> Result<Machines> {
        own::machines(&self.own)
    }

    /// The machine called `name` with `harts` harts.
    ///
    /// # Errors
    /// A sentence with the known names.
    pub fn machine(&self, name: &str, harts: usize) -> Result<MachineConfig> {
        machine::config(&self.machines()?, name, harts, &HartArgs::default(), &[])
    }

    /// The workloads, in order of their names, as JSON: an array of what `trapless workloads NAME
    /// --json` prints.
    ///
    /// # Errors
    /// If there is no project folder, or a file in it cannot be used.
    pub fn workloads(&self) -> Result<serde_json::Value> {
        let all = own::workloads(&self.project())?;
        Ok(all.iter().map(commands::describe_workload).collect())
    }

    /// Makes a workload ready, with its images. `words` are options of `trapless run`, but for the
    /// machine: `["--workload", "ipi", "--set", "pings=10"]`.
    ///
    /// # Errors
    /// If an option or an image cannot be used.
    pub fn plan<S: AsRef<str>>(&self, words: &[S]) -> Result<Arc<Plan>> {
        let words = words.iter().map(AsRef::as_ref);
        let options = WorkloadOptions::try_parse_from(std::iter::once("trapless").chain(words));
        let options = options.map_err(|e| usage(&e))?;
        Ok(Arc::new(Plan::new(&options.workload, self)?))
    }

    /// Builds the machine of `trapless boot` or `trapless exec`, whose words these are, with a copy
    /// of its console for `console`. Of the options, those count that say what the machine is.
    ///
    /// # Errors
    /// If an option or a file cannot be used.
    pub fn start<S: AsRef<str>>(&self, words: &[S], console: Console) -> Result<Session> {
        let words: Vec<String> = words.iter().map(|word| word.as_ref().to_string()).collect();
        match command(&words)? {
            Command::Boot(args) => Session::boot(&args, words, self, console),
            Command::Exec(args) => Session::exec(&args, words, self, console),
            _ => Err(anyhow!("only boot and exec start a machine of their own")),
        }
    }

    /// Goes on with a checkpoint that [`Session::save`] or `trapless run --checkpoint` has written.
    ///
    /// # Errors
    /// If it is damaged, or of another version of this program, of other images or files.
    pub fn resume(&self, path: &Path, console: Console) -> Result<Session> {
        let checkpoint = Checkpoint::open(path)?;
        checkpoint.check_program()?;
        let words = checkpoint.header.about.command.clone();
        match command(&words)? {
            Command::Run(args) => {
                let plan = Arc::new(Plan::new(&args.workload, self)?);
                let (machine, seed) = (args.machine, plan.args.seed());
                Session::resume_workload(plan, &machine, seed, &checkpoint, console)
            }
            Command::Boot(args) => Session::boot(&args, words, self, console)?.resumed(&checkpoint),
            Command::Exec(args) => Session::exec(&args, words, self, console)?.resumed(&checkpoint),
            _ => Err(checkpoint.damaged("it is of no command that makes a machine")),
        }
    }
}

/// Reads ledgers out of a file that `run` (one) or `compare` (a list) has written.
///
/// # Errors
/// A sentence that names the file.
pub fn read_ledgers(path: &Path) -> Result<Vec<LedgerFile>> {
    let named = || format!("{} is not a ledger", path.display());
    let text = files::text(path, "ledger")?;
    let value = serde_json::from_str(&text).map_err(|e| anyhow::Error::new(e).context(named()))?;
    let values = match value {
        serde_json::Value::Array(list) => list,
        value => vec![value],
    };
    let ledger = |value: serde_json::Value| {
        LedgerFile::from_json(&value.to_string())
            .map_err(|e| anyhow::Error::new(e).context(named()))
    };
    values.into_iter().map(ledger).collect()
}

fn command(words: &[String]) -> Result<Command> {
    let program = std::iter::once("trapless");
    let cli = Cli::try_parse_from(program.chain(words.iter().map(String::as_str)));
    Ok(cli.map_err(|e| usage(&e))?.command)
}

/// What clap says, without its prefix and its hints for a shell.
fn usage(error: &clap::Error) -> anyhow::Error {
    let text = error.render().to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    anyhow!("{}", text.strip_prefix("error: ").unwrap_or(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> String {
        let session = Trapless::new().start(words, Box::new(std::io::sink()));
        session.err().expect("it is refused").to_string()
    }

    /// Promise: programs get the command's sentences, without what only a shell's user can use.
    #[test]
    fn options_are_refused_in_one_sentence() {
        let wrong = refused(&["boot", "--ram=lots"]);
        let size =
            "invalid value 'lots' for '--ram <SIZE>': lots is not a size; write it like 512M";
        assert!(wrong.starts_with(size) && !wrong.contains('\n'), "{wrong}");
        assert_eq!(
            refused(&["machines"]),
            "only boot and exec start a machine of their own"
        );
        let plan = Trapless::new().plan(&["--workload=ipi", "--guest-harts=0"]);
        let wrong = plan.err().expect("it is refused").to_string();
        assert!(wrong.contains("0 is not in 1..=512"), "{wrong}");
    }

    #[test]
    fn ledgers_are_read_alone_and_in_lists() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.json");
        let config = trapless_ledger::Config::new(1);
        let ledger = trapless_ledger::Ledger::new(config).to_file(Default::default(), None);
        std::fs::write(&file, ledger.to_json()).unwrap();
        assert_eq!(read_ledgers(&file).unwrap(), std::slice::from_ref(&ledger));
        let list = serde_json::to_string(&[&ledger, &ledger]).unwrap();
        std::fs::write(&file, list).unwrap();
        assert_eq!(read_ledgers(&file).unwrap().len(), 2);
        std::fs::write(&file, "[1]").unwrap();
        let wrong = failure::sentence(&read_ledgers(&file).unwrap_err());
        assert!(wrong.contains("ledger.json is not a ledger: "), "{wrong}");
    }
}
