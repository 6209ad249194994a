//! Runs of machines: what they are, as data ([`spec`]), and making them. It knows no command line:
//! `trapless`, the Python package and programs of others are built on it.
//!
//! ```text
//! series -> measure -> session -> plan -> observe -> machine -> spec
//!                         \> outside, devices, payload      (machines of `boot`)
//!                          \> checkpoint, console
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `spec` | what is run, as data |
//! | `trapless` | where the project is, and which machines there are |
//! | `session` | a machine under way, driven piece by piece, with its ledger and console |
//! | `plan`, `kernels` | a workload with its images and its machine; whose kernels it has |
//! | `measure`, `series` | one run of a workload and its ledger; several side by side |
//! | `identity` | what determines the result of a run |
//! | `observe` | logs, traces, diagrams, profiles, debuggers |
//! | `machine`, `rtc` | options -> machine configuration; what the ledger records of it |
//! | `payload`, `devices`, `copy` | what a machine of `boot` loads and has plugged in |
//! | `outside` | all that comes into it from outside, and records of that |
//! | `checkpoint` | checkpoints that a run makes, keeps or goes on from |
//! | `console`, `script`, `threads` | marker lines of the guest; what is typed by itself; names |
//! | `project`, `own` | images of the project folder; machines and workloads out of users' files |
//! | `files`, `sources`, `ledgers` | files the user names, and those that they name; ledgers in files |
//! | `failure`, `interrupt`, `note` | kinds of errors, Ctrl-C, what the user is told |

#[macro_use]
mod note;

pub mod checkpoint;
pub mod console;
pub mod copy;
pub mod devices;
mod failure;
pub mod files;
mod identity;
pub mod interrupt;
pub mod kernels;
mod ledgers;
pub mod machine;
pub mod measure;
pub mod observe;
pub mod outside;
pub mod own;
pub mod payload;
pub mod plan;
pub mod project;
pub mod rtc;
pub mod script;
pub mod series;
mod session;
pub mod sources;
pub mod spec;
mod threads;
mod trapless;

pub use failure::{Failed, Failure, sentence};
pub use identity::Identity;
pub use interrupt::Interrupted;
pub use ledgers::read_ledgers;
pub use note::printable;
pub use observe::ObserveOptions;
pub use plan::Plan;
pub use session::{Ended, Session};
pub use spec::{BootSpec, ExecSpec, MachineOptions, RunId, RunSpec, Spec, WorkloadSpec};
pub use trapless::{Console, Trapless};
