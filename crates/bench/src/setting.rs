//! Settings shared by all scenarios: the size of the machine, and receivers of its events.

use clap::ValueEnum;

/// Harts of every machine.
pub const HARTS: u32 = 2;

/// RAM of every machine in MiB.
pub const MEMORY: u64 = 2048;

/// Receivers of events.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sinks {
    /// None.
    None,
    /// The ledger.
    Totals,
    /// The ledger, and a file that gets every event (`--trace` of the command).
    Stream,
}

impl Sinks {
    /// As option.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Totals => "totals",
            Self::Stream => "stream",
        }
    }
}
