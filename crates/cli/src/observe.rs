//! Logs, traces and debuggers around a run.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use trapless_ledger::event::{Event, Sink};
use trapless_machine::{Limits, Machine, MachineConfig, Outcome, Payload, Peripherals};
use trapless_report::{PerfettoTrace, Style};

use crate::args::ObserveArgs;
use crate::setup;

/// A sink that can be taken back from the machine when the run is over.
struct Kept<S>(Arc<Mutex<Option<S>>>);

impl<S> Kept<S> {
    fn new(sink: S) -> Self {
        Self(Arc::new(Mutex::new(Some(sink))))
    }

    fn share(&self) -> Self {
        Self(self.0.clone())
    }

    fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Sink> Sink for Kept<S> {
    fn record(&mut self, event: &Event) {
        if let Some(sink) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            sink.record(event);
        }
    }
}

type Trace = PerfettoTrace<BufWriter<File>>;

/// What looks into a run besides the ledger.
pub struct Observation {
    trace: Option<(PathBuf, Option<Kept<Trace>>)>,
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    setup::make_parent(path)?;
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

impl Observation {
    /// Notes the files that the options name; they are created when the machine is built.
    pub fn new(args: &ObserveArgs, trace: Option<&Path>) -> Result<Self> {
        let _ = args;
        Ok(Self {
            trace: trace.map(|path| (path.into(), None)),
        })
    }

    fn attach(&mut self, machine: &mut Machine) -> Result<()> {
        if let Some((path, sink)) = &mut self.trace {
            let name = format!("trapless {}", machine.config().machine);
            let clock = machine.config().cost.clock_hz;
            let kept = Kept::new(PerfettoTrace::new(create(path)?, &name, clock));
            machine.add_sink(Box::new(kept.share()));
            *sink = Some(kept);
        }
        Ok(())
    }

    /// Builds the machine with everything attached.
    pub fn boot(
        &mut self,
        config: MachineConfig,
        payload: &Payload,
        peripherals: Peripherals,
    ) -> Result<Machine> {
        let mut machine = Machine::boot(config, payload, peripherals)?;
        self.attach(&mut machine)?;
        Ok(machine)
    }

    /// The same for a bare-metal program; `htif` receives what it prints through `tohost`.
    pub fn exec(
        &mut self,
        config: MachineConfig,
        elf: &[u8],
        peripherals: Peripherals,
        htif: Box<dyn Write + Send>,
    ) -> Result<Machine> {
        let mut machine = Machine::exec(config, elf, peripherals, htif)?;
        self.attach(&mut machine)?;
        Ok(machine)
    }

    /// Runs the machine, under gdb if it was asked for.
    pub fn run(&mut self, machine: &mut Machine, limits: &Limits) -> Result<Outcome> {
        Ok(machine.run(limits))
    }

    /// Completes the files at virtual time `now`.
    pub fn finish(&mut self, now: u64) -> Result<()> {
        if let Some((path, Some(kept))) = &self.trace {
            if let Some(trace) = kept.take() {
                trace
                    .finish(now)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
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
