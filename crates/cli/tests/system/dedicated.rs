//! What `dedicated=on` claims: guests on harts of their own do not exit.

use trapless_ledger::document::{LedgerFile, Section};

use crate::runs::{ledger, trapless};

fn run(name: &str, machine: &str, more: &[&str]) -> LedgerFile {
    ledger(&format!("dedicated-{name}"), machine, "dedicated", more)
}

fn phase<'a>(ledger: &'a LedgerFile, name: &str) -> &'a Section {
    let found = ledger.phases.iter().find(|phase| phase.name == name);
    &found.unwrap_or_else(|| panic!("no phase {name}")).totals
}

/// Promise: an SMP guest on harts of its own takes timers, IPIs and device interrupts for a second
/// without one exit, with Xtrapless, and with AIA if KVM is repaired.
#[test]
fn a_guest_on_harts_of_its_own_does_not_exit() {
    let ways: [(&str, &[&str]); 2] = [("trapless", &[]), ("aia", &["--set", "kvm=patched"])];
    for (machine, options) in ways {
        let ledger = run(machine, machine, options);
        let steady = phase(&ledger, "steady");
        assert!(steady.cycles >= 1_000_000_000, "{machine}");
        for class in ["timer", "ipi", "device"] {
            let taken = steady.interrupts[class].taken;
            assert!(taken >= 100, "{machine}: {taken} of {class}");
        }
        let exits: Vec<_> = steady.exits.keys().collect();
        assert_eq!(steady.guest_exits, 0, "{machine}: {exits:?}");
    }
}

/// Promise: what the host does with all its harts ends although guests that never wait keep some of
/// them, and the interrupts of those are not lost.
#[test]
fn work_of_the_host_ends_beside_such_a_guest() {
    let options = [
        "--host-harts",
        "4",
        "--set",
        "host_work=1",
        "--set",
        "hugepages=0",
    ];
    let ledger = run("work", "trapless", &options);
    for work in [
        "shootdown",
        "collapse",
        "rcu",
        "expedited",
        "reclaim",
        "hotplug",
    ] {
        let longest = format!("{work}_max_us");
        let measured = ledger.run.measurements.iter().find(|m| m.name == longest);
        let longest = measured.unwrap_or_else(|| panic!("no {longest}")).value;
        assert!(longest < 1e6, "{work}: {longest} us");
        let _ = phase(&ledger, work);
    }
    // KVM takes pages away from running vCPUs by a kick.
    assert!(phase(&ledger, "collapse").exits_of("ipi_receive").exits > 0);
}

/// Promise: a machine with too few harts is refused before anything starts.
#[test]
fn a_host_needs_a_hart_besides_those_of_the_guest() {
    let output = trapless()
        .args(["run", "--machine", "sstc", "--workload", "timer"])
        .args(["--set", "dedicated=on"])
        .args(["--guest-harts", "2", "--host-harts", "2"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("give 3 or more"), "{error}");
}
