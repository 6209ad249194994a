//! The `trapless` command as a library: for programs that make runs themselves, as the Python
//! package does ([`Trapless::plan`], [`Session`]), and for the same command with more machines
//! ([`Trapless::with_machine`], [`Trapless::main`]).
//!
//! ```text
//! args -> commands -> series -> measure -> plan -> observe -> machine     (what a machine is)
//!                  \> devices, terminal, output     project, workload   (images, experiments)
//!                                                   files, console, failure, interrupt
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `library` | what other programs use: the command and its parts |
//! | `trapless` | where the project is, and which machines there are, for all of these |
//! | `session` | a machine under way that another program drives |
//! | `args` | the command line |
//! | `commands` | one file for each subcommand |
//! | `series` | several runs side by side |
//! | `measure`, `single` | one run of a workload, its ledger and its progress |
//! | `plan`, `kernels` | a workload with its images and its machine; whose kernels it has |
//! | `identity` | what determines the result of a run |
//! | `workload` | options that say what to run, and names that follow from them |
//! | `observe` | logs, traces, diagrams, profiles, debuggers |
//! | `machine`, `rtc` | options -> machine configuration; what the ledger records of it |
//! | `payload`, `devices`, `terminal` | what `boot` loads and plugs into its machine, the user's terminal |
//! | `interactive`, `outside` | a machine of `boot` with keyboard and screen; all that comes from outside |
//! | `copy` | files of the host in the guest's initial RAM file system |
//! | `checkpoint` | checkpoints that a run makes, keeps or goes on from |
//! | `console`, `script` | marker lines on the guest's console; what is typed there by itself |
//! | `project` | images of the project folder |
//! | `own` | machines and workloads out of users' files |
//! | `files`, `ledgers`, `output` | files the user names, ledgers in files, standard output |
//! | `failure`, `interrupt` | exit status, Ctrl-C |
//! | `help`, `complete` | what the command says of itself; names for a shell that completes them |
//! | `qemu` | what options of QEMU are called here |

#[macro_use]
mod output;

mod args;
mod checkpoint;
mod commands;
mod complete;
mod console;
mod copy;
mod devices;
mod failure;
mod files;
mod help;
mod identity;
mod interactive;
mod interrupt;
mod kernels;
mod ledgers;
mod library;
mod machine;
mod measure;
mod observe;
mod outside;
mod own;
mod payload;
mod plan;
mod project;
mod qemu;
mod rtc;
mod script;
mod series;
mod session;
mod single;
mod terminal;
mod threads;
mod trapless;
mod workload;

use std::process::ExitCode;

pub use failure::{Failure, sentence};
pub use interrupt::Interrupted;
pub use ledgers::read_ledgers;
pub use plan::Plan;
pub use session::{Ended, Session};
pub use trapless::{Console, Trapless};
pub use workload::RunId;

/// Reads the command line, does what it says, and returns the exit status that `trapless --help`
/// lists.
pub fn main() -> ExitCode {
    Trapless::new().main()
}
