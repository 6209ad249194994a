//! Hosts and guests whose kernel is built with this project's patches (`host_kernel=patched`,
//! `guest_kernel=patched`), of another release of Debian (`kernel=testing`), or the user's own.

use trapless_images::{Images, Progress, Project};
use trapless_ledger::document::LedgerFile;

use crate::runs::{ledger, trapless};

/// A run in which the kernel of `side`, a parameter, is the one with the patches.
fn run(machine: &str, side: &str) -> LedgerFile {
    let set = format!("pings=20 wakeups=50 loops=10 {side}=patched");
    let set: Vec<&str> = set.split(' ').flat_map(|word| ["--set", word]).collect();
    ledger(&format!("{side}-{machine}"), machine, "mixed", &set)
}

/// Promise: the kernel with this project's patches is built when it is asked for, runs workloads,
/// and the ledger says that it was the host's, beside Debian's, the guest's.
#[test]
#[ignore = "builds a kernel, which takes 5 to 15 minutes the first time"]
fn a_host_runs_the_kernel_built_with_the_patches() {
    for machine in ["trapless", "sstc"] {
        let ledger = run(machine, "host_kernel");
        let packages = &ledger.run.packages;
        let version = &packages["host-kernel (riscv64)"];
        assert!(version.ends_with("-trapless"), "{machine}: {version}");
        assert!(
            packages.keys().any(|p| p.starts_with("linux-image-")),
            "{machine}: {packages:?}"
        );
        assert_eq!(ledger.run.configuration["parameter host_kernel"], "patched");
        assert!(ledger.workload().interrupts["timer"].taken > 0, "{machine}");
    }
}

/// Promise: drivers that are part of a guest's kernel do what the modules do: no exit for timers,
/// IPIs and device interrupts; and the kernel has them before it starts its other CPUs.
#[test]
#[ignore = "builds a kernel, which takes 5 to 15 minutes the first time"]
fn a_guest_runs_the_kernel_with_its_drivers_built_in() {
    let ledger = run("trapless", "guest_kernel");
    let packages = &ledger.run.packages;
    assert!(
        packages.contains_key("host-kernel (riscv64)"),
        "{packages:?}"
    );
    for (name, interrupts) in &ledger.workload().interrupts {
        assert!(interrupts.taken > 0, "{name}");
        assert_eq!(interrupts.exits, 0, "{name}");
    }
    let reasons = &ledger.total.exits;
    assert!(!reasons.contains_key("ipi_send"), "{reasons:?}");
}

/// Promise: a guest with the patches loses no edge of a source that moves to another CPU while the
/// handler of the last edge still runs. Debian's kernel loses some with each of five seeds
/// (`docs/results/sequence.md`).
#[test]
#[ignore = "builds a kernel, which takes 5 to 15 minutes the first time"]
fn a_guest_with_the_patches_loses_no_edge_of_a_source_that_moves() {
    let set = "timers=10 ipis=10 devices=1000 affinity_ms=1 linger_us=200 slow_ms=0 \
               guest_kernel=patched";
    let set: Vec<&str> = set.split(' ').flat_map(|word| ["--set", word]).collect();
    let ledger = ledger("moving-edges", "aia", "sequence", &set);
    let measured = &ledger.run.measurements;
    let value = |name| measured.iter().find(|m| m.name == name).unwrap().value;
    assert_eq!((value("device"), value("lost")), (8000.0, 0.0));
}

/// Promise: with the kernel of Debian testing, host and guest have what they have with the stable
/// one: with Xtrapless no exit for timers, IPIs and device interrupts; and the ledger names it.
#[test]
#[ignore = "downloads 500 MB and builds modules the first time"]
fn host_and_guest_run_the_kernel_of_debian_testing() {
    let set = ["kernel=testing", "pings=20", "wakeups=50", "loops=10"];
    let set: Vec<&str> = set.iter().flat_map(|word| ["--set", word]).collect();
    let ledger = ledger("testing", "trapless", "mixed", &set);
    for side in ["host kernel", "guest kernel"] {
        let said = &ledger.run.configuration[side];
        assert!(said.starts_with("linux-binary-7."), "{side}: {said}");
    }
    for (name, interrupts) in &ledger.workload().interrupts {
        assert!(interrupts.taken > 0, "{name}");
        assert_eq!(interrupts.exits, 0, "{name}");
    }
}

/// Promise: interrupts of a device that a guest has got for itself come without the host, from the
/// first to the last, by interrupt files and by message windows; and by the host if it is told so.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_passed_device_interrupts_its_guest_without_the_host() {
    for machine in ["aia", "trapless"] {
        for (delivery, relayed) in [("direct", 0.0), ("relay", 200.0)] {
            let name = format!("passed-{machine}-{delivery}");
            let set = format!("pings=200 wfi=native delivery={delivery}");
            let set: Vec<&str> = set.split(' ').flat_map(|word| ["--set", word]).collect();
            let ledger = ledger(&name, machine, "passed", &set);
            let measured = |name: &str| {
                let all = &ledger.run.measurements;
                all.iter().find(|m| m.name == name).expect(name).value
            };
            assert_eq!(measured("replies"), 200.0, "{name}");
            assert!(
                (measured("relayed") - relayed).abs() <= relayed / 10.0,
                "{name}"
            );
        }
    }
}

/// Promise: a kernel of the user's own is the one that runs, and the ledger says which it was; what
/// it lacks is reported.
#[test]
fn kernels_of_ones_own_are_measured_and_named() {
    let project = Project::new(None).folder().unwrap();
    let mut images = Images::open(&project, Progress::Silent).unwrap();
    let kernel = images.artefact("kernel").unwrap();
    let path = kernel.path.to_str().unwrap();
    let set = ["--set", "wakeups=20", "--guest-kernel", path];
    let ledger = ledger("own-guest-kernel", "sstc", "timer", &set);
    let kernel_entry = &ledger.run.configuration["guest kernel"];
    assert!(
        kernel_entry.ends_with(&format!("sha256 {}", kernel.sha256)),
        "{kernel_entry}"
    );
    let exits: u64 = ledger
        .workload()
        .exits
        .values()
        .map(|exit| exit.exits)
        .sum();
    assert!(exits > 20, "{exits}");

    // Its KVM is a module.
    let words = [
        "run",
        "--machine",
        "sstc",
        "--workload",
        "timer",
        "--host-kernel",
        path,
    ];
    let output = trapless().args(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("has no KVM: it needs CONFIG_KVM"), "{error}");
}
