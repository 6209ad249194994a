//! `trapless completions`: scripts that complete options and names in a shell.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::output::print;

/// Prints the script for `shell`, which calls this program for the names.
pub fn main(shell: Shell) -> Result<ExitCode> {
    let known = Shells::builtins();
    let shell = known.completer(&shell.to_string());
    let mut script = Vec::new();
    let (name, variable) = ("trapless", "COMPLETE");
    shell
        .context("this shell cannot complete by a program")?
        .write_registration(variable, name, name, name, &mut script)?;
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
