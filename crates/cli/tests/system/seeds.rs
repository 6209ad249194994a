//! Runs with several seeds.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use trapless_ledger::document::LedgerFile;

use crate::determinism::reproducible;
use crate::log::Kind;
use crate::runs::{OTHER_SEED, Run, TIMER, Watched, other_seed, run, trapless};

/// A tick of the kernel, in host and guest alike, in cycles: 250 Hz.
const TICK: u64 = 4_000_000;
/// Shorter differences of two phases could come from work that takes another time, in cycles.
const CLEAR: u64 = 50_000;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("seeds-{name}"));
    // It may be there from an earlier test, or not.
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Workload `timer` on preset `trapless`, with options as words.
fn timer(options: &str, ledgers: &Path) -> Output {
    let mut command = trapless();
    command.args(["run", "--machine", "trapless", "--workload", "timer"]);
    command.args(["--set", TIMER[0], "--ledger"]).arg(ledgers);
    command.args(options.split_whitespace());
    command.output().expect("it starts")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("there is a folder");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("there is a ledger")
}

/// Virtual time at which the guest first runs.
fn first_entry(run: &Run) -> u64 {
    let entry = |e: &&crate::log::Event| e.kind == Kind::Return && e.step == "HS>VS";
    let first = run.log.events.iter().find(entry);
    first.expect("a guest runs").time
}

/// Where in the host's tick the guest's own ticks fall, in cycles: both kernels set timers for each
/// multiple of a tick, from the beginning of their clocks. The host's has the machine's time.
fn guest_phase(run: &Run) -> u64 {
    let tick = |e: &&crate::log::Event| e.is_trap(&["VS>VS", "VU>VS"], "STI");
    let ticks = run.log.events.iter().filter(tick).map(|e| e.time % TICK);
    // Wake-ups of the workload come each millisecond, at phases of their own; in a kernel that
    // boots there is nothing but ticks.
    ticks.take(20).min().expect("a guest's timer interrupts")
}

/// Promise: seeds vary when things happen: the moment at which a guest starts, and with it how its
/// ticks fall on the host's.
#[test]
fn a_seed_changes_when_a_guest_starts_and_where_its_ticks_fall() {
    let (usual, other) = (run("trapless", "timer", Watched::Log), other_seed());
    let differ = |a: u64, b: u64| {
        (a % TICK)
            .abs_diff(b % TICK)
            .min(TICK - (a % TICK).abs_diff(b % TICK))
    };
    let entries = [first_entry(usual), first_entry(other)];
    assert!(differ(entries[0], entries[1]) > CLEAR, "{entries:?}");
    let phases = [guest_phase(usual), guest_phase(other)];
    assert!(differ(phases[0], phases[1]) > CLEAR, "{phases:?}");
}

/// Promise: a run is the same alone and beside others, however many run at a time, and each
/// has a ledger with its seed in the name.
#[test]
fn a_run_is_the_same_alone_and_in_a_batch() {
    let folder = scratch("series");
    let output = timer("--seeds 2 --jobs 2", &folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("2 of 2 runs done"), "{stderr}");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("2 runs (seeds 0..1)"), "{report}");
    let name = |seed| folder.join(format!("timer-trapless-{}-seed={seed}.json", TIMER[0]));
    assert_eq!(files(&folder), [name(0), name(OTHER_SEED)]);
    for (seed, alone) in [
        (0, run("trapless", "timer", Watched::Log)),
        (OTHER_SEED, other_seed()),
    ] {
        let beside = reproducible(&read(&name(seed)));
        assert!(beside == reproducible(&alone.json), "seed {seed}");
    }
    let [first, second] = [0, OTHER_SEED].map(|seed| reproducible(&read(&name(seed))));
    assert!(first != second);
}

