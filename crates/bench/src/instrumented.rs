//! A machine as `trapless boot` makes it, with chosen receivers of events: the difference is what
//! the ledger costs. Says on standard error how much it had executed at each marker line and at its
//! end.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use trapless_devices::virtio::net::{Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_ledger::event::{Event, Sink};
use trapless_ledger::{Config, Ledger};
use trapless_machine::{
    Content, Engine, Limits, Machine, MachineConfig, Outcome, Payload, Peripherals, Transport,
};
use trapless_report::PerfettoTrace;

use crate::counts::COUNTS;
use crate::setting::{HARTS, MEMORY, Sinks};

/// Options of the hidden command.
#[derive(Args)]
pub struct Arguments {
    #[arg(long)]
    sinks: Sinks,
    #[arg(long)]
    firmware: PathBuf,
    #[arg(long)]
    kernel: PathBuf,
    #[arg(long)]
    initrd: PathBuf,
    #[arg(long)]
    append: String,
    #[arg(long, default_value = "jit")]
    engine: String,
}

/// Shared with the machine.
struct Kept<S>(Arc<Mutex<Option<S>>>);

impl<S: Sink> Sink for Kept<S> {
    fn record(&mut self, event: &Event) {
        if let Some(sink) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            sink.record(event);
        }
    }
}

/// Virtual time between two looks at the console, in cycles; so exact are the counts of
/// instructions.
const SLICE: u64 = 100_000;

/// Shows the console, and keeps marker lines until somebody takes them. Characters appear at once,
/// as with `trapless boot`.
#[derive(Clone, Default)]
struct Console(Arc<Mutex<Vec<u8>>>);

impl Console {
    fn line(&self) -> Option<String> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = text.iter().position(|b| *b == b'\n')?;
        let line: Vec<u8> = text.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// `begin SIDE NAME` and `end SIDE NAME` of the marker lines that have come.
    fn markers(&self) -> Vec<String> {
        std::iter::from_fn(|| self.line())
            .filter_map(|line| {
                let mut words = line.split_once("@trapless ")?.1.split_whitespace();
                let [verb, side, name] = [words.next()?, words.next()?, words.next()?];
                ["begin", "end"]
                    .contains(&verb)
                    .then(|| format!("{verb} {side} {name}"))
            })
            .collect()
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut out = stdout();
        out.write_all(bytes)?;
        out.flush()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Says what has been counted at a moment.
fn note(moment: &str, machine: &Machine) {
    let statistics = machine.engine_statistics();
    for count in COUNTS {
        let value = (count.of)(&statistics);
        eprintln!("@bench {moment}: {}={value}", count.name);
    }
}

/// Boots and runs until the guest powers off.
pub fn main(arguments: &Arguments) -> Result<()> {
    let read = |path: &PathBuf| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let payload = Payload {
        firmware: Some(read(&arguments.firmware)?),
        kernel: Some(Content::File(arguments.kernel.clone())),
        initrd: Some(Content::File(arguments.initrd.clone())),
        append: arguments.append.clone(),
        dtb: None,
    };
    let mut config = MachineConfig::preset("sstc")?;
    config.harts = HARTS as usize;
    config.ram = MEMORY << 20;
    config.engine = match arguments.engine.as_str() {
        "interp" => Engine::Interp,
        _ => Engine::default(),
    };
    let (cycles_per_tick, clock) = (config.hart.cycles_per_tick, config.cost.clock_hz);
    let console = Console::default();
    let mut peripherals = Peripherals::new(Box::new(console.clone()));
    // The same devices in the same order: then the same instructions are executed.
    let peer = Peer::new([0x52, 0x54, 0, 0, 0, 2], [10, 0, 2, 2].into());
    let net = Net::new(Box::new(peer), [0x52, 0x54, 0, 0, 0, 1]);
    let slot = Transport::Mmio;
    peripherals.plug(slot, net, Box::new(()))?;
    let rng = Rng::new(Box::new(SeededEntropy::new(0)));
    peripherals.plug(slot, rng, Box::new(()))?;
    let mut machine = Machine::boot(config, &payload, peripherals)?;
    let ledger_config = Config {
        cycles_per_tick,
        ..Config::new(HARTS as usize)
    };
    if !matches!(arguments.sinks, Sinks::None) {
        let ledger = Ledger::new(ledger_config.clone());
        machine.add_sink(Box::new(Kept(Arc::new(Mutex::new(Some(ledger))))));
    }
    let mut trace = None;
    let path = std::env::temp_dir().join(format!("trapless-bench-{}.trace", std::process::id()));
    if matches!(arguments.sinks, Sinks::Stream) {
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        // The file needs no name: it goes away however this process ends.
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        let out = BufWriter::with_capacity(1 << 20, file);
        let new = PerfettoTrace::new(out, "trapless", clock, ledger_config);
        let kept = Arc::new(Mutex::new(Some(new)));
        machine.add_sink(Box::new(Kept(kept.clone())));
        trace = Some(kept);
    }
    let start = Instant::now();
    let outcome = loop {
        let until = machine.now().saturating_add(SLICE);
        let outcome = machine.run(&Limits {
            until,
            ..Limits::default()
        });
        for marker in console.markers() {
            note(&marker, &machine);
        }
        if outcome != Outcome::Limit {
            break outcome;
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    if let Some(trace) = trace.and_then(|t| t.lock().unwrap_or_else(PoisonError::into_inner).take())
    {
        trace
            .finish(machine.now())
            .context("cannot write the trace")?;
    }
    note("exit", &machine);
    eprintln!("@bench seconds={seconds}");
    eprintln!(
        "@bench virtual_seconds={}",
        machine.now() as f64 / clock as f64
    );
    match outcome {
        Outcome::PoweredOff => Ok(()),
        other => bail!("the machine stopped: {other:?}"),
    }
}
