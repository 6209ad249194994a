//! Options for looking into a run.

use std::path::{Path, PathBuf};

use clap::Args;
use trapless_gdb::Position;
use trapless_machine::preset::Size;
use trapless_run::ObserveOptions;
use trapless_run::observe::Request;

/// Options for looking into a run.
#[derive(Args, Clone, Default)]
pub struct ObserveArgs {
    /// Write logs as text: any of exec, trap, csr, intc, as in `exec,trap:FILE`.
    #[arg(long, value_name = "WHAT:FILE", help_heading = "Looking inside")]
    pub log: Option<String>,
    /// Wait for gdb on this TCP port, as in `:1234`.
    #[arg(long, value_name = "[HOST]:PORT", help_heading = "Looking inside")]
    pub gdb: Option<String>,
    /// Maximum memory for the snapshots by which gdb executes backwards; 0 for none [default: 1G].
    #[arg(
        long,
        value_name = "SIZE",
        requires = "gdb",
        help_heading = "Looking inside"
    )]
    pub gdb_history: Option<Size>,
    /// Run to this place before gdb connects: time in cycles and hart, as a log of traps prints
    /// them (`1250347:0`), or seconds (`1.5s`).
    #[arg(
        long,
        value_name = "POSITION",
        requires = "gdb",
        help_heading = "Looking inside"
    )]
    pub at: Option<Position>,
    /// Draw the delivery of one interrupt as a sequence diagram (Mermaid): CLASS[.STATE][:NUMBER],
    /// as in `ipi.scheduled_off:3=FILE`. Repeat for more.
    #[arg(long, value_name = "INTERRUPT=FILE", help_heading = "Looking inside")]
    pub diagram: Vec<Request>,
    /// Write each block of guest code that is compiled: its instructions, and the host's code.
    #[arg(long, value_name = "FILE", help_heading = "Looking inside")]
    pub dump_code: Option<PathBuf>,
    /// Show at the end where the host's time went and what the engine did; `--profile=FILE` writes
    /// it as JSON, too.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        help_heading = "Looking inside"
    )]
    pub profile: Option<Option<PathBuf>>,
}

impl ObserveArgs {
    /// The options that were given, with a trace.
    pub fn options(&self, trace: Option<&Path>) -> ObserveOptions {
        let Self {
            log,
            gdb,
            gdb_history,
            at,
            diagram,
            dump_code,
            profile,
        } = self.clone();
        ObserveOptions {
            log,
            gdb,
            gdb_history,
            at,
            diagram,
            dump_code,
            profile,
            trace: trace.map(Into::into),
        }
    }
}
