//! Devices that guests have by VFIO, on the patched kernel of the testing release.

use trapless_ledger::document::LedgerFile;

use crate::runs::ledger;

/// What a run measured.
struct Run {
    name: String,
    ledger: LedgerFile,
}

impl Run {
    /// A run of `workload` with these parameters.
    fn new(machine: &str, workload: &str, set: &str) -> Self {
        Self::with(machine, workload, set, &[])
    }

    /// The same with so many vCPUs.
    fn with_vcpus(machine: &str, workload: &str, set: &str, vcpus: usize) -> Self {
        let vcpus = format!("--guest-harts={vcpus}");
        Self::with(machine, workload, set, &[&vcpus])
    }

    fn with(machine: &str, workload: &str, set: &str, options: &[&str]) -> Self {
        let name = format!("{workload}-{machine}-{}", set.replace(' ', "-"));
        let set = set.split(' ').flat_map(|word| ["--set", word]);
        let options: Vec<&str> = set.chain(options.iter().copied()).collect();
        Self {
            ledger: ledger(&name, machine, workload, &options),
            name,
        }
    }

    fn result(&self, name: &str) -> f64 {
        let all = &self.ledger.run.measurements;
        let found = all.iter().find(|m| m.name == name);
        found
            .unwrap_or_else(|| panic!("{}: {name}", self.name))
            .value
    }

    /// Checks a result.
    fn expect(&self, name: &str, value: f64) {
        assert_eq!(self.result(name), value, "{}: {name}", self.name);
    }

    /// Commands to forget entries of the IOMMU's tables, in the measured part.
    fn invalidations(&self) -> u64 {
        let pci = self.ledger.workload().pci.as_ref();
        pci.expect("a PCI device interrupts").iommu_invalidations
    }
}

/// Promise: interrupts of a passed device come once each and after their data while its vCPUs move
/// from hart to hart and halt: by the host, by interrupt files and by message windows. A move costs
/// invalidations of the IOMMU with interrupt files, and none with windows.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn no_interrupt_of_a_passed_device_is_lost_while_vcpus_move() {
    for machine in ["aia", "trapless"] {
        for delivery in ["direct", "relay"] {
            let set = format!("messages=1000 affinity_ms=7 delivery={delivery}");
            let run = Run::new(machine, "passed-sequence", &set);
            run.expect("requests", 1_000.0);
            run.expect("lost", 0.0);
            run.expect("errors", 0.0);
            assert!(
                run.result("interrupts") <= run.result("frames"),
                "{}",
                run.name
            );
            assert!(run.result("moves") > 20.0, "{}", run.name);
            match delivery {
                "direct" => run.expect("relayed", 0.0),
                _ => assert!(run.result("relayed") > 900.0, "{}", run.name),
            }
            let moves_cost = machine == "aia" && delivery == "direct";
            assert_eq!(run.invalidations() > 10, moves_cost, "{}", run.name);
        }
    }
}

/// Promise: a wire of a passed device interrupts the guest once for each message while vCPUs and
/// interrupt move, by a wired window without the host, else by the host; nothing is
/// lost if the guest ends meanwhile.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_wire_interrupts_a_guest() {
    for (machine, delivery) in [
        ("trapless", "direct"),
        ("trapless", "relay"),
        ("aia", "relay"),
    ] {
        let set = format!(
            "device=port messages=500 ends=3 unplug_ms=20 affinity_ms=7 delivery={delivery}"
        );
        let run = Run::new(machine, "passed-sequence", &set);
        run.expect("requests", 500.0);
        run.expect("lost", 0.0);
        run.expect("errors", 0.0);
        run.expect("uses", 5.0);
        assert!(run.result("moves") > 20.0, "{}", run.name);
        match delivery {
            // Each interrupt found the device asserting its wire.
            "direct" => {
                run.expect("relayed", 0.0);
                run.expect("unhandled", 0.0);
            }
            _ => assert!(run.result("relayed") >= 500.0, "{}", run.name),
        }
    }
}

/// Promise: with fewer interrupt files than vCPUs, interrupts of a passed device wait in memory for
/// those that have none, and are neither lost nor relayed by the host.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn interrupts_for_vcpus_without_a_file_wait_in_memory() {
    let set = "aia.guests=1 messages=1000 affinity_ms=7";
    let run = Run::with_vcpus("aia", "passed-sequence", set, 4);
    run.expect("requests", 1_000.0);
    run.expect("lost", 0.0);
    run.expect("errors", 0.0);
    run.expect("relayed", 0.0);
    let pci = run.ledger.workload().pci.as_ref().expect("it interrupts");
    assert!(pci.memory_messages > 100, "{}", pci.memory_messages);
    assert!(pci.guest_messages > 100, "{}", pci.guest_messages);
    // Each has its notice.
    let notices = pci.functions.get("iommu").expect("the IOMMU interrupts");
    assert!(notices.messages >= pci.memory_messages);
}

