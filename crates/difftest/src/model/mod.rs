//! Models: independent implementations of the architecture that run a program.

mod process;
mod qemu;
mod signature_file;
mod spike;
mod trapless;

use std::collections::BTreeSet;
use std::path::Path;

use crate::program::{Feature, Program};

pub use qemu::Qemu;
pub use spike::Spike;
pub use trapless::{Engine, Trapless};

/// Why a model gave no signature.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The program did not end in time.
    Timeout,
    /// The model ended in another way than through `tohost`, with this message.
    Broken(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Timeout => f.write_str("did not finish in time"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

/// An implementation of the architecture.
///
/// A model may also run in this process; it must return the bytes from `layout::DATA` to
/// `Program::signature().end`.
pub trait Model: Send + Sync {
    /// Name in reports, with the version.
    fn name(&self) -> String;

    /// Optional parts of the architecture it has.
    fn features(&self) -> BTreeSet<Feature>;

    /// Runs `program` until it writes `tohost`, returns its signature. `scratch` is a directory
    /// for this run alone.
    fn run(&self, program: &Program, scratch: &Path) -> Result<Vec<u8>, Failure>;

    /// True if the model has everything that `program` needs.
    fn can_run(&self, program: &Program) -> bool {
        program.needs.is_subset(&self.features())
    }
}
