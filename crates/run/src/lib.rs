//! Runs of machines: their specifications as data ([`spec`]), and their execution. Independent of
//! the command line: `trapless`, the Python package and programs of others are built on it.
//!
//! ```text
//! series -> measure -> session -> plan -> observe -> machine -> spec
//!                         \> outside, devices, payload      (machines of `boot`)
//!                          \> checkpoint
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `spec` | specifications of runs, as data |
//! | `trapless` | the project folder and the known machines |
//! | `session` | a machine that is driven step by step, with its ledger and console |
//! | `plan`, `kernels` | a workload with its images and its machine; kernels of host and guests |
//! | `measure`, `series` | one run of a workload and its ledger; several side by side |
//! | `identity`, `host` | what determines the result of a run; the computer that made it |
//! | `observe` | logs, traces, diagrams, profiles, debuggers |
//! | `machine`, `rtc` | options -> machine configuration; what the ledger records of it |
//! | `payload`, `devices`, `copy` | payload and devices of a machine of `boot` |
//! | `outside` | input of a machine from outside, and records of it |
//! | `checkpoint` | checkpoints that a run makes, keeps or resumes |
//! | `script`, `pattern` | scripted input, and what it waits for |
//! | `project`, `own` | images of the project folder; machines and workloads in users' files |
//! | `files`, `sources`, `ledgers` | input and output files, and files that these name; ledgers in files |
//! | `failure`, `interrupt`, `note` | kinds of errors, Ctrl-C, messages to the user |

#[macro_use]
mod note;

pub mod checkpoint;
pub mod copy;
pub mod devices;
mod failure;
pub mod files;
mod host;
mod identity;
pub mod interrupt;
pub mod kernels;
mod ledgers;
pub mod machine;
pub mod measure;
pub mod observe;
pub mod outside;
pub mod own;
mod pattern;
pub mod payload;
pub mod plan;
pub mod project;
pub mod rtc;
pub mod script;
pub mod series;
mod session;
pub mod sources;
pub mod spec;
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
