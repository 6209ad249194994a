//! Every workload ends well on every preset.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::runs::{MICRO, MICRO_FAST, Run, TIMES, Watched, ledger, logged, run, runs, trapless};

/// Promise: under `trapless run` every workload succeeds on all presets, in host and guest; also
/// with guests and hosts that do not know Xtrapless.
#[test]
fn all_workloads_end_well_on_all_presets() {
    let mut seen = BTreeSet::new();
    for run in logged() {
        let name = run.name();
        for side in ["host", "guest"] {
            let key = format!("{side} {}", run.job.workload);
            assert_eq!(
                run.console.status.get(&key).map(String::as_str),
                Some("0"),
                "{name}"
            );
        }
        assert_eq!(run.ledger.run.machine, run.job.machine, "{name}");
        assert_eq!(run.ledger.run.workload, run.job.workload, "{name}");
        assert!(
            !run.ledger.run.measurements.is_empty(),
            "{name} reports results"
        );
        assert!(
            run.ledger.workload().cycles > 0,
            "{name} has a measured part"
        );
        seen.insert((run.job.machine, run.job.workload));
    }
    assert_eq!(
        seen.len(),
        21,
        "five workloads on three presets, a disk, HA-IOV, and single operations"
    );
}

/// Promise: `ipi` runs two vCPUs on two harts, and they interrupt each other.
#[test]
fn ipi_uses_two_vcpus_on_two_harts() {
    for machine in ["sbi", "sstc", "trapless"] {
        let run = run(machine, "ipi", Watched::Log);
        let total = &run.ledger.total;
        assert_eq!(run.ledger.vcpus.len(), 2);
        assert!(run.ledger.vcpus.iter().all(|v| v.entries > 1000));
        assert_eq!(total.harts.len(), 2);
        assert!(total.harts.iter().all(|h| h.guest_entries > 1000));
        assert!(run.ledger.workload().interrupts["ipi"].sent > 0);
    }
}

/// Promise: `blk` makes as many requests as configured, and reads what was written last, whoever
/// serves the disk; `cable` gets the right answer to each message.
#[test]
fn requests_of_back_ends_are_answered_rightly() {
    let served = ["blk", "cable"];
    let runs: Vec<_> = (runs().iter())
        .filter(|r| served.contains(&r.job.workload))
        .collect();
    assert_eq!(runs.len(), 5);
    for run in runs {
        let name = run.name();
        let result = |key: &str| result(run, key);
        let requested = requested(run);
        assert_eq!(
            (result("requests"), result("errors")),
            (requested, 0.0),
            "{name}"
        );
    }
}

fn result(run: &Run, key: &str) -> f64 {
    let found = run.ledger.run.measurements.iter().find(|m| m.name == key);
    found
        .unwrap_or_else(|| panic!("{}: {key}", run.name()))
        .value
}

/// Number of requests that the run was configured to make.
fn requested(run: &Run) -> f64 {
    let set = run.job.set.iter();
    let number = set.filter_map(|s| s.strip_prefix("requests=")).next();
    number.expect("it is set").parse().expect("a number")
}

/// Promise: `fio` makes as many requests as configured, whoever serves the disk, and its times
/// are those of one request. (It fails if a checksum is wrong.)
#[test]
fn fio_makes_the_requests_it_is_asked_for() {
    let fio: Vec<_> = runs().iter().filter(|r| r.job.workload == "fio").collect();
    assert_eq!(fio.len(), 2);
    for run in fio {
        let name = run.name();
        let result = |key: &str| result(run, key);
        let requested = requested(run);
        assert_eq!(result("requests"), requested, "{name}");
        let [p50, p99, max] = ["p50", "p99", "max"].map(|of| result(&format!("latency_{of}_ns")));
        // As fio sorts latencies into steps, a percentile may be a step more than the longest.
        assert!(1e3 < p50 && p50 <= p99 && p99 <= max * 1.02, "{name}");
        // Nothing but the job is measured: fio's own start takes longer than that.
        assert!(run.ledger.workload().cycles < 200_000_000, "{name}");
    }
}

/// Promise: `program=basics` of `applications` does each kind of work in a phase of its name, and
/// says how long it took; with `native=1` as well, without a guest.
#[test]
fn basics_are_phases_with_times() {
    let kinds = [
        "integer", "float", "execl", "pipe", "switch", "fork", "copy", "shell1", "shell8",
        "syscall",
    ];
    for (name, native) in [("basics", "native=0"), ("basics-native", "native=1")] {
        let set = ["program=basics", "amount=1", native].map(|s| ["--set", s]);
        let more = [
            &set.concat()[..],
            &["--guest-harts", "1", "--host-harts", "1"],
        ]
        .concat();
        let ledger = ledger(name, "sstc", "applications", &more);
        let phases: Vec<_> = ledger.phases.iter().map(|p| p.name.as_str()).collect();
        let expected = [&["start", "workload"][..], &kinds, &["after"]].concat();
        assert_eq!(phases, expected, "{name}");
        for kind in kinds {
            let time = format!("{kind}_us");
            let found = ledger.run.measurements.iter().find(|m| m.name == time);
            let found = found.unwrap_or_else(|| panic!("{name}: {time}"));
            let phase = ledger.phases.iter().find(|p| p.name == kind);
            let cycles = phase.expect("it is there").totals.cycles as f64;
            // 1 000 cycles are 1 µs; the phase also has the console's time.
            assert!(
                0.0 < found.value && found.value * 1000.0 < cycles,
                "{name}: {time}"
            );
        }
        let exits = ledger
            .phases
            .iter()
            .map(|p| p.totals.guest_exits)
            .sum::<u64>();
        assert_eq!(exits == 0, native == "native=1", "{name}");
    }
}

