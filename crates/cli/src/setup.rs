//! From command-line options to a machine's configuration and payload.

use std::path::Path;

use anyhow::{Context, Result};
use trapless_machine::MachineConfig;
use trapless_machine::cost::CostTable;

use crate::args::MachineArgs;

/// RAM of machines whose user does not say.
const DEFAULT_RAM: u64 = 2 << 30;

/// The machine that the options describe.
pub fn config(args: &MachineArgs, harts: usize) -> Result<MachineConfig> {
    let mut config = MachineConfig::preset(&args.machine)?;
    config.harts = harts;
    config.ram = args.ram.map_or(DEFAULT_RAM, |size| size.0);
    if let Some(isa) = &args.isa {
        config.set_isa(isa)?;
    }
    if let Some(file) = &args.cost {
        config.set_cost(CostTable::from_file(file)?);
    }
    config.hart.misaligned = !args.trap_misaligned;
    if let Some(quantum) = args.quantum {
        config.quantum = quantum;
    }
    if let Some(seed) = args.seed {
        config.seed = seed;
    }
    config.check()?;
    Ok(config)
}

/// Reads a file the user named.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}
