//! The workload `micro` without Linux in the guest.

use trapless_ledger::document::{LedgerFile, Section};

use crate::runs::ledger;

/// Times that each operation is done.
const TIMES: u64 = 300;

/// The ledger of a short run.
fn micro(machine: &str, settings: &[&str]) -> LedgerFile {
    let count = format!("count={TIMES}");
    let all = ["guest=bare", &count]
        .into_iter()
        .chain(settings.iter().copied());
    let set: Vec<&str> = all.flat_map(|word| ["--set", word]).collect();
    let name = format!("micro-alone-{machine}-{}", settings.join("-"));
    ledger(&name, machine, "micro", &set)
}

/// Exits for `reason` in one phase.
fn exits(ledger: &LedgerFile, phase: &str, reason: &str) -> u64 {
    let phase = ledger.phases.iter().find(|p| p.name == phase);
    let section: &Section = &phase.expect("a phase of `micro`").totals;
    section.exits.get(reason).map_or(0, |e| e.exits)
}

fn result(ledger: &LedgerFile, key: &str) -> f64 {
    let found = ledger.run.measurements.iter().find(|m| m.name == key);
    found.unwrap_or_else(|| panic!("no {key}")).value
}

/// Promise: a program that is alone in the guest leaves it once for each operation that needs it,
/// and for nothing else than the lines it prints and the pauses after them.
#[test]
fn a_guest_without_linux_leaves_exactly_as_often_as_it_does_something() {
    for machine in ["sbi", "aia", "trapless"] {
        let ledger = micro(machine, &["run_loop=fast"]);
        let exits = |phase: &str, reason: &str| exits(&ledger, phase, reason);
        // One load before the first bytes of the line that ends the phase, sometimes one more.
        let lines = |loads: u64| (1..=2).contains(&loads);
        assert_eq!(exits("hypercall", "sbi_other.base"), TIMES);
        assert!(lines(exits("hypercall", "mmio.uart.read")));
        assert!(lines(exits("io_user", "mmio.uart.read") - TIMES));
        let (plic, calls, aplic) = match machine {
            "sbi" => (TIMES, TIMES, 0),
            "aia" => (0, 0, TIMES),
            _ => (0, 0, 0),
        };
        assert_eq!(exits("io_kernel", "mmio.aplic.read"), aplic);
        assert_eq!(exits("claim", "mmio.plic.read"), plic, "{machine}");
        assert_eq!(exits("claim", "mmio.plic.write"), plic, "{machine}");
        let sbi = u64::from(machine == "sbi");
        // The pause sets a deadline and takes it away.
        assert_eq!(exits("timer", "timer_set"), calls + 2 * sbi);
        // One more wakes hart 1.
        assert_eq!(exits("ipi", "ipi_send"), calls + sbi);
        assert_eq!(exits("ipi_idle", "ipi_send"), calls);
        // Each finds hart 1 in WFI, whose last WFI has not ended; hart 0 waits once.
        assert!(
            (TIMES..=TIMES + 2).contains(&exits("ipi_idle", "wfi")),
            "{machine}"
        );
        let claim = result(&ledger, "claim_cycles");
        assert_eq!(claim > 5000.0, plic > 0, "{machine}: {claim}");
    }
}

/// Promise: on a host with the AIA an IPI by SBI reaches a vCPU that runs without an IPI of the
/// host, by an interrupt file of its hart, and takes less than half of the time.
#[test]
fn an_ipi_to_a_running_vcpu_takes_no_ipi_of_the_host() {
    let [stock, fast] =
        ["stock", "fast"].map(|way| micro("aia", &[&format!("run_loop={way}"), "irqchip=plic"]));
    let phase = |ledger| ["guest_external", "ipi_receive"].map(|r| exits(ledger, "ipi", r));
    assert_eq!(phase(&stock)[0], 0);
    // One that comes while the vCPU is off for a tick of the host costs no exit of its own.
    let ticks = |ledger| exits(ledger, "ipi", "host_timer");
    assert!(phase(&stock)[1] + ticks(&stock) >= TIMES);
    assert!(phase(&fast)[0] + ticks(&fast) >= TIMES);
    assert_eq!(phase(&fast)[1], 0);
    let cycles = [&stock, &fast].map(|ledger| result(ledger, "ipi_cycles"));
    assert!(cycles[1] * 2.0 < cycles[0], "{cycles:?}");
}
