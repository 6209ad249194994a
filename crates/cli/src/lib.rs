//! The `trapless` command as a library, for building it with more machines ([`main`]). Programs
//! that want its functions use the crate `trapless-run`.
//!
//! ```text
//! args -> commands -> series, single -> words
//!                  \> interactive, terminal, output
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `args` | the command line, and the specifications it describes |
//! | `commands` | one file for each subcommand |
//! | `series`, `single` | progress and results of runs |
//! | `words` | the command that repeats a run |
//! | `interactive`, `terminal` | a machine of `boot` with keyboard and screen |
//! | `output` | standard output |
//! | `failure` | exit status |
//! | `help`, `complete` | help texts; completion in shells |
//! | `qemu` | hints for options of QEMU |

mod args;
mod commands;
mod complete;
mod failure;
mod help;
mod interactive;
mod output;
mod qemu;
mod series;
mod single;
mod terminal;
mod words;

use std::process::ExitCode;

use clap::FromArgMatches;
use trapless_run::{Trapless, interrupt, note};

use crate::args::Cli;

/// Reads the command line, executes it, and returns the exit status that `trapless --help` lists.
/// `trapless` provides machines in addition to those of the project and of the user.
///
/// ```no_run
/// use trapless_intc::aclint_plic::{AclintPlic, Config};
/// use trapless_run::Trapless;
///
/// fn main() -> std::process::ExitCode {
///     let plain = |config: &trapless_machine::MachineConfig| {
///         AclintPlic::new(Config {
///             harts: config.harts,
///             cycles_per_tick: config.hart.cycles_per_tick,
///             sswi: true,
///             edge_triggered: 0,
///         })
///     };
///     let trapless = Trapless::new();
///     trapless_cli::main(trapless.with_machine("mine", "sstc", "sstc with an SSWI", plain))
/// }
/// ```
pub fn main(mut trapless: Trapless) -> ExitCode {
    complete::answer(&trapless);
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.unwrap_or_else(|error| {
        if let Some(hint) = qemu::hint(std::env::args().skip(1)) {
            note!("trapless: {hint}");
            std::process::exit(failure::USAGE.into());
        }
        error.exit()
    });
    if let Err(error) = interrupt::ignore_file_size_limit() {
        return failure::report(&error);
    }
    if let Some(project) = &cli.project {
        trapless = trapless.with_project(project);
    }
    commands::run(&cli, &trapless).unwrap_or_else(|error| failure::report(&error))
}
