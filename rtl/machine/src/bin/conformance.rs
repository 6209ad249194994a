//! Runs the conformance programs on a machine whose controller is the circuit alone, without the
//! model beside it: what is wrong with the circuit, a program has to find.
//!
//! ```text
//! cargo run --release --bin conformance [-- NAME...]
//! ```

use std::process::ExitCode;
use std::sync::Arc;

use trapless_conformance::machine;
use trapless_conformance::platform::Platform;
use trapless_conformance::programs::{self, Program};
use trapless_conformance::run::Verdict;
use trapless_machine::Architecture;
use trapless_rtl::{Controller, Counts};

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let text = include_str!("../../../../crates/conformance/platforms/trapless-rtl.toml");
    let mut platform = Platform::parse(text).expect("the file is right");
    let harts = std::env::var("LOCKSTEP_HARTS")
        .ok()
        .and_then(|n| n.parse().ok());
    platform
        .harts
        .truncate(harts.unwrap_or(platform.harts.len()));
    let chosen = |p: &&Program| names.is_empty() || names.iter().any(|name| name == p.name);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for program in programs::all().filter(chosen) {
        if program.missing(&platform).is_some() {
            skipped += 1;
            continue;
        }
        // A circuit that does not answer ends the machine by a panic.
        let verdict = std::panic::catch_unwind(|| run(program, &platform));
        let verdict = verdict.unwrap_or(Verdict::Hung);
        if verdict.is_bad() {
            failed += 1;
            println!("{}", verdict.line(program));
        } else {
            passed += 1;
        }
    }
    eprintln!("{passed} passed, {failed} failed, {skipped} skipped");
    ExitCode::from(u8::from(failed > 0))
}

fn run(program: &Program, platform: &Platform) -> Verdict {
    machine::run(program, platform, |config| {
        config.architecture = Some(Architecture::new(|config| {
            Box::new(Controller::new(config, Arc::new(Counts::default()), None).alone())
        }));
    })
}
