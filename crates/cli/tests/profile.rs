//! `--profile`: where the host's time went, without effect on the run.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a command that must succeed; its output on standard error.
fn succeed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

/// `programs/compute.S` with so many rounds.
fn program(rounds: u64) -> PathBuf {
    let (object, file) = (scratch("compute.o"), scratch("compute.elf"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/compute.S");
    succeed(
        Command::new("riscv64-linux-gnu-as")
            .args(["-march=rv64imac", "--defsym", &format!("ROUNDS={rounds}")])
            .arg("-o")
            .args([&object, &source]),
    );
    succeed(
        Command::new("riscv64-linux-gnu-ld")
            .args(["-N", "-Ttext=0x80000000", "-o"])
            .args([&file, &object]),
    );
    file
}

/// Runs it with these options; the ledger, and standard error.
fn run(program: &Path, name: &str, options: &[&str]) -> (String, String) {
    let ledger = scratch(&format!("profile-{name}.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command
        .arg("exec")
        .arg(program)
        .arg("--ledger")
        .arg(&ledger);
    let text = succeed(command.args(options));
    (
        std::fs::read_to_string(ledger).expect("it is written"),
        text,
    )
}

fn share(profile: &Value, name: &str) -> f64 {
    let mut activities = profile["activities"].as_array().into_iter().flatten();
    let activity = activities.find(|a| a["name"] == name);
    activity.and_then(|a| a["share"].as_f64()).expect(name)
}

/// Promise: a profile accounts for all of the time, finds the guest's own work where it is, says
/// what the engine did, and leaves the ledger as it is without a profile.
#[test]
fn profile_shows_where_time_goes_and_changes_nothing() {
    const ROUNDS: u64 = 40_000_000;
    let program = program(ROUNDS);
    let (ledger, quiet) = run(&program, "without", &[]);
    assert!(!quiet.contains("Time on the host"), "it was not requested");
    for (engine, busy) in [("jit", "compiled"), ("interp", "interpreted")] {
        let file = scratch(&format!("profile-{engine}.profile"));
        let option = format!("--profile={}", file.display());
        let (profiled, text) = run(&program, engine, &["--engine", engine, &option]);
        assert_eq!(profiled, ledger, "{engine}");
        assert!(
            text.contains("Time on the host") && text.contains("guest code"),
            "{text}"
        );

        let json = std::fs::read_to_string(file).expect("it is written");
        let profile: Value = serde_json::from_str(&json).expect("it is JSON");
        let all = profile["activities"].as_array().expect("a list");
        let sum: f64 = all.iter().filter_map(|a| a["share"].as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{json}");
        let statistics = &profile["statistics"];
        let instructions = statistics["instructions"].as_u64();
        assert!(instructions.is_some_and(|n| n > 8 * ROUNDS), "{json}");
        // Another kind of host may have no compiler.
        let expected = match statistics["code_capacity"].as_u64() {
            Some(0) => "interpreted",
            _ => busy,
        };
        // Nearly all of it, but a busy computer may stop the program anywhere.
        assert!(share(&profile, expected) > 0.5, "{json}");
        if expected == "compiled" {
            let compiled = statistics["blocks_compiled"].as_u64();
            assert!(compiled.is_some_and(|n| (1..100).contains(&n)), "{json}");
        }
    }
}
