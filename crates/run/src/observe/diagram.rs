//! `--diagram`: the delivery of single interrupts as sequence diagrams.

use std::path::{Path, PathBuf};

use anyhow::Result;
use trapless_machine::Machine;
use trapless_report::sequence::{Finder, Wanted};

use crate::observe::kept::Kept;
use crate::{files, machine};

/// `CLASS[.STATE][:NUMBER]=FILE` on the command line.
#[derive(Clone)]
pub struct Request {
    text: String,
    wanted: Wanted,
    file: PathBuf,
}

impl Request {
    /// File for the diagram.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl std::str::FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, file) = text
            .split_once('=')
            .filter(|(_, file)| !file.is_empty())
            .ok_or_else(|| format!("{text:?} names no file: write INTERRUPT=FILE"))?;
        Ok(Self {
            text: what.into(),
            wanted: what.parse()?,
            file: file.into(),
        })
    }
}

/// The interrupts that are looked for in a run.
#[derive(Default)]
pub struct Diagrams {
    finders: Vec<(Request, Kept<Finder>)>,
    clock: u64,
}

impl Diagrams {
    /// Observes a machine.
    pub fn attach(&mut self, requests: &[Request], watched: &mut Machine) {
        let config = watched.config();
        let ledger = machine::ledger_config(config);
        self.clock = config.cost.clock_hz;
        for request in requests {
            let kept = Kept::new(Finder::new(ledger.clone(), request.wanted));
            watched.add_sink(Box::new(kept.share()));
            self.finders.push((request.clone(), kept));
        }
    }

    /// Writes the files; reports if there were fewer such interrupts.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        let mut missing = Vec::new();
        for (request, kept) in self.finders.drain(..) {
            let Some(sequence) = kept.take().and_then(Finder::finish) else {
                missing.push(request.text);
                continue;
            };
            files::write(&request.file, sequence.mermaid(self.clock))?;
        }
        if !missing.is_empty() {
            note!(
                "No diagram: the run had no interrupt {}. Choose a lower number or another state.",
                missing.join(", ")
            );
        }
        Ok(())
    }
}
