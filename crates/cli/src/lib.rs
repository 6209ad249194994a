//! The `trapless` command as a library, so that another program can be the same command with more
//! machines.
//!
//! ```text
//! args -> commands -> measure -> plan -> observe -> machine     (what a machine is)
//!                  \> devices, terminal, output     project     (images, experiments)
//!                                                   files, console, failure, interrupt
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `args` | the command line |
//! | `commands` | one file for each subcommand |
//! | `measure` | one run of a workload, and its ledger |
//! | `plan` | a workload with its images and its machine |
//! | `observe` | logs, traces, diagrams, profiles, debuggers |
//! | `machine` | options -> machine configuration; what the ledger records of it |
//! | `devices`, `terminal` | what `boot` plugs into its machine, and the user's terminal |
//! | `console` | marker lines on the guest's console |
//! | `project`, `files`, `output` | recipes and experiments, files the user names, standard output |
//! | `failure`, `interrupt` | exit status, Ctrl-C |

mod args;
mod commands;
mod console;
mod devices;
mod failure;
mod files;
mod interrupt;
mod machine;
mod measure;
mod observe;
mod output;
mod plan;
mod project;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;

/// Reads the command line, does what it says, and returns the exit status: 0, 1 if a workload failed, 2
/// after a wrong option or file, 130 after Ctrl-C, or that of the program for `exec`.
pub fn main() -> ExitCode {
    commands::run(&Cli::parse().command).unwrap_or_else(|error| failure::report(&error))
}
