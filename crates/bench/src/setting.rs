//! What the runs of all scenarios have in common: the size of the machine, and who may receive its
//! events.

use clap::ValueEnum;

/// Harts of every machine.
pub const HARTS: u32 = 2;

/// RAM of every machine in MiB.
pub const MEMORY: u64 = 2048;

/// Who receives events.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sinks {
    /// Nobody.
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
