//! The command `trapless` with one more machine, `mine`.

use std::process::ExitCode;

use own_architecture::Mine;
use trapless_cli::Trapless;

fn main() -> ExitCode {
    Trapless::new()
        .with_machine(
            "mine",
            "sstc",
            "sstc that counts device interrupts",
            Mine::new,
        )
        .main()
}
