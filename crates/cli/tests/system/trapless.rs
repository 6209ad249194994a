//! What preset `trapless` claims: no exits for interrupts, and nothing lost for those who do not
//! know it.

use std::collections::BTreeMap;

use trapless_ledger::InterruptClass;
use trapless_ledger::document::Section;

use crate::log::Kind;
use crate::runs::{Run, Variant, WAKEUPS, Watched, run, varied};

/// Interrupt sources that devices of a guest have at most.
const DEVICES: u64 = 8;

/// Workloads that interrupt, with the classes they are about.
const WORKLOADS: [(&str, &[&str]); 4] = [
    ("timer", &["timer"]),
    ("ipi", &["ipi"]),
    ("net", &["device"]),
    ("mixed", &["timer", "ipi", "device"]),
];

fn trapless(workload: &str) -> &'static Run {
    run("trapless", workload, Watched::Log)
}

/// Promise: pinned, one vCPU on each hart, no interrupt of any class costs an exit or a firmware
/// trap: not programming, sending, delivering, claiming or completing it; and none costs the VMM a
/// system call.
#[test]
fn interrupts_cost_no_exit() {
    for (workload, classes) in WORKLOADS {
        let section = trapless(workload).ledger.workload();
        for (name, class) in &section.interrupts {
            let costs = [class.exits, class.firmware_traps, class.syscalls];
            assert_eq!(costs, [0; 3], "{name} interrupts of {workload}");
        }
        for name in classes {
            // How many IPIs the threads of `mixed` need is the guest scheduler's affair.
            assert!(
                section.interrupts[*name].taken > 0,
                "{workload} has {name} interrupts"
            );
        }
        // By the trap's reason, too, which does not use classes.
        for reason in ["csr", "vs_level", "ipi_send", "timer_set", "timer_fire"] {
            assert_eq!(section.exits_of(reason).exits, 0, "{reason} of {workload}");
        }
        let plic = section.exits.keys().find(|k| k.starts_with("mmio.plic"));
        assert_eq!(plic, None, "{workload}");
    }
}

/// Promise: what is counted as delivered was: each interrupt that arrives, and is not merged into
/// another that waits, is taken once; each source that the guest claims, it completes.
#[test]
fn what_arrives_is_taken() {
    for (workload, _) in WORKLOADS {
        let run = trapless(workload);
        let total = &run.ledger.total;
        let [timer, ipi, device] = ["timer", "ipi", "device"].map(|c| &total.interrupts[c]);
        let arrived = |class: &InterruptClass| class.arrived.values().sum::<u64>();
        // At the end of the run something may be under way to each vCPU.
        let open = run.ledger.vcpus.len() as u64;
        assert!(arrived(timer) - timer.taken <= open, "{}", run.name());
        assert!(arrived(ipi) - ipi.taken <= open, "{}", run.name());
        let claimed = device.claims - device.empty_claims;
        // The driver completes each source when it starts: a kernel that crashed may have claimed
        // some.
        let unclaimed = device.completions.checked_sub(claimed);
        assert!(
            unclaimed.is_some_and(|n| n <= DEVICES),
            "{}: {device:?}",
            run.name()
        );
        let answered = claimed + device.withdrawn + device.coalesced;
        let waiting = device.sent.checked_sub(answered);
        assert!(
            waiting.is_some_and(|n| n <= open),
            "{}: {device:?}",
            run.name()
        );
    }
}

/// Promise: WFI is the only exit left that waiting for an interrupt costs, and `wfi=native` takes
/// it away, too.
#[test]
fn native_wfi_does_not_exit() {
    let native = &varied(Variant::NativeWfi, "timer").ledger;
    assert_eq!(native.total.exits_of("wfi").exits, 0);
    let timer = &native.workload().interrupts["timer"];
    assert_eq!((timer.exits, timer.firmware_traps), (0, 0));
    // Off its hart is the vCPU only while the VMM writes what the guest prints at the end.
    let off = timer.arrived["scheduled_off"];
    assert!(off <= 2, "{off}: the vCPU stays loaded while it waits");
    let trapping = trapless("timer").ledger.workload();
    assert!(trapping.exits_of("wfi").exits >= crate::runs::WAKEUPS);
}

