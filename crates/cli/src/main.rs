//! The `trapless` command.

mod args;
mod boot;
mod setup;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Exit status after a user's mistake.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Boot(args) => boot::main(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("trapless: {error:#}");
        ExitCode::from(USAGE)
    })
}
