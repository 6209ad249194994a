//! The command `trapless` with the machine `trapless-rtl`: that of `trapless`, whose controller is
//! the circuit of `rtl/`, simulated by Verilator. The model of `crates/intc` runs beside it, and
//! the first difference ends the process.

use std::process::ExitCode;
use std::sync::Arc;

use trapless_rtl::{Controller, Counts};
use trapless_run::Trapless;

fn main() -> ExitCode {
    let counts = Arc::new(Counts::default());
    let of_machine = Arc::clone(&counts);
    let summary = "trapless with the circuit of rtl/ as controller, beside the model";
    let trapless = Trapless::new().with_machine("trapless-rtl", "trapless", summary, move |c| {
        Controller::new(c, Arc::clone(&of_machine))
    });
    let code = trapless_cli::main(trapless);
    if let Some(text) = counts.text() {
        eprintln!("{text}");
    }
    code
}
