//! `trapless man`: manual pages.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::Cli;
use crate::help::Text;
use crate::output::print;

/// Environment variables that commands read.
const ENVIRONMENT: [(&str, &str); 10] = [
    (
        "TRAPLESS_CACHE",
        "Folder for packages, images and kept checkpoints. Default: .cache in the source tree, or \
         ~/.cache/trapless.",
    ),
    (
        "TRAPLESS_CHECKPOINTS",
        "Maximum disk space for checkpoints that runs keep there, as --checkpoint-cache.",
    ),
    (
        "TRAPLESS_MIRROR",
        "Address of a Debian archive, the folder that holds dists. Default: that of apt's sources.",
    ),
    ("TRAPLESS_PROJECT", "The project folder, as --project."),
    (
        "TRAPLESS_PYTHON",
        "Python for trapless sweep. Default: the first that has the packages.",
    ),
    ("XDG_CACHE_HOME, HOME", "Where the user's folders are."),
    (
        "XDG_CONFIG_HOME",
        "Folder with trapless/trapless.toml. Default: ~/.config.",
    ),
    ("NO_COLOR", "If set, tables have no colours."),
    (
        "LC_ALL, LANG",
        "Ignored: output is UTF-8 in every locale, so that it is the same bytes everywhere.",
    ),
    (
        "COMPLETE",
        "Set by the scripts of trapless completions: the command prints completions.",
    ),
];

/// Files and folders.
const FILES: [(&str, &str); 5] = [
    (
        "trapless.toml, ~/.config/trapless/trapless.toml",
        "Machines and workloads of the user's own.",
    ),
    ("out/", "Where ledgers and reports go."),
    (
        "~/.cache/trapless/, .cache/",
        "Packages, images, and checkpoints of runs; it can be removed at any time.",
    ),
    ("~/.cache/trapless/sweeps/", "Results that sweeps keep."),
    (
        "PREFIX/share/trapless/",
        "Recipes of images, workloads and sources that images are made from.",
    ),
];

/// Options of the Python program that is `trapless sweep`, which explains them more.
const SWEEP: [(&str, &str); 10] = [
    ("FILE", "The sweep."),
    ("--dry-run", "List the runs and count them; make none."),
    (
        "--out DIR",
        "Where sweep.parquet, sweep.csv and sweep.html go. Default: out/NAME.",
    ),
    (
        "--store DIR",
        "Where results are kept. Default: ~/.cache/trapless/sweeps.",
    ),
    (
        "--jobs N, -j N",
        "Runs at a time, or jobs of the batch system.",
    ),
    (
        "--scheduler ADDRESS",
        "Use the workers of a Dask scheduler.",
    ),
    (
        "--jobqueue SYSTEM",
        "Have slurm, pbs, lsf, sge, oar, moab or htcondor start workers.",
    ),
    ("--program FILE", "The command itself. Default: this one."),
    (
        "--worker-program FILE",
        "The command on workers, if it is elsewhere.",
    ),
    ("--quiet, -q", "Show no progress."),
];

/// Prints the page of the command, or writes it and those of all subcommands to `folder`.
pub fn main(folder: Option<&Path>) -> Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = folder else {
        let mut text = Vec::new();
        page(&command, &[], &mut text)?;
        print(&String::from_utf8_lossy(&text))?;
        return Ok(ExitCode::SUCCESS);
    };
    let context = || format!("cannot write manual pages to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    write_all(&command, &[], folder).with_context(context)?;
    Ok(ExitCode::SUCCESS)
}

/// The name of a command's page.
fn name(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or(command.get_name());
    name.into()
}

fn write_all(command: &Command, above: &[String], folder: &Path) -> Result<()> {
    let mut text = Vec::new();
    page(command, above, &mut text)?;
    std::fs::write(folder.join(format!("{}.1", name(command))), text)?;
    let above = [above, &[name(command)]].concat();
    let below = command.get_subcommands().filter(|c| !c.is_hide_set());
    below
        .into_iter()
        .try_for_each(|command| write_all(command, &above, folder))
}

/// Writes the page of a command; `above` are the names of those that it belongs to.
fn page(command: &Command, above: &[String], to: &mut dyn Write) -> Result<()> {
    let text = Text::of(command);
    let man = Man::new(command.clone());
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    for paragraph in &text.prose {
        let mut roff = Roff::new();
        roff.control("PP", []).text([roman(paragraph.as_str())]);
        roff.to_writer(to)?;
    }
    let sweep = command.get_name() == "sweep";
    if sweep {
        list("OPTIONS", &SWEEP, to)?;
    } else if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(to)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(to)?;
    }
    if !text.examples.is_empty() {
        let mut roff = Roff::new();
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in &text.examples {
            roff.text([roman(line.as_str())]);
        }
        roff.control("fi", []).to_writer(to)?;
    }
    let whole = Text::of(&Cli::command());
    let status = whole.exit_status.unwrap_or_default();
    section("EXIT STATUS", &format!("The status is {status}"), to)?;
    list("ENVIRONMENT", &ENVIRONMENT, to)?;
    list("FILES", &FILES, to)?;
    if command.get_version().is_some() {
        man.render_version_section(to)?;
    }
    let below = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(name);
    let others: Vec<_> = above
        .iter()
        .cloned()
        .chain(below)
        .map(|name| format!("{name}(1)"))
        .collect();
    if !others.is_empty() {
        section("SEE ALSO", &others.join(", "), to)?;
    }
    Ok(())
}

fn section(title: &str, text: &str, to: &mut dyn Write) -> Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]).text([roman(text)]);
    Ok(roff.to_writer(to)?)
}

fn list(title: &str, entries: &[(&str, &str)], to: &mut dyn Write) -> Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (name, about) in entries {
        roff.control("TP", [])
            .text([roman(*name)])
            .text([roman(*about)]);
    }
    Ok(roff.to_writer(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the page of sweeps has the options of the program that makes them.
    #[test]
    fn the_page_of_sweeps_has_all_options() {
        let program =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/trapless/sweep/cli.py");
        let program = std::fs::read_to_string(program).unwrap();
        let mut options: Vec<_> = program
            .split("add_argument(\"--")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        options.sort_unstable();
        let listed = SWEEP.iter().filter_map(|(name, _)| name.strip_prefix("--"));
        let mut listed: Vec<_> = listed
            .filter_map(|name| name.split([' ', ',']).next())
            .collect();
        listed.sort_unstable();
        assert_eq!(options, listed);
    }
}
