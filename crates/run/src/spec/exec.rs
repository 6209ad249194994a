//! A machine of `trapless exec`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use trapless_experiments::Value;
use trapless_machine::{MachineConfig, Machines};

use super::{MachineOptions, text};
use crate::machine;

/// A bare-metal ELF program, run from reset in M-mode.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecSpec {
    /// The program.
    pub file: PathBuf,
    /// Machine preset.
    pub machine: String,
    /// Number of harts.
    pub harts: usize,
    /// Options that only this machine has, as in `aia.guests`.
    #[serde(deserialize_with = "text::settings")]
    pub settings: BTreeMap<String, Value>,
    /// Options of every machine.
    #[serde(flatten)]
    pub options: MachineOptions,
}

impl ExecSpec {
    /// Default number of harts.
    pub const HARTS: usize = 1;

    /// The machine of `machines`.
    ///
    /// # Errors
    /// If there is none of this name, or an option does not fit it.
    pub fn config(&self, machines: &Machines) -> Result<MachineConfig> {
        let (options, settings) = (&self.options, &self.settings);
        machine::config(machines, &self.machine, self.harts, options, settings)
    }
}

impl Default for ExecSpec {
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            machine: machine::USUAL.into(),
            harts: Self::HARTS,
            settings: BTreeMap::new(),
            options: MachineOptions::default(),
        }
    }
}
