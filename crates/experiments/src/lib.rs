//! Experiments: workloads that run in a guest, what they measure and what they print.
//!
//! Each is one TOML file in `experiments/`, or a user's own ([`Workloads`]). The scripts in it go
//! into images (`trapless-images`); the parameters that start one are on the host's kernel command
//! line ([`Experiment::host_command_line`]).

pub mod error;
mod experiment;
mod own;
mod parameter;
mod place;
mod workloads;

pub use error::{Error, Result};
pub use experiment::{Experiment, Guest, Host, Outcome, Own, Work, toml_files};
pub use own::visit_files;
pub use parameter::{NoValue, Parameter, Value};
pub use workloads::Workloads;
