//! Logs, traces and debuggers around a run.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::Result;
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};
use trapless_report::Style;

use crate::args::ObserveArgs;

/// What looks into a run besides the ledger.
pub struct Observation {}

impl Observation {
    /// Opens the files that the options name.
    pub fn new(args: &ObserveArgs, trace: Option<&Path>) -> Result<Self> {
        let _ = (args, trace);
        Ok(Self {})
    }

    /// Builds the machine with everything attached.
    pub fn boot(
        &mut self,
        config: MachineConfig,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Machine> {
        Ok(Machine::boot(config, payload, peripherals)?)
    }

    /// The same for a bare-metal program; `htif` receives what it prints through `tohost`.
    pub fn exec(
        &mut self,
        config: MachineConfig,
        elf: &[u8],
        peripherals: Peripherals,
        htif: Box<dyn Write + Send>,
    ) -> Result<Machine> {
        Ok(Machine::exec(config, elf, peripherals, htif)?)
    }

    /// Runs the machine, under gdb if it was asked for.
    pub fn run(&mut self, machine: &mut Machine, limits: &Limits) -> Result<Outcome> {
        Ok(machine.run(limits))
    }

    /// Completes the files.
    pub fn finish(&mut self, now: u64) -> Result<()> {
        let _ = now;
        Ok(())
    }
}

/// How to print reports on this terminal.
pub fn style() -> Style {
    let out = std::io::stdout();
    let width = rustix::termios::tcgetwinsize(&out).map_or(100, |size| usize::from(size.ws_col));
    Style {
        colour: out.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        width: width.clamp(60, 160),
    }
}
