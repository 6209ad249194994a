//! The subcommands, each with a `main` of its own.

mod boot;
mod call;
mod compare;
mod completions;
mod disk;
mod exec;
pub mod explore;
mod images;
mod machines;
mod man;
mod report;
mod resume;
mod run;
pub mod sweep;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, Command};
use trapless_run::Trapless;

/// Does what the command line says.
pub fn run(cli: &Cli, trapless: &Trapless) -> Result<ExitCode> {
    match &cli.command {
        Command::Boot(args) => boot::main(args, trapless),
        Command::Run(args) => run::main(args, trapless),
        Command::Resume(args) => resume::main(args, trapless),
        Command::Compare(args) => compare::main(args, trapless),
        Command::Sweep(args) => sweep::main(args, &trapless.project()),
        Command::Explore(args) => explore::main(args, trapless),
        Command::Exec(args) => exec::main(args, trapless),
        Command::Disk { system } => disk::main(system, trapless),
        Command::Machines { json, name } => machines::main(name.as_deref(), *json, trapless),
        Command::Workloads { json, name } => workloads::main(name.as_deref(), *json, trapless),
        Command::Images(args) => images::main(args, &trapless.project()),
        Command::Call => call::main(trapless),
        Command::Report(args) => report::main(args),
        Command::Completions { shell } => completions::main(*shell),
        Command::Man { folder } => man::main(folder.as_deref()),
    }
}
