//! The program `trapless`.

use std::process::ExitCode;

fn main() -> ExitCode {
    trapless_cli::main()
}
