//! The program `trapless`.

mod memory;

use std::process::ExitCode;

use trapless_run::Trapless;

#[global_allocator]
static MEMORY: memory::Told = memory::Told;

fn main() -> ExitCode {
    trapless_cli::main(Trapless::new())
}
