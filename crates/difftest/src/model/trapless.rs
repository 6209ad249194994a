//! Our own machine, as a user runs it: `trapless exec FILE --signature FILE`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Failure, Model, process, signature_file};
use crate::program::{Feature, Program};

/// A `trapless` binary.
pub struct Trapless {
    path: PathBuf,
}

impl Trapless {
    /// The `trapless` binary at `path`.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
        }
    }
}

impl Model for Trapless {
    fn name(&self) -> String {
        "trapless".into()
    }

    fn features(&self) -> BTreeSet<Feature> {
        Feature::ALL.into()
    }

    fn run(&self, program: &Program, scratch: &Path) -> Result<Vec<u8>, Failure> {
        let elf = scratch.join("program.elf");
        let signature = scratch.join("signature");
        std::fs::write(&elf, program.elf()).map_err(|e| Failure::Broken(e.to_string()))?;
        let _ = std::fs::remove_file(&signature);
        let (status, said) = process::run(
            Command::new(&self.path)
                .arg("exec")
                .arg(&elf)
                .arg("--signature")
                .arg(&signature)
                .args([
                    "--signature-granularity",
                    "16",
                    "--ram",
                    "16M",
                    "--max-instructions",
                    "20000000",
                ]),
        )?;
        if !status.success() {
            return Err(Failure::Broken(format!("{status}: {}", said.trim())));
        }
        signature_file::read(&signature)
    }
}
