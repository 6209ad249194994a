//! A host whose kernel is built with this project's patches (`host_kernel=patched`).

use trapless_ledger::document::LedgerFile;

use crate::runs::{ledger, trapless};

fn run(machine: &str) -> LedgerFile {
    let set = "pings=20 wakeups=50 loops=10 host_kernel=patched";
    let set: Vec<&str> = set.split(' ').flat_map(|word| ["--set", word]).collect();
    ledger(&format!("patched-{machine}"), machine, "mixed", &set)
}

/// Promise: the kernel with this project's patches is built when it is asked for, runs workloads,
/// and the ledger says that it was the host's, beside Debian's, the guest's.
#[test]
#[ignore = "builds a kernel, which takes 5 to 15 minutes the first time"]
fn a_host_runs_the_kernel_built_with_the_patches() {
    for machine in ["trapless", "sstc"] {
        let ledger = run(machine);
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

/// Promise: what this kernel does not have is refused before anything is measured.
#[test]
#[ignore = "builds a kernel, which takes 5 to 15 minutes the first time"]
fn the_kernel_with_the_patches_has_no_stock_kvm() {
    let output = trapless()
        .args(["run", "--machine", "sstc", "--workload", "boot"])
        .args(["--set", "host_kernel=patched", "--set", "kvm=stock"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("leave out kvm=stock"), "{error}");
}
