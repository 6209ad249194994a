//! Traces for the Perfetto viewer (ui.perfetto.dev opens them as a file).
//!
//! A trace is a sequence of packets, so it is written during the run; memory does not grow with it.
//! `docs/tracing.md` describes the tracks. The trace has a ledger of its own, for the state of
//! vCPUs and reasons of exits.
//!
//! | module | subject |
//! |---|---|
//! | `harts` | tracks of harts |
//! | `vcpus` | tracks of VMs and their vCPUs |
//! | `exits` | tracks of a VM's exits: totals, rates, reasons |
//! | `rank` | order of tracks |
//! | `writer`, `field` | tracks and events as packets |

mod exits;
mod field;
mod harts;
mod protobuf;
mod rank;
mod vcpus;
mod writer;

use std::io::{self, Write};

use trapless_ledger::event::{Event, Sink};
use trapless_ledger::{Config, Ledger};

use harts::Harts;
use rank::PHASES;
use vcpus::Vms;
use writer::{Kind, Track, Writer};

/// Writes a trace to `out`; give it a [`io::BufWriter`] over a file (`.perfetto-trace`).
///
/// After a failed write nothing more is written; [`finish`](Self::finish) reports the failure.
#[derive(Debug)]
pub struct PerfettoTrace<W: Write> {
    out: Writer<W>,
    ledger: Ledger,
    phases: Track,
    harts: Harts,
    vms: Vms,
}

impl<W: Write> PerfettoTrace<W> {
    /// A trace of a machine called `name` whose virtual time has `cycles_per_second`; `config` as
    /// for its ledger.
    pub fn new(out: W, name: &str, cycles_per_second: u64, config: Config) -> Self {
        let mut out = Writer::new(out, cycles_per_second);
        let machine = out.track(Kind::Group, &format!("machine {name}"), None, 0);
        let mut trace = Self {
            phases: out.track(Kind::Slices, "phases", Some(machine), PHASES),
            out,
            ledger: Ledger::new(config),
            harts: Harts::new(machine),
            vms: Vms::new(machine, cycles_per_second),
        };
        trace.begin_phase(0);
        trace
    }

    /// Ends the current phase at `time` and begins, or continues, phase `name`, as
    /// [`Ledger::mark`] does.
    pub fn mark(&mut self, name: &str, time: u64) {
        self.ledger.mark(name, time);
        self.out.end(self.phases, time);
        self.begin_phase(time);
    }

    fn begin_phase(&mut self, time: u64) {
        let event = writer::Event::named(self.ledger.phase(), "phase");
        self.out.begin(self.phases, time, event);
    }

    /// Ends open slices at `time`, flushes, and returns the writer.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(mut self, time: u64) -> io::Result<W> {
        self.harts.finish(&mut self.out, time);
        self.vms.finish(&mut self.out, time);
        self.out.end(self.phases, time);
        self.out.finish()
    }
}

impl<W: Write> Sink for PerfettoTrace<W> {
    fn record(&mut self, event: &Event) {
        self.harts.record(&mut self.out, event);
        self.ledger.record(event);
        self.vms.record(&mut self.out, &mut self.ledger, event);
    }
}
