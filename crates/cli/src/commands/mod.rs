//! The subcommands, each with a `main` of its own.

mod boot;
mod compare;
mod completions;
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

use trapless_images::Project;

use crate::args::{Cli, Command};

/// Does what the command line says.
pub fn run(cli: &Cli) -> Result<ExitCode> {
    let project = &Project::new(cli.project.as_deref());
    match &cli.command {
        Command::Boot(args) => boot::main(args, project),
        Command::Run(args) => run::main(args, project),
        Command::Resume(args) => resume::main(args, project),
        Command::Compare(args) => compare::main(args, project),
        Command::Sweep(args) => sweep::main(args, project),
        Command::Explore(args) => explore::main(args, project),
        Command::Exec(args) => exec::main(args),
        Command::Machines { json, name } => machines::main(name.as_deref(), *json),
        Command::Workloads { json, name } => workloads::main(name.as_deref(), *json, project),
        Command::Images(args) => images::main(args, project),
        Command::Report(args) => report::main(args),
        Command::Completions { shell } => completions::main(*shell),
        Command::Man { folder } => man::main(folder.as_deref()),
    }
}