/// Promise: without Xtrapless each device interrupt costs at least three exits at the PLIC (claim,
/// completion, and a claim that finds nothing), and system calls of the VMM: the picture that
/// Xtrapless changes.
#[test]
fn a_plic_costs_three_exits_for_each_device_interrupt() {
    let plic = [
        run("sbi", "net", Watched::Log),
        run("sstc", "net", Watched::Log),
        varied(Variant::PlicGuest, "net"),
        varied(Variant::StockHost, "net"),
    ];
    for run in plic {
        let section = run.ledger.workload();
        let exits = section.exits.iter();
        let plic = exits.filter(|(name, _)| name.starts_with("mmio.plic"));
        let plic: u64 = plic.map(|(_, e)| e.exits).sum();
        let device = &section.interrupts["device"];
        assert!(device.taken >= 20, "{}", run.name());
        assert!(plic >= 3 * device.taken, "{}: {plic}", run.name());
        assert!(device.syscalls >= device.taken, "{}", run.name());
    }
}

/// Promise: a guest without our drivers works on our host. It pays for its PLIC and its IPIs, but
/// not for its timer.
#[test]
fn a_guest_without_the_drivers_runs_on_our_host() {
    for workload in ["timer", "ipi", "net"] {
        let run = varied(Variant::PlicGuest, workload);
        let total = &run.ledger.total;
        assert_eq!(total.exits_of("csr").exits, 0, "{}", run.name());
        assert_eq!(total.interrupts["timer"].exits, 0, "{}", run.name());
        let claimed = |e: &&crate::log::Event| e.kind == Kind::Virtual && e.cause == "claimed";
        assert_eq!(run.log.events.iter().filter(claimed).count(), 0);
        assert_eq!(total.slots.attached, 0, "it is no domain: {}", run.name());
    }
    let ipi = varied(Variant::PlicGuest, "ipi").ledger.workload();
    assert!(ipi.exits_of("ipi_send").exits >= ipi.interrupts["ipi"].taken);
}

/// Exits by reason.
fn exits(section: &Section) -> BTreeMap<&str, u64> {
    let exits = section.exits.iter();
    exits.map(|(name, e)| (name.as_str(), e.exits)).collect()
}

/// Promise: a host that does not know Xtrapless does on preset `trapless` what it does on `sstc`,
/// reason by reason, and the controller stays out of it. Only the device tree is another one, so
/// the host's own ticks fall elsewhere, and with them some halts and page faults.
#[test]
fn a_stock_host_is_as_on_sstc() {
    let here = varied(Variant::StockHost, "timer");
    let there = run("sstc", "timer", Watched::Log);
    let [mut here, mut there] = [here, there].map(|r| exits(&r.ledger.total));
    let mut both = |reason| [&mut here, &mut there].map(|e| e.remove(reason).unwrap_or(0));
    // Where ticks lie among the guest's wake-ups decides how many find it running, one that comes
    // just before a halt makes one halt more or less, and of two vCPUs that need the same new page
    // at a time, one exits or both do. Wake-ups (of 1 ms) and ticks (of 4 ms) have a common period:
    // all ticks among the wake-ups may fall there, or none.
    let ticks = both("host_timer");
    let more = ticks[0].abs_diff(ticks[1]) + WAKEUPS / 4;
    for (reason, least) in [
        ("wfi", more),
        ("page_fault.store", 0),
        ("page_fault.load", 0),
    ] {
        let [a, b] = both(reason);
        assert!(
            a.abs_diff(b) <= least.max(a / 20),
            "{reason}: {a} and {b}; ticks {ticks:?}"
        );
    }
    // Each character is an exit. The guest prints times and counts, and some have a digit more.
    let [a, b] = both("mmio.uart.write");
    assert!(a.abs_diff(b) <= 8, "characters: {a} and {b}");
    assert_eq!(here, there);

    // How many interrupts 20 pings make is a matter of timing; what each costs is not.
    let pings = [
        varied(Variant::StockHost, "net"),
        run("sstc", "net", Watched::Log),
    ];
    for run in pings {
        let section = run.ledger.workload();
        let device = &section.interrupts["device"];
        let plic = ["mmio.plic.read", "mmio.plic.write"].map(|r| section.exits[r].exits);
        assert_eq!(plic, [3 * device.taken, device.taken], "{}", run.name());
    }

    for workload in ["timer", "ipi", "net"] {
        let run = varied(Variant::StockHost, workload);
        let steps = run.log.events.iter().filter(|e| e.kind == Kind::Virtual);
        assert_eq!(steps.count(), 0, "{}", run.name());
        let total = &run.ledger.total;
        assert_eq!(total.host_ipis, 0, "{}", run.name());
    }
}
