//! The `trapless` command.
//!
//! | module | subject |
//! |---|---|
//! | [`args`] | the command line |
//! | [`boot`] | `boot`, with the console on the terminal |
//! | [`plan`] | a workload with its images and its machine |
//! | [`run`] | `run` and `compare` |
//! | [`explore`] | `explore`: a workload disturbed everywhere in a function |
//! | [`exec`] | `exec` |
//! | [`list`] | `machines`, `workloads`, `images`, `report` |
//! | [`setup`] | options -> machine configuration; what the ledger records of it |
//! | [`console`] | marker lines on the guest's console |
//! | [`observe`] | logs, traces, debuggers |
//! | [`profile`] | where the host's time goes |

mod args;
mod boot;
mod console;
mod diagram;
mod exec;
mod explore;
mod interrupt;
mod list;
mod observe;
mod plan;
mod profile;
mod run;
mod setup;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Exit status after a wrong option or file.
const USAGE: u8 = 2;
/// Exit status after a workload that failed.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Boot(args) => boot::main(&args),
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => run::compare(&args),
        Command::Explore(args) => explore::main(&args),
        Command::Exec(args) => exec::main(&args),
        Command::Machines { json, name } => list::machines(name.as_deref(), json),
        Command::Workloads { json, name } => list::workloads(name.as_deref(), json),
        Command::Images(args) => list::images(&args),
        Command::Report(args) => list::report(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("trapless: {error:#}");
        ExitCode::from(if error.is::<interrupt::Interrupted>() {
            interrupt::STATUS
        } else if error.is::<plan::Failed>() {
            FAILED
        } else {
            USAGE
        })
    })
}
