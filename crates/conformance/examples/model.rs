//! Runs all programs on the Rust model in this process: the smallest user of a machine, so that a
//! changed model is built in seconds (`tests/conformance`).
//!
//! ```text
//! cargo run -p trapless-conformance --example model [-- NAME...]
//! ```

use std::process::ExitCode;

use trapless_conformance::{machine, programs};

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let mut failed = false;
    let chosen = programs::all().filter(|p| names.is_empty() || names.iter().any(|n| n == p.name));
    for program in chosen {
        let verdict = machine::run(program, &machine::platform(program), |_| ());
        if verdict.is_bad() {
            failed = true;
            println!("{}", verdict.line(program));
        }
    }
    ExitCode::from(u8::from(failed))
}
