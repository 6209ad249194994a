//! The project folder and the known machines.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trapless_experiments::Workloads;
use trapless_images::Project;
use trapless_intc::InterruptArchitecture;
use trapless_machine::{Architecture, MachineConfig, Machines, OwnMachine};

use crate::spec::MachineOptions;
use crate::{machine, own};

/// Writer for a copy of a machine's console.
pub type Console = Box<dyn Write + Send>;

/// The environment of runs: the project folder, and machines in addition to those of the project
/// and of the user.
///
/// ```no_run
/// use trapless_run::Trapless;
/// use trapless_intc::aclint_plic::{AclintPlic, Config};
///
/// # fn main() -> anyhow::Result<()> {
///     let plain = |config: &trapless_machine::MachineConfig| {
///         AclintPlic::new(Config {
///             harts: config.harts,
///             cycles_per_tick: config.hart.cycles_per_tick,
///             sswi: true,
///             edge_triggered: 0,
///         })
///     };
///     let trapless = Trapless::new();
///     let trapless = trapless.with_machine("mine", "sstc", "sstc with an SSWI", plain);
///     println!("{:?}", trapless.machine("mine", 2)?);
/// #   Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Trapless {
    project: Option<PathBuf>,
    own: Vec<OwnMachine>,
}

impl Trapless {
    /// The default environment: the project folder that was installed with this program, or from
    /// which it was built.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes images and workloads from this folder, unless the command line names another one.
    #[must_use]
    pub fn with_project(mut self, folder: &Path) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Adds the machine `name`: `base` with the interrupt architecture that `make` creates. If the
    /// name is taken, or there is no such base, every command that needs a machine fails.
    #[must_use]
    pub fn with_machine<A, F>(mut self, name: &str, base: &str, summary: &str, make: F) -> Self
    where
        A: InterruptArchitecture + 'static,
        F: Fn(&MachineConfig) -> A + Send + Sync + 'static,
    {
        self.own.push(OwnMachine {
            name: name.into(),
            base: base.into(),
            summary: summary.into(),
            architecture: Architecture::new(move |config| Box::new(make(config))),
        });
        self
    }

    /// The project folder.
    pub fn project(&self) -> Project {
        Project::new(self.project.as_deref())
    }

    /// Workloads by name.
    ///
    /// # Errors
    /// If there is no project folder, or a file in it or of the user cannot be used.
    pub fn workloads(&self) -> Result<Workloads> {
        own::workloads(&self.project())
    }

    /// Machines by name.
    ///
    /// # Errors
    /// If a file with machines of the user cannot be used, or one of
    /// [`with_machine`](Self::with_machine) cannot be added.
    pub fn machines(&self) -> Result<Machines> {
        own::machines(&self.own)
    }

    /// The machine called `name` with `harts` harts.
    ///
    /// # Errors
    /// If there is none; the message lists the known names.
    pub fn machine(&self, name: &str, harts: usize) -> Result<MachineConfig> {
        machine::config(
            &self.machines()?,
            name,
            harts,
            &MachineOptions::default(),
            &BTreeMap::new(),
        )
    }
}
