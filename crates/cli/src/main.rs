//! The program `trapless`.

mod memory;

use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::Told = memory::Told;

fn main() -> ExitCode {
    trapless_cli::main()
}
