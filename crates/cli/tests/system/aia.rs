//! What docs/aia.md claims of the machine `aia`, with stock firmware and kernels.

use trapless_ledger::document::{LedgerFile, Section};

use crate::runs::ledger;

/// The ledger of a short run on `aia`.
fn aia(name: &str, workload: &str, more: &[&str]) -> LedgerFile {
    ledger(&format!("aia-{name}"), "aia", workload, more)
}

/// Exits whose reason begins with `class`.
fn exits(section: &Section, class: &str) -> u64 {
    section.exits_of(class).exits
}

/// Promise: vCPUs with interrupt files send and receive IPIs without any exit or firmware, if KVM
/// maps the files right; with the module that Debian ships each send is an exit.
#[test]
fn ipis_between_interrupt_files_cost_no_exit() {
    let patched = aia(
        "patched",
        "ipi",
        &["--set", "loops=20", "--set", "kvm=patched"],
    );
    let section = patched.workload();
    let (ipi, files) = (&section.interrupts["ipi"], section.guest_files.unwrap());
    assert!(ipi.sent > 0 && ipi.taken > 0);
    assert_eq!((ipi.exits, ipi.firmware_traps, ipi.syscalls), (0, 0, 0));
    assert_eq!(files.direct_messages, ipi.sent);
    assert_eq!(section.firmware.total, 0);
    assert_eq!(patched.total.guest_files.unwrap().assigned, 2);

    let stock = aia("stock", "ipi", &["--set", "loops=20", "--set", "kvm=stock"]);
    let section = stock.workload();
    let ipi = &section.interrupts["ipi"];
    assert!(ipi.sent > 0);
    assert_eq!(exits(section, "mmio.imsic.write"), ipi.sent);
    assert_eq!(section.guest_files.unwrap().direct_messages, 0);
}

/// Promise: without interrupt files the same guest still works; sending and claiming are exits
/// then.
#[test]
fn guests_without_files_trap_for_each_ipi() {
    let ledger = aia(
        "none",
        "ipi",
        &[
            "--set",
            "loops=10",
            "--set",
            "kvm=patched",
            "--set",
            "aia.guests=0",
        ],
    );
    let section = ledger.workload();
    let ipi = &section.interrupts["ipi"];
    assert!(ipi.taken > 0);
    assert!(
        ipi.exits >= 2 * ipi.taken,
        "{} for {}",
        ipi.exits,
        ipi.taken
    );
    assert!(exits(section, "csr.stopei") >= ipi.taken);
    let files = section.guest_files.unwrap_or_default();
    assert_eq!((files.assigned, files.direct_messages), (0, 0));
}

/// Promise: an IPI wakes up a vCPU that sleeps, also if its thread was moved away from its
/// interrupt file.
#[test]
fn moved_vcpus_are_woken_up() {
    let set = "kvm=patched timers=0 devices=0 ipis=200 moves_ms=2";
    let set = set.split(' ').flat_map(|word| ["--set", word]);
    for seed in ["0", "2"] {
        let options: Vec<&str> = set.clone().chain(["--seed", seed]).collect();
        let ledger = aia(&format!("moved-{seed}"), "sequence", &options);
        let longest = ledger.workload().latency["guest_ipi"].max;
        // A vCPU that was not woken up slept until its timer, for some 300 ms.
        assert!(longest < 50_000_000, "seed {seed}: {longest} cycles");
    }
}

/// Promise: a timer of the guest costs no exit; compiler and interpreter agree on everything.
#[test]
fn timers_cost_no_exit_and_engines_agree() {
    let jit = aia("jit", "timer", &["--set", "wakeups=50"]);
    let interp = aia(
        "interp",
        "timer",
        &["--set", "wakeups=50", "--engine", "interp"],
    );
    assert_eq!(jit.workload().interrupts["timer"].exits, 0);
    assert!(jit.workload().interrupts["timer"].taken >= 50);
    let without_host = |ledger: &LedgerFile| LedgerFile {
        host: None,
        ..ledger.clone()
    };
    assert_eq!(without_host(&jit), without_host(&interp));
}
