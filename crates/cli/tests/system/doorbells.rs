//! What doorbells and shadows of registers (Xvei) claim.

use trapless_ledger::document::{Events, Section};

use crate::runs::{NET_VHOST, Watched, logged, run, runs};

/// Exits of virtio devices' registers.
fn register_exits(section: &Section, write: bool) -> u64 {
    let access = if write { ".write" } else { ".read" };
    let of_virtio = |key: &&str| key.starts_with("mmio.virtio") && key.ends_with(access);
    let keys = section.exits.iter();
    let found = keys.filter(|(key, _)| of_virtio(&key.as_str()));
    found.map(|(_, exit)| exit.exits).sum()
}

fn events(section: &Section) -> Events {
    section.events.clone().unwrap_or_default()
}

/// Promise: with our VMM, no register of a virtio device makes an exit once the guest has started,
/// and each queue notification is one event that the host gets.
#[test]
fn virtio_devices_make_no_exits() {
    for (machine, workload) in [("haiov", "net"), ("full", "net"), ("full", "mixed")] {
        let run = run(machine, workload, Watched::Log);
        let section = run.ledger.workload();
        let exits = [false, true].map(|write| register_exits(section, write));
        assert_eq!(exits, [0, 0], "{}", run.name());
        let events = events(section);
        assert!(events.doorbell >= 10, "{}: {events:?}", run.name());
        assert_eq!(events.taken, events.queued, "{}", run.name());
        assert_eq!(
            events.queued + events.merged,
            events.doorbell,
            "{}",
            run.name()
        );
    }
}

/// Promise: with Xtrapless besides, a ping costs no exit at all but those of waiting and of the
/// host's own timer, and of what the guest posts to the hart that it runs on itself.
#[test]
fn nothing_is_left_but_waiting() {
    let section = run("full", "net", Watched::Log).ledger.workload();
    let allowed = ["wfi", "host_timer", "event", "ipi_receive"];
    let reasons = section.exits.keys().map(|key| key.as_str());
    let others: Vec<_> = reasons.filter(|key| !allowed.contains(key)).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// Promise: with vhost-net, neither a kick nor an answer is an exit of a register, of the card or
/// of an interrupt controller.
#[test]
fn the_kernel_moves_frames_without_exits() {
    let of_kernel = |r: &&crate::runs::Run| r.job.set == NET_VHOST;
    let run = runs().iter().find(of_kernel).expect("it is in JOBS");
    let section = run.ledger.workload();
    assert!(events(section).doorbell >= 200, "{:?}", section.events);
    let of_devices = ["mmio.virtio", "mmio.plic", "mmio.aplic"];
    let reasons = section.exits.keys().map(|key| key.as_str());
    let found: Vec<_> = reasons
        .filter(|key| of_devices.iter().any(|name| key.starts_with(name)))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

/// Promise: a VMM that does not use doorbells, Debian's QEMU, gets its guest's notifications
/// without exits. What is left are the reads and acknowledgements of the interrupt status.
#[test]
fn a_stock_vmm_has_doorbells() {
    let stock = |r: &&crate::runs::Run| r.job.vmm == "qemu" && r.job.machine == "haiov";
    let run = logged().find(stock).expect("it is in JOBS");
    let section = run.ledger.workload();
    assert!(events(section).doorbell >= 10, "{:?}", section.events);
    let [reads, writes] = [false, true].map(|write| register_exits(section, write));
    assert_eq!(
        reads, writes,
        "of what a guest writes, acknowledgements exit"
    );
}
