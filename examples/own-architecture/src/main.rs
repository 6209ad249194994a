//! The command `trapless` with one more machine, `mine`.

use std::process::ExitCode;

use own_architecture::Mine;
use trapless_run::Trapless;

fn main() -> ExitCode {
    let summary = "sstc that counts device interrupts";
    trapless_cli::main(Trapless::new().with_machine("mine", "sstc", summary, Mine::new))
}
