//! The program `trapless`.

mod memory;

use std::process::ExitCode;

use trapless_run::Trapless;

#[global_allocator]
static MEMORY: memory::ReportingAllocator = memory::ReportingAllocator;

fn main() -> ExitCode {
    trapless_cli::main(Trapless::new())
}
