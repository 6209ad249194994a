//! The subcommands, each with a `main` of its own.

mod boot;
mod compare;
mod exec;
pub mod explore;
mod images;
mod machines;
mod report;
mod run;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Command;

/// Does what the command line says.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Boot(args) => boot::main(args),
        Command::Run(args) => run::main(args),
        Command::Compare(args) => compare::main(args),
        Command::Explore(args) => explore::main(args),
        Command::Exec(args) => exec::main(args),
        Command::Machines { json, name } => machines::main(name.as_deref(), *json),
        Command::Workloads { json, name } => workloads::main(name.as_deref(), *json),
        Command::Images(args) => images::main(args),
        Command::Report(args) => report::main(args),
    }
}
