//! Runs that go on out of a file.

use std::path::Path;
use std::process::Output;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use trapless_ledger::document::LedgerFile;

use crate::runs::{Engine, by_engine, scratch, trapless};

/// Instants at which the run is saved.
const INSTANTS: u64 = 3;

fn done(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    error
}

/// What equal runs have in common.
fn without_host(text: &str) -> String {
    let mut ledger = LedgerFile::from_json(text).expect("the ledger is valid");
    ledger.host = None;
    ledger.to_json()
}

/// Promise: a run that goes on from a checkpoint, made at any time by one engine and resumed by the
/// other, has the ledger of the run that never stopped, byte for byte but for the host block.
#[test]
fn resumed_runs_have_the_ledger_of_the_whole_run() {
    let whole = by_engine(Engine::Interpreted);
    let expected = without_host(&whole.json);
    let cycles = whole.ledger.total.cycles;
    let mut random = SplitMix64::seed_from_u64(cycles);
    let files: Vec<_> = (0..INSTANTS)
        .map(|i| scratch(&format!("resumed-{i}.checkpoint")))
        .collect();
    let made = scratch("resumed-made.json");
    let mut command = trapless();
    command.args(["run", "--machine", whole.job.machine]);
    command.args(["--workload", whole.job.workload, "--ledger"]);
    command.arg(&made);
    whole.job.set.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    for file in &files {
        let at = (random.next_u64() % cycles) as f64 / 1e9;
        let request = format!("{at:.6}={}", file.display());
        command.args(["--checkpoint", &request]);
    }
    let late = scratch("resumed-late.checkpoint");
    let request = format!("500={}", late.display());
    let said = done(&command.args(["--checkpoint", &request]).output().unwrap());
    assert!(said.contains("was due: there is none"), "{said}");
    assert!(!late.exists());
    let read =
        |path: &Path| without_host(&std::fs::read_to_string(path).expect("the ledger is there"));
    assert!(
        read(&made) == expected,
        "making checkpoints changes the run"
    );
    for file in &files {
        let ledger = scratch("resumed.json");
        let mut command = trapless();
        command.arg("resume").arg(file).args(["--engine", "interp"]);
        done(&command.arg("--ledger").arg(&ledger).output().unwrap());
        assert!(read(&ledger) == expected, "out of {}", file.display());
    }
    let mut command = trapless();
    let shown = command.arg("resume").arg(&files[0]).arg("--show").output();
    let shown: serde_json::Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
    assert_eq!(shown["machine"]["machine"], whole.job.machine);
    files
        .iter()
        .for_each(|file| std::fs::remove_file(file).unwrap());
}