/// Promise: a guest may end at any time while its device interrupts, also while the host asks for
/// the device, and the host can use the device itself afterwards; harts may be switched off.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn guests_and_harts_go_while_a_passed_device_interrupts() {
    for machine in ["aia", "trapless"] {
        let set = "messages=500 ends=3 unplug_ms=20 busy=1";
        let run = Run::new(machine, "passed-sequence", set);
        run.expect("lost", 0.0);
        run.expect("errors", 0.0);
        // Before the guests, between them and after
        run.expect("uses", 5.0);
        assert!(run.result("unplugs") > 0.0, "{}", run.name);
    }
}

/// Promise: a disk that a guest has interrupts once for each request, though its vCPUs move.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_passed_disk_interrupts_once_for_each_request() {
    for machine in ["aia", "trapless"] {
        let run = Run::new(machine, "passed-disk", "reads=1000");
        run.expect("reads", 2_000.0);
        run.expect("interrupts", 2_000.0);
        run.expect("timeouts", 0.0);
        run.expect("relayed", 0.0);
    }
}

/// Promise: a guest on a hart of its own takes the interrupts of a passed device without exits.
/// On `aia` Linux 7.2 panicked there: its driver looked at an interrupt that VFIO had freed.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_passed_device_interrupts_a_guest_on_a_hart_of_its_own() {
    for machine in ["aia", "trapless"] {
        let run = Run::new(machine, "passed", "dedicated=on wfi=native pings=200");
        run.expect("replies", 200.0);
        run.expect("relayed", 0.0);
        // The host, whose code ping makes it patch, tells all harts: on `aia` by an IPI, from which
        // it gathers randomness by a timer.
        let exits = run.ledger.workload().guest_exits;
        let most = if machine == "aia" { 2 } else { 0 };
        assert!(exits <= most, "{}: {exits} exits", run.name);
    }
}

/// Promise: several passed devices at once lose no interrupt while vCPUs move, and the host takes
/// none of them.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn several_passed_devices_interrupt_a_guest_that_moves() {
    for machine in ["aia", "trapless"] {
        let run = Run::new(machine, "passed-cards", "messages=500");
        run.expect("requests", 1_500.0);
        run.expect("lost", 0.0);
        run.expect("errors", 0.0);
        run.expect("relayed", 0.0);
        assert!(run.result("moves") > 5.0, "{}", run.name);
    }
}

/// Promise: fio's requests to a passed disk interrupt the guest once each, and the host only if it
/// relays.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn fio_measures_a_passed_disk() {
    for (machine, delivery, relayed) in [("aia", "relay", 500.0), ("trapless", "direct", 0.0)] {
        let set = format!("requests=500 delivery={delivery}");
        let run = Run::new(machine, "passed-fio", &set);
        run.expect("requests", 500.0);
        run.expect("interrupts", 500.0);
        // With those of the queue for administration.
        let all = run.result("relayed");
        assert!(
            all >= relayed && (all > 0.0) == (relayed > 0.0),
            "{}",
            run.name
        );
    }
}

/// Promise: a guest with Debian stable's kernel runs on a host with that of testing, whose KVM
/// leaves `scounteren` at 0: programs read the time, and a passed device interrupts it directly.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_guest_of_the_stable_release_has_a_device_on_the_testing_release() {
    let timer = Run::with("sstc", "timer", "kernel=testing-host", &["--guest-harts=1"]);
    assert!(timer.result("wakeups") > 0.0);
    let run = Run::new("trapless", "passed", "kernel=testing-host pings=200");
    run.expect("replies", 200.0);
    run.expect("relayed", 0.0);
}

/// Promise: Debian's QEMU as VMM can give a guest a device, and loses none of its interrupts, which
/// the host relays: QEMU has VFIO's container, whose domain has no MSI page table.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn debians_qemu_gives_a_guest_a_device() {
    let set = "messages=1000 affinity_ms=7";
    let run = Run::with("aia", "passed-sequence", set, &["--vmm", "qemu"]);
    run.expect("requests", 1_000.0);
    run.expect("lost", 0.0);
    run.expect("errors", 0.0);
    assert!(run.result("relayed") > 900.0, "{}", run.name);
    assert!(run.result("moves") > 20.0, "{}", run.name);
}

/// Promise: a device reaches no memory that is not its user's. Message windows take two words of
/// it, one for each vector, and nobody else gets an interrupt; with interrupt files, others do.
#[test]
#[ignore = "builds a kernel of the testing release, which takes 5 to 30 minutes the first time"]
fn a_hostile_user_of_a_device_reaches_nothing_else() {
    for machine in ["aia", "trapless"] {
        let run = Run::new(machine, "passed-hostile", "messages=1000");
        assert_eq!(run.result("writes"), run.result("writes_refused"));
        run.expect("written", 0.0);
        run.expect("lost", 0.0);
        run.expect("addresses_came", 0.0);
        let forged = run.result("forged_host") + run.result("forged_guest");
        assert_eq!(forged > 0.0, machine == "aia", "{}", run.name);
        let pci = run.ledger.workload().pci.as_ref().expect("it interrupts");
        assert!(pci.iommu_faults > 30, "{}", pci.iommu_faults);
    }
}