/// A command as user 65534, if this is root, who may do everything.
fn somebody_else(words: &[&str]) -> Command {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    let mut command = Command::new("setpriv");
    if root {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    command.arg("--").args(words);
    command
}

/// Promise: who may read the cache but not write to it uses its images, without the tools that
/// made them.
#[test]
fn another_user_runs_workloads_from_a_filled_cache() {
    // An image in the cache, whose age does not matter.
    let made = trapless()
        .args(["images", "--json", "host", "opensbi"])
        .output();
    assert!(made.expect("it starts").status.success());
    let folder = std::env::temp_dir().join(format!("trapless-other-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("it is ours");
    let program = env!("CARGO_BIN_EXE_trapless");
    let reachable = somebody_else(&["test", "-x", program]).status();
    if !reachable.expect("there is test").success() {
        eprintln!("not tried: no other user can enter the folder of {program}");
        return;
    }
    let words = ["run", "--machine", "sstc", "--workload", "boot"];
    let mut command = somebody_else(&[&[program], &words[..]].concat());
    command.env_remove("CARGO").env("PATH", "/usr/bin:/bin");
    let output = command.env("HOME", &folder).current_dir(&folder).output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let ledger = folder.join("out/boot-sstc.json").is_file();
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert!(output.status.success() && ledger, "{text}");
    assert!(!text.contains("Making image"), "{text}");
}

/// Promise: another VMM than ours, Debian's QEMU with KVM, runs the same guest image on the
/// machine.
#[test]
fn an_independent_vmm_runs_the_same_guest() {
    let stock = |r: &&crate::runs::Run| r.job.vmm == "qemu" && r.job.machine == "sstc";
    let qemu: Vec<_> = logged().filter(stock).collect();
    assert_eq!(qemu.len(), 1);
    for other in qemu {
        let ours = run(other.job.machine, other.job.workload, Watched::Log);
        let packages = |r: &crate::runs::Run| -> BTreeSet<String> {
            let p = r.ledger.run.packages.iter();
            p.map(|(name, version)| format!("{name} {version}"))
                .collect()
        };
        let (others, ours_packages) = (packages(other), packages(ours));
        assert!(
            ours_packages.is_subset(&others),
            "the same kernel and guest"
        );
        assert!(others.iter().any(|p| p.starts_with("qemu-system-riscv")));
        // What the guest does itself is the same with both VMMs.
        let sets = |r: &crate::runs::Run| r.ledger.total.guest_interrupts.timer_set_with_exit;
        assert_eq!((sets(other), sets(ours)), (0, 0), "Sstc works in both");
        assert!(other.ledger.total.guest_exits > 10_000);
    }
}

/// Promise: `micro` does in each of its phases what the phase is named after, so that the phase's
/// cycles are those of the operation: exits of that reason as often as it was done, and none where
/// the machine needs none.
#[test]
fn operations_leave_the_guest_as_often_as_they_are_done() {
    let few = TIMES / 10;
    let exits = |machine, phase: &str, reason: &str| {
        let run = run(machine, "micro", Watched::Plain);
        let phase = run.ledger.phases.iter().find(|p| p.name == phase);
        let exits = &phase.expect("a phase of `micro`").totals.exits;
        exits.get(reason).map_or(0, |e| e.exits)
    };
    for machine in ["aia", "trapless"] {
        let done = TIMES..TIMES + few;
        assert!(done.contains(&exits(machine, "hypercall", "sbi_other.base")));
        assert!(done.contains(&exits(machine, "io_user", "mmio.uart.read")));
        assert!(exits(machine, "ipi", "ipi_send") < few);
        assert!(exits(machine, "timer", "timer_set") < few);
    }
    let done = TIMES..TIMES + few;
    assert!(done.contains(&exits("aia", "io_kernel", "mmio.aplic.read")));
    assert_eq!(exits("trapless", "io_kernel", "mmio.aplic.read"), 0);
}

/// Promise: with `run_loop=fast` a simple SBI call is an exit as ever, answered in less than a
/// third of the time (both of virtual time, so of the number of instructions).
#[test]
fn a_fast_run_loop_answers_simple_calls_where_the_guest_was_left() {
    let cycles = |set: &[&str]| {
        let run = (runs().iter())
            .find(|r| r.job.machine == "sstc" && r.job.set == set)
            .expect("a run of `micro`");
        let phase = run.ledger.phases.iter().find(|p| p.name == "hypercall");
        let exits = &phase.expect("a phase of `micro`").totals.exits;
        assert!((TIMES..TIMES + TIMES / 10).contains(&exits["sbi_other.base"].exits));
        result(run, "hypercall_cycles")
    };
    assert!(3.0 * cycles(MICRO_FAST) < cycles(MICRO));
}