/// Promise: `compare` makes several runs by default, and one column for each machine.
#[test]
fn compare_makes_five_runs_on_each_machine() {
    let base = scratch("compare").join("boots");
    let mut command = trapless();
    command.args(["compare", "--machines", "sstc,sbi", "--workload", "boot"]);
    let output = command.arg("--out").arg(&base).output();
    let output = output.expect("it starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("5 runs (seeds 0..4)"), "{text}");
    let ledgers: Vec<serde_json::Value> =
        serde_json::from_str(&read(&base.with_extension("json"))).expect("a list of ledgers");
    let ledgers = ledgers
        .iter()
        .map(|l| LedgerFile::from_json(&l.to_string()).expect("a ledger"));
    let runs: Vec<(String, String)> = ledgers
        .map(|l| (l.run.machine.clone(), l.run.configuration["seed"].clone()))
        .collect();
    let expected = ["sstc", "sbi"].map(|m| ["0", "1", "2", "3", "4"].map(|s| (m.into(), s.into())));
    assert_eq!(runs, expected.concat());
    let page = read(&base.with_extension("html"));
    assert!(page.contains("which covers it with 93.75 %"));
    let mut command = trapless();
    let report = command
        .arg("report")
        .arg(base.with_extension("json"))
        .arg("--json");
    let report = report.output().expect("it starts").stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    assert_eq!(report["columns"][1]["runs"], 5);
}

/// Promise: a run that fails is named, with the command that repeats it alone.
#[test]
fn failed_runs_are_named_with_a_command_that_repeats_them() {
    let folder = scratch("failed");
    let output = timer("--seed 7 --seeds 2 --time-limit 1", &folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for text in [
        "2 of 2 runs failed",
        "trapless, seed 8: workload timer on trapless did not end within 1 s",
        "alone: trapless run --machine trapless --workload timer --set wakeups=200 --time-limit 1 --seed 8",
    ] {
        assert!(stderr.contains(text), "{text}: {stderr}");
    }
    assert_eq!(files(&folder), [] as [PathBuf; 0]);
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(sent.expect("there is kill").success());
}

/// Promise: Ctrl-C ends all runs and leaves no unfinished file.
#[test]
fn an_interrupted_batch_ends_and_leaves_nothing_unfinished() {
    let folder = scratch("interrupted");
    let mut command = trapless();
    command.args(["run", "--machine", "sbi", "--workload", "timer"]);
    command
        .args(["--seeds", "9", "--jobs", "2", "--ledger"])
        .arg(&folder);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let child = child.expect("it starts");
    // Long enough for runs to begin, too short for one to end.
    std::thread::sleep(std::time::Duration::from_secs(2));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("of 9 runs that had ended"), "{stderr}");
    let unfinished = files(&folder)
        .into_iter()
        .filter(|f| f.extension().is_none_or(|e| e != "json"));
    assert_eq!(unfinished.count(), 0);
}

/// Promise: a comparison that is interrupted keeps the runs that had ended, beside the result of an
/// earlier one.
#[test]
fn an_interrupted_comparison_keeps_what_it_has() {
    let folder = scratch("comparison");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("result.json"), "an earlier one").expect("a file");
    let mut command = trapless();
    command.args(["compare", "--machines", "sstc,trapless", "--workload"]);
    command.args(["timer", "--set", TIMER[0], "--seeds", "30", "--jobs", "1"]);
    command.arg("--out").arg(folder.join("result"));
    let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    let mut pipe = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut stderr = String::new();
    while !stderr.contains("sstc, seed 0") {
        let read = pipe.read_line(&mut stderr).expect("it is text");
        assert_ne!(read, 0, "{stderr}");
    }
    interrupt(&child);
    pipe.read_to_string(&mut stderr).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{stderr}");
    assert!(stderr.contains("of 60 runs that had ended"), "{stderr}");
    let kept = folder.join("result.unfinished.json");
    let ledgers: Vec<LedgerFile> = serde_json::from_str(&read(&kept)).expect("ledgers");
    assert!(!ledgers.is_empty());
    assert_eq!(files(&folder), [folder.join("result.json"), kept]);
    assert_eq!(read(&folder.join("result.json")), "an earlier one");
}
