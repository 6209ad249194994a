//! The `trapless` command as a library, so that another program can be the same command with more
//! machines.
//!
//! ```text
//! args -> commands -> series -> measure -> plan -> observe -> machine     (what a machine is)
//!                  \> devices, terminal, output     project, workload   (images, experiments)
//!                                                   files, console, failure, interrupt
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `args` | the command line |
//! | `commands` | one file for each subcommand |
//! | `series` | several runs side by side |
//! | `measure`, `single` | one run of a workload, its ledger and its progress |
//! | `plan` | a workload with its images and its machine |
//! | `workload` | options that say what to run, and names that follow from them |
//! | `observe` | logs, traces, diagrams, profiles, debuggers |
//! | `machine` | options -> machine configuration; what the ledger records of it |
//! | `devices`, `terminal` | what `boot` plugs into its machine, and the user's terminal |
//! | `checkpoint` | checkpoints that a run makes, keeps or goes on from |
//! | `console`, `script` | marker lines on the guest's console; what is typed there by itself |
//! | `project` | images of the project folder |
//! | `files`, `output` | files the user names, standard output |
//! | `failure`, `interrupt` | exit status, Ctrl-C |
//! | `qemu` | what options of QEMU are called here |

#[macro_use]
mod output;

mod args;
mod checkpoint;
mod commands;
mod console;
mod devices;
mod failure;
mod files;
mod interrupt;
mod machine;
mod measure;
mod observe;
mod plan;
mod project;
mod qemu;
mod script;
mod series;
mod single;
mod terminal;
mod threads;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;

/// Reads the command line, does what it says, and returns the exit status that `trapless --help`
/// lists.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        if let Some(hint) = qemu::hint(std::env::args().skip(1)) {
            note!("trapless: {hint}");
            std::process::exit(failure::USAGE.into());
        }
        error.exit()
    });
    commands::run(&cli).unwrap_or_else(|error| failure::report(&error))
}
