//! Interrupt architectures from outside the project. This module and `preset` depend on each other:
//! a configuration names an architecture, which is made from the configuration.

use std::fmt;
use std::sync::Arc;

use trapless_intc::InterruptArchitecture;

use crate::config::preset::MachineConfig;

/// Makes the interrupt architecture of a machine. Cloned with its configuration, from which a twin
/// or a second run is built.
#[derive(Clone)]
pub struct Architecture(Arc<Make>);

type Make = dyn Fn(&MachineConfig) -> Box<dyn InterruptArchitecture> + Send + Sync;

impl Architecture {
    /// The architecture that `make` creates from a checked configuration.
    pub fn new<F>(make: F) -> Self
    where
        F: Fn(&MachineConfig) -> Box<dyn InterruptArchitecture> + Send + Sync + 'static,
    {
        Self(Arc::new(make))
    }

    /// Makes it.
    pub(crate) fn make(&self, config: &MachineConfig) -> Box<dyn InterruptArchitecture> {
        (self.0)(config)
    }
}

impl fmt::Debug for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Architecture")
    }
}

/// A machine with an interrupt architecture from outside the project.
#[derive(Clone, Debug)]
pub struct OwnMachine {
    /// Its name, which no other machine has: lower-case letters, digits and `-`.
    pub name: String,
    /// The machine from which it differs only in its interrupt architecture: `sstc`, for instance.
    pub base: String,
    /// Description of one line.
    pub summary: String,
    /// Its interrupt architecture.
    pub architecture: Architecture,
}
