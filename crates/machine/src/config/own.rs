//! Interrupt architectures from outside the project, for machines of one's own. `preset` has the
//! configuration that names one, and of which one is made: the two are halves of one thing.

use std::fmt;
use std::sync::Arc;

use trapless_intc::InterruptArchitecture;

use crate::config::preset::MachineConfig;

/// Makes the interrupt architecture of a machine. Cloned with its configuration, which a twin or a
/// second run is built from.
#[derive(Clone)]
pub struct Architecture(Arc<Make>);

type Make = dyn Fn(&MachineConfig) -> Box<dyn InterruptArchitecture> + Send + Sync;

impl Architecture {
    /// The one that `make` makes of a configuration that has been checked.
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
    /// Its name, not one that there is: lower-case letters, digits and `-`.
    pub name: String,
    /// The machine that it is but for its interrupts: `sstc`, for instance.
    pub base: String,
    /// One line for lists.
    pub summary: String,
    /// Its interrupt architecture.
    pub architecture: Architecture,
}
