//! Completion of names in a shell: machines, workloads, and what can be set. The shell's script
//! calls this program, which knows them, with the variable `COMPLETE` set.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use trapless_run::{Trapless, own};

use crate::help;

/// A name and its description.
type Named = (String, String);
/// Finds names for the word that a shell completes.
type Names = Arc<dyn Fn() -> Vec<Named> + Send + Sync>;

/// Prints completions and exits, if a shell called the command for them.
pub fn answer(trapless: &Trapless) {
    if std::env::var_os("COMPLETE").is_none() {
        return;
    }
    let names = Completions::of(trapless);
    CompleteEnv::with_factory(move || names.complete(help::command())).complete();
}

/// Where names come from.
#[derive(Clone)]
struct Completions {
    machines: Names,
    workloads: Names,
    settings: Names,
}

impl Completions {
    fn of(trapless: &Trapless) -> Self {
        let words: Vec<String> = std::env::args().collect();
        let folder = value(&words, "--project").map(PathBuf::from);
        let named = |folder: &Option<PathBuf>| match folder {
            Some(folder) => trapless.clone().with_project(folder),
            None => trapless.clone(),
        };
        let (for_machines, for_workloads, for_settings) =
            (named(&folder), named(&folder), named(&folder));
        Self {
            machines: Arc::new(move || machines(&for_machines)),
            workloads: Arc::new(move || workloads(&for_workloads)),
            settings: Arc::new(move || settings(&for_settings, value(&words, "--workload"))),
        }
    }

    /// Lets arguments be completed by their names.
    fn complete(&self, command: Command) -> Command {
        let names = self.clone();
        let whose = command.get_name().to_owned();
        let command = command.mut_args(move |arg| names.complete_one(&whose, arg));
        command.mut_subcommands(|command| self.complete(command))
    }

    fn complete_one(&self, command: &str, arg: Arg) -> Arg {
        let names = match (command, arg.get_id().as_str()) {
            (_, "machine" | "machines") | ("machines", "name") => &self.machines,
            (_, "workload") | ("workloads", "name") => &self.workloads,
            (_, "parameters" | "settings") => &self.settings,
            _ => return arg,
        };
        let names = Arc::clone(names);
        arg.add(ArgValueCompleter::new(move |begun: &OsStr| {
            let begun = begun.to_string_lossy();
            let fitting = names()
                .into_iter()
                .filter(|(name, _)| name.starts_with(&*begun));
            let candidate =
                |(name, about): Named| CompletionCandidate::new(name).help(Some(about.into()));
            fitting.map(candidate).collect()
        }))
    }
}

/// The value of an option among the words that are there already.
fn value<'w>(words: &'w [String], option: &str) -> Option<&'w str> {
    let mut words = words.iter();
    words.find(|word| *word == option)?;
    words.next().map(String::as_str)
}

fn machines(trapless: &Trapless) -> Vec<Named> {
    let Ok(all) = trapless.machines() else {
        return Vec::new();
    };
    let named = all
        .iter()
        .map(|(name, preset)| (name.into(), preset.summary.clone()));
    named.collect()
}

fn workloads(trapless: &Trapless) -> Vec<Named> {
    let Ok(all) = own::workloads(&trapless.project()) else {
        return Vec::new();
    };
    all.iter()
        .map(|w| (w.name.clone(), w.title.clone()))
        .collect()
}

/// Parameters of `workload`, or of all, as they stand before a value.
fn settings(trapless: &Trapless, workload: Option<&str>) -> Vec<Named> {
    let project = trapless.project();
    let Ok(all) = own::workloads(&project) else {
        return Vec::new();
    };
    let one = workload.and_then(|name| own::workload(name, &project).ok());
    let of = |workload: &trapless_experiments::Experiment| -> Vec<Named> {
        let parameters = workload.parameters.iter();
        parameters
            .map(|(name, p)| (format!("{name}="), p.explanation.clone()))
            .collect()
    };
    let mut named: Vec<Named> = match &one {
        Some(workload) => of(workload),
        None => all.iter().flat_map(of).collect(),
    };
    named.sort();
    named.dedup_by(|a, b| a.0 == b.0);
    named
}
