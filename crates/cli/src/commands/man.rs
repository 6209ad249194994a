//! `trapless man`: manual pages.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::{Man, generate_to};

use crate::args::Cli;
use crate::output::print;

/// Prints the page of the command, or writes it and those of all subcommands to `folder`.
pub fn main(folder: Option<&Path>) -> Result<ExitCode> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        print(&String::from_utf8_lossy(&page))?;
        return Ok(ExitCode::SUCCESS);
    };
    let told = || format!("cannot write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(told)?;
    generate_to(Cli::command(), folder).with_context(told)?;
    Ok(ExitCode::SUCCESS)
}
