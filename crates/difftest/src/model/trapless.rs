//! Our own machine, as a user runs it: `trapless exec FILE --signature FILE`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use trapless_isa::Extensions;

use super::{Failure, Model, process, signature_file};
use crate::program::{Board, Feature, Program};

/// The engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// The default.
    Usual,
    /// Interprets everything.
    Interp,
    /// Interpreter and compiler in lock-step, everything compiled at first sight. The machine
    /// compares registers, CSRs, time, retired instructions, events and memory, and fails at a
    /// difference.
    Both,
}

/// A `trapless` binary.
pub struct Trapless {
    path: PathBuf,
    engine: Engine,
}

impl Trapless {
    /// The `trapless` binary at `path`, with this engine.
    pub fn new(path: &Path, engine: Engine) -> Self {
        Self {
            path: path.to_path_buf(),
            engine,
        }
    }
}

/// Enables extensions that a program needs and that are disabled by default.
fn isa(program: &Program) -> Option<String> {
    let usual = Extensions::default();
    let mut needed = String::new();
    for feature in &program.needs {
        if let Feature::Has(ext) = feature
            && !usual.has(*ext)
        {
            needed += &format!(",+{}", ext.name());
        }
    }
    needed.strip_prefix(',').map(|list| format!("--isa={list}"))
}

impl Model for Trapless {
    fn name(&self) -> String {
        match self.engine {
            Engine::Usual => "trapless",
            Engine::Interp => "trapless, interpreted",
            Engine::Both => "trapless, both engines",
        }
        .into()
    }

    fn features(&self) -> BTreeSet<Feature> {
        Feature::all()
    }

    fn run(&self, program: &Program, scratch: &Path) -> Result<Vec<u8>, Failure> {
        let elf = scratch.join("program.elf");
        let signature = scratch.join("signature");
        std::fs::write(&elf, program.elf()).map_err(|e| Failure::Broken(e.to_string()))?;
        let _ = std::fs::remove_file(&signature);
        let engine: &[&str] = match self.engine {
            Engine::Usual => &[],
            Engine::Interp => &["--engine", "interp"],
            Engine::Both => &["--engine", "both", "--hot", "0", "--region", "0"],
        };
        let machine: &[&str] = match program.board {
            Board::Plain => &[],
            Board::Imsic => &["--machine", "aia"],
            Board::Aplic => &["--machine", "aia", "--set", "aia.delivery=direct"],
            Board::Iommu => &["--set", "iommu=on"],
        };
        let (status, said) = process::run(
            Command::new(&self.path)
                .arg("exec")
                .arg(&elf)
                .arg("--signature")
                .arg(&signature)
                .args(engine)
                .args(machine)
                .args(isa(program))
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
