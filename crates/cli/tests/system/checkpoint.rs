//! Runs that continue out of a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// Promise: a run that continues from a checkpoint, made at any time by one engine and resumed by
/// the other, has the ledger of the run that never stopped, byte for byte but for the host block.
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
    let stderr = done(&command.args(["--checkpoint", &request]).output().unwrap());
    assert!(stderr.contains("was due: it was not made"), "{stderr}");
    assert!(!late.exists());
    let read =
        |path: &Path| without_host(&std::fs::read_to_string(path).expect("the ledger is there"));
    assert!(
        read(&made) == expected,
        "making checkpoints changes the run"
    );
    let again = scratch("resumed-again.checkpoint");
    for file in &files {
        let ledger = scratch("resumed.json");
        let mut command = trapless();
        command.arg("resume").arg(file).args(["--engine", "interp"]);
        if *file == files[0] {
            let past = format!("0.000001={}", again.display());
            command.args(["--checkpoint", &past]);
        }
        done(&command.arg("--ledger").arg(&ledger).output().unwrap());
        assert!(read(&ledger) == expected, "out of {}", file.display());
    }
    let first = shown(&files[0]);
    assert_eq!(first["machine"]["machine"], whole.job.machine);
    assert_eq!(
        shown(&again)["cycles"],
        first["cycles"],
        "a time that is past is where the run goes on"
    );
    files
        .iter()
        .chain([&again])
        .for_each(|file| std::fs::remove_file(file).unwrap());
}

/// What a checkpoint is.
fn shown(file: &Path) -> serde_json::Value {
    let output = trapless().arg("resume").arg(file).arg("--show").output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

/// A cache with the images of the usual one, and checkpoints of its own.
struct OwnCache(PathBuf);

impl OwnCache {
    fn new(name: &str) -> Self {
        let usual = std::env::var_os("TRAPLESS_CACHE").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache"),
            PathBuf::from,
        );
        let folder = scratch(name);
        // It may be there from an earlier time.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let entries = std::fs::read_dir(usual.canonicalize().unwrap()).unwrap();
        for entry in entries.map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap();
            if name != "checkpoints" {
                std::os::unix::fs::symlink(&entry, folder.join(name)).unwrap();
            }
        }
        Self(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = trapless();
        command.args(words).args(["--workload", "timer"]);
        command.args(["--set", "wakeups=50", "--time-limit", "60"]);
        command.env("TRAPLESS_CACHE", &self.0);
        command.env("TRAPLESS_CHECKPOINTS", "4G");
        command
    }

    /// The ledgers of a comparison with this name: as text without the host block, and where they
    /// continued from a checkpoint; and what the command said.
    fn compare(&self, name: &str) -> (Vec<String>, Vec<Option<u64>>, String) {
        let mut command = self.command(&["compare", "--machines", "sstc,trapless"]);
        command.args(["--seeds", "1", "--out"]).arg(scratch(name));
        let stderr = done(&command.output().unwrap());
        let text = std::fs::read_to_string(scratch(&format!("{name}.json"))).unwrap();
        let ledgers: Vec<LedgerFile> = serde_json::from_str(&text).unwrap();
        let resumed = |ledger: &LedgerFile| ledger.host.as_ref().unwrap().resumed_at;
        let resumed = ledgers.iter().map(resumed).collect();
        let texts = ledgers.iter().map(|ledger| without_host(&ledger.to_json()));
        (texts.collect(), resumed, stderr)
    }

    /// Names of files among the checkpoints that end like this.
    fn files(&self, end: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.0.join("checkpoints")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|e| e == end))
            .collect();
        files.sort();
        files
    }
}

/// Promise: a command that is repeated continues where the measured part begins, with the same
/// ledgers; a checkpoint that is damaged is noticed and made again.
#[test]
fn repeated_runs_go_on_from_what_was_kept() {
    let cache = OwnCache::new("kept-repeated");
    let (whole, resumed, _) = cache.compare("kept-1");
    assert_eq!(resumed, [None, None]);
    let kept = cache.files("checkpoint");
    assert_eq!((kept.len(), cache.files("pages").len()), (2, 1));
    let (again, resumed, _) = cache.compare("kept-2");
    assert!(
        again == whole,
        "going on from a checkpoint changes a ledger"
    );
    assert!(resumed.iter().all(Option::is_some), "{resumed:?}");

    let len = std::fs::metadata(&kept[0]).unwrap().len();
    let file = File::options().write(true).open(&kept[0]).unwrap();
    file.set_len(len - 1).unwrap();
    let mut bytes = std::fs::read(&kept[1]).unwrap();
    let at = bytes.len() - 100_000;
    bytes[at] ^= 1;
    std::fs::write(&kept[1], &bytes).unwrap();
    let (again, resumed, stderr) = cache.compare("kept-3");
    assert!(again == whole, "a damaged checkpoint changes a ledger");
    assert_eq!(resumed, [None, None]);
    assert_eq!(stderr.matches("cannot be used").count(), 2, "{stderr}");
    assert!(cache.compare("kept-4").1.iter().all(Option::is_some));
    // Without the pages that both share, neither can be used.
    std::fs::remove_file(&cache.files("pages")[0]).unwrap();
    let (again, resumed, _) = cache.compare("kept-6");
    assert!(again == whole);
    assert_eq!(resumed, [None, None]);
    let mut command = cache.command(&["run", "--machine", "sstc", "--no-checkpoint"]);
    let ledger = scratch("kept-5.json");
    done(&command.arg("--ledger").arg(&ledger).output().unwrap());
    let text = std::fs::read_to_string(&ledger).unwrap();
    let booted = LedgerFile::from_json(&text).unwrap();
    assert_eq!(booted.host.unwrap().resumed_at, None);
    assert!(without_host(&text) == whole[0]);
    std::fs::remove_dir_all(&cache.0).unwrap();
}

/// Promise: two processes that make the same run at once, and a disk without room, are no reason
/// for a run to fail.
#[test]
fn keeping_a_checkpoint_never_fails_a_run() {
    let cache = OwnCache::new("kept-at-once");
    let files = ["kept-a.json", "kept-b.json"].map(scratch);
    let start = |file: &PathBuf| {
        let mut command = cache.command(&["run", "--machine", "sstc"]);
        command.arg("--ledger").arg(file).stderr(Stdio::piped());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let runs = files.each_ref().map(start);
    for run in runs {
        done(&run.wait_with_output().unwrap());
    }
    let ledgers = files.map(|file| without_host(&std::fs::read_to_string(file).unwrap()));
    assert!(ledgers[0] == ledgers[1]);
    assert_eq!(cache.files("checkpoint").len(), 1);
    assert!(cache.files("part").is_empty());

    std::fs::remove_file(&cache.files("checkpoint")[0]).unwrap();
    let mut command = cache.command(&["run", "--machine", "sstc"]);
    command.arg("--ledger").arg(scratch("kept-c.json"));
    command.env("TRAPLESS_CHECKPOINTS", "1M");
    done(&command.output().unwrap());
    assert!(cache.files("checkpoint").is_empty() && cache.files("part").is_empty());
    std::fs::remove_dir_all(&cache.0).unwrap();
}
