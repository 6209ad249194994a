//! `trapless-bench`: speed and memory of Trapless and QEMU 10 side by side, on the same firmware,
//! kernel, files and programs; of programs also without an emulator.
//!
//! ```text
//! rows (measurements) -> scenario (one boot: image, command line)
//!   -> emulator, or native (the command)
//!   -> session (runs it, notes when each marker line arrives, and its memory)
//!   -> results (medians, ratios, table, JSON)
//! ```
//!
//! Time is always the host's: the moment at which a marker line of the guest arrives here, or the
//! process begins or ends.

mod clock;
mod console;
mod counts;
mod emulator;
mod entry;
mod instrumented;
mod interrupt;
mod means;
mod native;
mod results;
mod rows;
mod session;
mod setting;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use trapless_images::Project;

use emulator::Images;
use native::Native;
use results::Results;
use rows::{Row, SCENARIOS, Scenario};
use session::Subject;
use setting::Sinks;

#[derive(Parser)]
#[command(
    about = "Measures Trapless and QEMU 10 side by side, and programs beside this machine",
    after_help = "A row or scenario is chosen by its name: `--only boot,mmio`, `--only programs`.\n\
                  Times are wall times of this machine; compare only figures of one run."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
struct Options {
    /// How often each scenario runs on each emulator; medians are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Rows or scenarios to measure [default: all but `methods`]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    only: Vec<String>,
    /// List rows and scenarios and stop
    #[arg(long)]
    list: bool,
    /// The trapless command [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    trapless: Option<PathBuf>,
    /// qemu-system-riscv64 [default: Debian's, fetched into the cache]
    #[arg(long, value_name = "FILE")]
    qemu: Option<PathBuf>,
    /// Engine of Trapless: jit or interp [default: its own]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Project folder with images/ and experiments/ [default: the source tree this was built from]
    #[arg(long, value_name = "DIR", env = "TRAPLESS_PROJECT")]
    project: Option<PathBuf>,
    /// File for the figures
    #[arg(long, value_name = "FILE", default_value = "out/bench.json")]
    json: PathBuf,
    /// Folder for consoles when something fails
    #[arg(long, value_name = "FOLDER", default_value = "out/bench")]
    logs: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Boots a machine with chosen receivers of events; how the ledger's own cost is measured
    #[command(hide = true)]
    Instrumented(instrumented::Arguments),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        Some(Command::Instrumented(arguments)) => instrumented::main(arguments).map(|()| true),
        None => measure(&cli.options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("trapless-bench: {error:#}");
            ExitCode::from(if interrupt::requested() {
                interrupt::STATUS
            } else {
                2
            })
        }
    }
}

/// Scenarios with the rows of each that are wanted.
fn chosen(only: &[String]) -> Result<Vec<(&'static Scenario, Vec<&'static Row>)>> {
    for name in only {
        let known = SCENARIOS
            .iter()
            .any(|s| s.name == name || s.rows.iter().any(|r| r.name == name));
        if !known {
            bail!("there is no row or scenario `{name}`; `--list` lists them");
        }
    }
    let wanted = |name: &str| only.iter().any(|o| o == name);
    Ok(SCENARIOS
        .iter()
        .map(|s| {
            let all = wanted(s.name) || (only.is_empty() && !s.named);
            (
                s,
                s.rows
                    .iter()
                    .filter(|r| all || wanted(r.name))
                    .collect::<Vec<_>>(),
            )
        })
        .filter(|(_, rows)| !rows.is_empty())
        .collect())
}

fn list(chosen: &[(&Scenario, Vec<&Row>)]) -> String {
    let mut text = String::new();
    for (scenario, rows) in chosen {
        text += &format!("{}: {}\n", scenario.name, scenario.explanation);
        for row in rows {
            text += &format!("    {:18} {}\n", row.name, row.explanation);
        }
    }
    text
}

/// Prints; a reader that has closed the pipe is not an error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Runs the chosen scenarios; `false` if something failed.
fn measure(options: &Options) -> Result<bool> {
    let chosen = chosen(&options.only)?;
    if options.list {
        show(&list(&chosen));
        return Ok(true);
    }
    interrupt::catch()?;
    let project = Project::new(options.project.as_deref()).folder()?;
    let trapless = options.trapless.clone().map_or_else(beside, Ok)?;
    if !trapless.exists() {
        bail!(
            "{} does not exist; build it with `cargo build --release`, or name it with --trapless",
            trapless.display()
        );
    }
    let mut names = vec!["opensbi", "kernel"];
    names.extend(chosen.iter().map(|(s, _)| s.image));
    let images = Images::prepare(&project, &names)?;
    let qemu = emulator::qemu(&project, options.qemu.as_deref())?;
    let trapless = emulator::trapless(&trapless, options.engine.as_deref())?;

    let programs = chosen.iter().find(|(s, _)| s.programs.is_some());
    let native = programs
        .map(|(scenario, _)| Native::prepare(&project, scenario.image))
        .transpose()?;

    let mut versions = vec![
        (qemu.name.clone(), qemu.version.clone()),
        (trapless.name.clone(), trapless.version.clone()),
    ];
    versions.extend(native.iter().map(|n| (native::NAME.into(), n.version())));
    let mut results = Results::new(options.runs, versions, &images);
    for run in 0..options.runs {
        for (scenario, rows) in &chosen {
            let mut turn: Vec<Subject<'_>> = match scenario.variants {
                None => [&qemu, &trapless]
                    .map(|emulator| Subject::Emulator(emulator.clone()))
                    .into(),
                Some(sinks) => sinks
                    .iter()
                    .map(|s| Ok(Subject::Emulator(emulator::variant(*s, &trapless)?)))
                    .collect::<Result<_>>()?,
            };
            if let (Some(_), Some(native)) = (scenario.programs, &native) {
                turn.push(Subject::Native(native));
            }
            // The state of the computer may differ between the first and the last emulator, so the
            // order alternates.
            if run % 2 == 1 {
                turn.reverse();
            }
            for subject in &turn {
                let rows = match subject {
                    Subject::Emulator(_) => rows.clone(),
                    Subject::Native(_) => Native::rows(rows),
                };
                if rows.is_empty() {
                    continue;
                }
                eprintln!(
                    "run {}/{}: {} on {}",
                    run + 1,
                    options.runs,
                    scenario.name,
                    subject.name()
                );
                let session = session::run(subject, scenario, &rows, &images)?;
                if let Some(problem) = &session.problem {
                    let path =
                        session.keep_console(&options.logs, scenario.name, subject.name())?;
                    eprintln!("  {problem}; console: {}", path.display());
                }
                results.add(scenario, &rows, subject.name(), &session);
            }
        }
        if run == 0 {
            // Once is enough: it is the same each time.
            let counter = Subject::Emulator(emulator::variant(Sinks::None, &trapless)?);
            for (scenario, rows) in chosen.iter().filter(|(s, _)| s.ends()) {
                eprintln!("counting what the engine does: {}", scenario.name);
                let session = session::run(&counter, scenario, rows, &images)?;
                results.count(rows, &session);
            }
        }
        // After each round, so that an interrupted run leaves its results.
        results.write(&options.json)?;
    }
    show(&format!(
        "{}\n{}\n",
        results.table(),
        options.json.display()
    ));
    Ok(!results.failed())
}

/// `trapless` in the folder of this program.
fn beside() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's own folder")?;
    Ok(program.with_file_name("trapless"))
}
