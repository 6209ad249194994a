//! What other programs use: the command, with machines of their own, and its parts.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::{FromArgMatches, Parser};

use crate::args::{Cli, Command};
use crate::checkpoint::Checkpoint;
use crate::plan::Plan;
use crate::session::Session;
use crate::trapless::{Console, Trapless};
use crate::workload::WorkloadArgs;
use crate::{commands, complete, failure, help, interrupt, own, qemu};

/// The options of a workload without a command.
#[derive(Parser)]
#[command(name = "trapless")]
struct WorkloadOptions {
    #[command(flatten)]
    workload: WorkloadArgs,
}

impl Trapless {
    /// Reads the command line, does what it says, and returns the exit status that `trapless
    /// --help` lists.
    pub fn main(mut self) -> ExitCode {
        complete::answer(&self);
        let mut command = help::command();
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = cli.unwrap_or_else(|error| {
            if let Some(hint) = qemu::hint(std::env::args().skip(1)) {
                note!("trapless: {hint}");
                std::process::exit(failure::USAGE.into());
            }
            error.exit()
        });
        if let Err(error) = interrupt::ignore_file_size_limit() {
            return failure::report(&error);
        }
        if let Some(project) = &cli.project {
            self = self.with_project(project);
        }
        commands::run(&cli, &self).unwrap_or_else(|error| failure::report(&error))
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
            Command::Boot(args) => Session::boot(&args, words, None, self, console),
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
            Command::Boot(args) => {
                Session::boot(&args, words, Some(&checkpoint), self, console)?.resumed(&checkpoint)
            }
            Command::Exec(args) => Session::exec(&args, words, self, console)?.resumed(&checkpoint),
            _ => Err(checkpoint.damaged("it is of no command that makes a machine")),
        }
    }
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
}
