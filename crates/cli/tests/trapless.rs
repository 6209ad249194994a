//! The preset `trapless` with real kernels: what the interrupt extension promises of guests that use it, and of those that do
//! not. Each run is one `trapless run`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The ledger of a run on preset `trapless` that ended well.
fn run(workload: &str, options: &[&str]) -> Value {
    let name = format!("{workload}{}.json", options.concat());
    let ledger = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name.replace('/', "-"));
    let output = Command::new(env!("CARGO_BIN_EXE_trapless"))
        .args(["run", "--machine", "trapless", "--workload", workload])
        .args(["--json", "--ledger"])
        .arg(&ledger)
        .args(options)
        .output()
        .expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{workload} with {options:?}: {errors}"
    );
    serde_json::from_slice(&output.stdout).expect("--json prints a ledger")
}

/// A number of the measured part (or of `total`), by its JSON pointer.
fn count(section: &Value, pointer: &str) -> u64 {
    let found = section.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("the ledger has no number at {pointer}"))
}

fn measured(ledger: &Value) -> &Value {
    let phases = ledger["phases"].as_array().expect("a list of phases");
    let found = phases.iter().find(|p| p["name"] == "workload");
    &found.expect("a measured part")["totals"]
}

fn result(ledger: &Value, name: &str) -> f64 {
    let all = ledger["run"]["measurements"].as_array().expect("a list");
    let found = all.iter().find(|m| m["name"] == name);
    found.and_then(|m| m["value"].as_f64()).expect("the result")
}

/// Promise: on harts of their own, vCPUs program, send, get, claim and complete their interrupts without one exit or firmware trap.
#[test]
fn interrupts_of_pinned_vcpus_cost_no_exits() {
    for (workload, set, class, at_least) in [
        ("timer", "wakeups=200", "timer", 200),
        ("ipi", "loops=20", "ipi", 10),
        ("net", "pings=50", "device", 50),
    ] {
        let ledger = run(workload, &["--set", set, "--set", "wfi=native"]);
        let interrupts = &measured(&ledger)["interrupts"];
        let taken = count(interrupts, &format!("/{class}/taken"));
        assert!(taken >= at_least, "{workload}: {taken} taken");
        for other in ["timer", "ipi", "device"] {
            for cost in ["exits", "firmware_traps"] {
                let pointer = format!("/{other}/{cost}");
                assert_eq!(count(interrupts, &pointer), 0, "{workload}: {pointer}");
            }
        }
        // Where a thread of the VMM wants the same hart, KVM lets WFI exit all the same.
        let wfi = measured(&ledger).pointer("/exits/wfi");
        assert!(workload == "net" || wfi.is_none(), "{workload}: {wfi:?}");
    }
}

/// Promise: numbered timers, IPIs and device interrupts all come once, at the right vCPU, with twice as many vCPUs as harts and
/// vCPU threads that move.
#[test]
fn nothing_is_lost_under_overcommit() {
    let options = "--guest-harts 4 --host-harts 2 --set timers=300 --set ipis=50 --set devices=100";
    let ledger = run("sequence", &options.split(' ').collect::<Vec<_>>());
    for kind in ["lost", "duplicate", "early", "misdelivered", "failed"] {
        assert!(result(&ledger, kind) == 0.0, "{kind}");
    }
    // 4 vCPUs, 16 pairs of them, 8 sources.
    assert!(result(&ledger, "interrupts") >= 2800.0);
    assert!(result(&ledger, "moves") >= 1.0);
    let detached = |how: &str| count(&ledger["total"], &format!("/slots/detached/{how}"));
    assert!(detached("preempted") > 0 && detached("halted") > 0);
}

/// Promise: a guest without the drivers runs beside the patched KVM, and a host with neither patch nor driver runs on the machine.
#[test]
fn stock_guests_and_hosts_run_unchanged() {
    let guest = run("ipi", &["--set", "loops=20", "--set", "irqchip=plic"]);
    let host = "--set wakeups=50 --set kvm=stock --set hostipi=sbi";
    let host = run("timer", &host.split(' ').collect::<Vec<_>>());
    assert!(result(&host, "wakeups") == 50.0);
    for ledger in [&guest, &host] {
        let attached = ledger["total"].pointer("/slots/attached");
        assert!(attached.is_none_or(|n| n == 0), "{attached:?}");
    }
    // IPIs of the host go by the firmware again.
    let by_instruction = host["total"].pointer("/host_ipis");
    assert!(by_instruction.is_none_or(|n| n == 0), "{by_instruction:?}");
}
