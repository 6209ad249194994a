//! The command `trapless` with machines whose controller of Xtrapless is the circuit of `rtl/`,
//! simulated by Verilator. The model of `crates/intc` runs beside it, and the first difference ends
//! the process.

use std::process::ExitCode;
use std::sync::Arc;

use trapless_rtl::{Controller, Counts, Timing};
use trapless_run::Trapless;

/// Machines, and how long a hart waits for the circuit.
const MACHINES: [(&str, &str, Option<Timing>); 3] = [
    (
        "trapless-rtl",
        "trapless with the circuit of rtl/, beside the model; it takes no time",
        None,
    ),
    (
        "trapless-rtl-timed",
        "the same: harts wait, cycle for cycle; memory answers at once",
        Some(Timing {
            ratio: 1,
            memory: 0,
        }),
    ),
    (
        "trapless-rtl-slow",
        "the same: 4 cycles of harts for each of the circuit's, memory is 10 of those late",
        Some(Timing {
            ratio: 4,
            memory: 10,
        }),
    ),
];

fn main() -> ExitCode {
    let counts = Arc::new(Counts::default());
    let mut trapless = Trapless::new();
    for (name, summary, timing) in MACHINES {
        let counts = Arc::clone(&counts);
        trapless = trapless.with_machine(name, "trapless", summary, move |config| {
            Controller::new(config, Arc::clone(&counts), timing)
        });
    }
    let code = trapless_cli::main(trapless);
    if let Some(text) = counts.text() {
        eprintln!("{text}");
    }
    code
}
