//! Promise: no interrupt of a guest is lost, comes twice, too early or to the wrong vCPU, whatever
//! the host does meanwhile.
//!
//! The guest's module `trapless_seq` numbers timer, IPI and device interrupts and checks them.
//! These are short runs; `tests/results sequence` makes a million of each class. One goes through
//! instructions of KVM's paths.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use trapless_ledger::document::LedgerFile;

/// Runs workload `sequence` on two harts and returns its ledger.
fn sequence(name: &str, vcpus: u32, parameters: &[&str]) -> LedgerFile {
    let ledger = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sequence-{name}.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.env("TRAPLESS_CHECKPOINTS", "0");
    command.args(["run", "--machine", "trapless", "--workload", "sequence"]);
    command.args(["--guest-harts", &vcpus.to_string(), "--host-harts", "2"]);
    command
        .args(["--time-limit", "120", "--ledger"])
        .arg(&ledger);
    for parameter in parameters {
        command.args(["--set", parameter]);
    }
    let out = command
        .stdin(Stdio::null())
        .output()
        .expect("trapless starts");
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    let text = std::fs::read(&ledger).expect("the ledger was written");
    serde_json::from_slice(&text).expect("a ledger")
}

/// What the workload reports as `name`.
fn result(ledger: &LedgerFile, name: &str) -> f64 {
    let found = ledger.run.measurements.iter().find(|m| m.name == name);
    found.unwrap_or_else(|| panic!("result {name}")).value
}

/// As many vCPUs as harts, whose threads move between them.
#[test]
fn moved_vcpus_get_every_interrupt_once() {
    let ledger = sequence(
        "moved",
        2,
        &["timers=1000", "ipis=500", "devices=200", "moves_ms=2"],
    );
    assert_eq!(result(&ledger, "errors"), 0.0);
    assert!(
        result(&ledger, "timer") >= 2000.0
            && result(&ledger, "ipi") >= 2000.0
            && result(&ledger, "device") >= 1600.0
    );
    assert!(result(&ledger, "moves") > 10.0);
}

/// Twice as many vCPUs as harts: they are found preempted and halted, too.
#[test]
fn preempted_vcpus_get_every_interrupt_once() {
    let ledger = sequence(
        "preempted",
        4,
        &["timers=300", "ipis=50", "devices=100", "moves_ms=5"],
    );
    assert_eq!(result(&ledger, "errors"), 0.0);
    // 4 vCPUs, 16 pairs of them, 8 sources.
    assert!(result(&ledger, "interrupts") >= 2800.0);
    for state in ["preempted", "halted"] {
        let detached = ledger.total.slots.detached.get(state);
        assert!(detached.is_some_and(|n| *n > 0), "{state}");
    }
}

/// Twice as many vCPUs as harts, while one of these comes and goes, the guest is paused, the VMM of
/// a guest beside it is killed, and its vCPUs flush each other's TLBs.
#[test]
#[ignore = "long: part of make test-long"]
fn disturbed_vcpus_get_every_interrupt_once() {
    let ledger = sequence(
        "disturbed",
        4,
        &[
            "timers=200",
            "ipis=40",
            "devices=50",
            "moves_ms=5",
            "unplug_ms=20",
            "pause_ms=30",
            "slow_ms=0",
            "kill_ms=200",
            "rfence=1",
            "fences=1",
        ],
    );
    assert_eq!(result(&ledger, "errors"), 0.0);
    assert!(
        result(&ledger, "timer") >= 800.0
            && result(&ledger, "ipi") >= 640.0
            && result(&ledger, "device") >= 400.0
    );
    for disturbance in ["moves", "unplugs", "pauses", "kills"] {
        assert!(result(&ledger, disturbance) > 0.0, "{disturbance}");
    }
}

/// A hart that stands still, lets others run first or is interrupted while KVM takes a blocking
/// vCPU off it or puts it back. Only some instructions: `docs/results/explore.md` has more.
#[test]
fn vcpus_disturbed_on_their_way_off_and_on_a_hart_get_every_interrupt_once() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.env("TRAPLESS_CHECKPOINTS", "0");
    command.args(["explore", "--json", "--workload", "sequence"]);
    command.args(["--time-limit", "60"]);
    let parameters = [
        "timers=60",
        "ipis=40",
        "devices=20",
        "moves_ms=0",
        // Every WFI blocks.
        "poll=0",
        // Sooner than something else wakes a vCPU that was not told.
        "slow_ms=20",
    ];
    for parameter in parameters {
        command.args(["--set", parameter]);
    }
    // The guest has its module loaded and sends by then.
    command.args(["--skip", "5300000", "--calls", "3", "--stride", "97"]);
    command.args(["--function", "kvm_sched_out", "--function", "kvm_sched_in"]);
    let out = command
        .stdin(Stdio::null())
        .output()
        .expect("trapless starts");
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    let result: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(result["failed"].as_array().map(Vec::len), Some(0));
    assert!(result["runs"].as_u64() > Some(60), "{}", result["runs"]);
    let parts = [
        "kvm_arch_vcpu_put",
        "kvm_riscv_vcpu_trapless_put",
        "kvm_arch_vcpu_load",
        "kvm_riscv_vcpu_trapless_load",
    ];
    for function in parts {
        let boundaries = result["within"][function].as_u64();
        assert!(boundaries > Some(0), "{function}");
    }
}

/// Promise: an exploration says how many runs it makes, few enough to wait for, and how far it is;
/// Ctrl-C keeps what has ended and takes no run that was under way for a failure.
#[test]
fn an_interrupted_exploration_reports_what_has_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command.args(["explore", "--workload", "sequence", "--skip", "5300000"]);
    command.args(["--function", "kvm_sched_out", "--jobs", "2"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // A terminal sends Ctrl-C to a command and all that it has started.
    command.process_group(0);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut lines = errors.lines().map(|line| line.expect("UTF-8"));
    let plan = lines.find(|line| line.contains("instruction boundaries; "));
    let plan = plan.expect("it says what it will do");
    let runs = plan
        .split("; ")
        .nth(1)
        .and_then(|text| text.split(' ').next());
    let runs: u32 = runs.and_then(|n| n.parse().ok()).expect("a number");
    assert!((10..=60).contains(&runs), "{plan}");
    let progress = lines.find(|line| line.contains("runs ended, 0 failed"));
    assert!(progress.is_some(), "no progress was shown");
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.expect("there is kill").success());
    assert!(lines.any(|line| line.contains("those of the runs that have ended")));
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains(", 0 failed"), "{text}");
}
