//! What a guest or a process may not reach, tried by real ones (`images/tests/isolation`): programs
//! in user mode of host and guest, a hostile guest kernel beside a second guest that watches its
//! interrupts, and the KVM device's own test (`linux/tests`).

use std::collections::{BTreeMap, BTreeSet};

use crate::hosts::{device, isolation, kexec, lines, steps_of};
use crate::log::{Kind, Log};

/// Promise: a process without a grant, in host or guest, reaches no register of Xtrapless: each try
/// is SIGILL.
#[test]
fn user_mode_without_a_grant_gets_sigill() {
    let run = isolation();
    run.assert_result("user", "0");
    run.assert_result("attacker_user", "0");
}

/// Promise: a process with a grant stays in its range, and the grant ends with it: other threads,
/// children, programs it becomes, and the time after it was given back (`linux/tests/grant.c` says
/// what it tries).
#[test]
fn grants_are_kept_to() {
    device().assert_passed(&[
        "no grant: SIGILL",
        "both ends of the range are pending",
        "beside the range: SIGILL",
        "another thread: SIGILL",
        "a child: SIGILL",
        "given back: SIGILL",
        "after execve: SIGILL",
        "after execve from an address space with other users: SIGILL",
    ]);
}

/// Promise: whatever a boost gave the thread of a vCPU is gone when `KVM_RUN` returns, and no child
/// of it inherits anything (`linux/tests/boost.c`).
#[test]
fn boosts_leave_a_user_no_priority() {
    device().assert_passed(&[
        "a user's vCPUs are boosted",
        "KVM_RUN returns without a priority",
        "no child inherits one",
        "nor any thread another policy",
    ]);
}

/// Promise: the KVM device does what its documentation says
/// (`Documentation/virt/kvm/devices`).
#[test]
fn the_test_of_the_kvm_device_passes() {
    device().assert_result("kvm_test", "0");
}

/// Promise: a guest is offered exactly the extensions that its harts have: what KVM
/// reports about its own extensions is not mistaken for an extension to which Linux has given the
/// same number.
#[test]
fn a_guest_is_offered_exactly_the_extensions_of_its_harts() {
    let run = isolation();
    let extensions = |key: &str| {
        let text = run
            .results()
            .find(|&(k, _)| k == key)
            .map_or("", |(_, v)| v);
        let names = text.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (mut host, guest) = (extensions("isa"), extensions("attacker_isa"));
    // The parts of C and of D in it, which KVM names besides.
    host.extend(["zca", "zcd"].map(str::to_owned));
    assert!(guest.contains("sstc") && guest.contains("xtraplessvi"));
    assert!(!guest.contains("h"));
    assert!(guest.is_subset(&host), "{guest:?} in {host:?}");
}

/// Promise: a guest's kernel reaches no register of the host or of user space: each try is an
/// illegal instruction in the guest. Numbers of vharts and sources that it does not have are
/// without effect.
#[test]
fn a_guest_kernel_cannot_reach_the_host() {
    let run = isolation();
    assert!(run.number("attacker_tries") > 80);
    run.assert_result("attacker_reached", "0");
    run.assert_result("attacker_strange", "0");
    // The attacker is well after all it did.
    run.assert_result("attacker_off", "0");
    run.assert_result("attacker_works", "0");
    run.assert_result("attacker_vmm", "0");
}

/// Promise: a CPU of a guest continues, and an interrupt is not lost, whatever another CPU does
/// with the interrupt while it is on its way: mask, disable, free or move it while it is pending,
/// just claimed, or being handled (`images/tests/module/trapless_lines.c`); with Xtrapless as with
/// a PLIC, and with an AIA, whose driver refuses to move a source again before it has moved.
#[test]
fn interrupts_can_be_taken_away_from_a_cpu() {
    for (machine, controller) in [
        ("trapless", "trapless"),
        ("trapless", "plic"),
        ("aia", "aia"),
    ] {
        let run = lines(machine, controller).unwrap();
        // Each way to raise a line, four operations, two moments and twelve more.
        assert_eq!(run.number("mover_rounds"), 4 * 4 * 14, "{controller}");
        for result in ["hangs", "lost", "twice", "vmm"] {
            run.assert_result(&format!("mover_{result}"), "0");
        }
    }
}

/// A guest's next kernel gets all `sources` that are not edges, and each once more.
fn next_kernel_gets(machine: &str, controller: &str, ways: &[&str], sources: u64) {
    let run = kexec(machine, controller, ways).unwrap();
    for way in ways {
        assert_eq!(run.number(&format!("{way}_adopted")), sources, "{way}");
        // By a panic there is one CPU, and no pairs of it and another.
        let rounds = if KEXEC.contains(way) { 4 * 4 * 14 } else { 4 };
        assert_eq!(run.number(&format!("{way}_rounds")), rounds, "{way}");
        for result in ["hangs", "lost", "twice", "vmm"] {
            run.assert_result(&format!("{way}_{result}"), "0");
        }
    }
}

const KEXEC: [&str; 3] = ["masked", "disabled", "freed"];
const PANIC: [&str; 4] = ["pending", "claimed", "served", "here"];

/// Promise: a guest starts another kernel by kexec(8), or its crash kernel, with lines high and
/// their interrupts claimed or being handled, on a CPU that never ends that; and the next kernel
/// gets each of them. Debian's KVM ends such a guest: it has no memory where Linux fetches from in
/// between.
#[test]
fn a_next_kernel_gets_what_was_left_to_it() {
    next_kernel_gets("trapless", "trapless", &["masked", "claimed", "here"], 2);
}

/// The same in all ways, with each interrupt controller. All sources of a PLIC are levels. A CPU
/// that takes them again and again does not stop for a panic, as Linux says, and then claims those
/// of the next kernel from a PLIC, where they stay enabled for it: that way is left out.
#[test]
#[ignore = "three minutes; `make test-long` runs it"]
fn a_next_kernel_gets_it_from_each_controller() {
    let ways = [&KEXEC[..], &PANIC].concat();
    next_kernel_gets("trapless", "trapless", &ways, 2);
    next_kernel_gets("aia", "aia", &ways, 2);
    let ways: Vec<_> = ways.into_iter().filter(|way| *way != "claimed").collect();
    next_kernel_gets("trapless", "plic", &ways, 4);
}

/// Promise: a guest beside a hostile one gets all its interrupts, each once, and no other.
#[test]
fn a_second_guest_notices_nothing() {
    let run = isolation();
    for class in ["timer", "ipi", "device"] {
        assert!(run.number(&format!("victim_{class}")) > 100, "{class}");
    }
    run.assert_result("victim_errors", "0");
}

/// Promise: what a guest does with its registers concerns the domain on whose slot it runs, and
/// vharts that exist.
#[test]
fn guests_stay_in_their_domain() {
    let log = &isolation().log;
    let mut slots = BTreeMap::new();
    let mut checked = 0;
    for e in &log.events {
        match (e.step, e.cause) {
            (_, "attached") => drop(slots.insert(e.hart, e.number("domain"))),
            (_, "detached") => drop(slots.remove(&e.hart)),
            ("VS", "post_soft" | "claimed" | "completed") => {
                assert!(e.number("domain").is_some(), "{e:?}");
                assert_eq!(slots.get(&e.hart), Some(&e.number("domain")), "{e:?}");
                assert!(e.number("vhart").is_some_and(|vhart| vhart < 3), "{e:?}");
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked > 5_000, "{checked}");
}

/// Promise: however fast a guest sends to vCPUs that sleep, wait for a hart that they hardly get,
/// run, or are switched off, the host is notified at most once of each between two times that it is
/// on a hart; no queue overflows, and no interrupt of the host handles more than 32 notifications.
#[test]
fn a_flood_costs_one_notification_for_each_time_off_the_hart() {
    device().assert_passed(&["50000 sgenipi to 1 vCPUs", "6000 sgenipi to 31 vCPUs"]);
    // The attacker sends two times 300 to each of four, the test of the device once to each of so
    // many.
    for (log, least) in [(&isolation().log, 2_400), (&device().log, 236_000)] {
        let sent = steps_of(log, "VS", "post_soft").count();
        assert!(sent > least, "{sent}");
        let (notified, again) = notifications(log);
        assert_eq!(
            again,
            BTreeMap::new(),
            "notified again before they were attached"
        );
        assert!(notified.values().sum::<usize>() > 10, "{notified:?}");
        assert!(most_notifications_of_an_interrupt(log) <= 32);
        assert_eq!(steps_of(log, "HS", "overflow").count(), 0);
    }
    // All other tests of the device have two vCPUs: for other vharts, only the flood of 31 causes
    // notifications.
    let (notified, _) = notifications(&device().log);
    assert!(
        (1..=31).all(|vhart| notified.contains_key(&Some(vhart))),
        "{notified:?}"
    );
}

/// How often the host was notified of each vhart, whatever its domain, and how often of those that
/// had not been attached since the time before.
fn notifications(log: &Log) -> (BTreeMap<Option<u64>, usize>, BTreeMap<Option<u64>, usize>) {
    let (mut waiting, mut notified, mut again) =
        (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    for e in &log.events {
        let vhart = (e.number("domain"), e.number("vhart"));
        match (e.cause, e.field("kind")) {
            ("attached", _) => drop(waiting.remove(&vhart)),
            ("notified", Some("wake" | "yield")) => {
                *notified.entry(vhart.1).or_default() += 1;
                if !waiting.insert(vhart) {
                    *again.entry(vhart.1).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    (notified, again)
}

fn most_notifications_of_an_interrupt(log: &Log) -> usize {
    let (mut handled, mut most) = (BTreeMap::new(), 0);
    for e in &log.events {
        let count = handled.entry(e.hart).or_insert(0);
        match (e.kind, e.cause) {
            (Kind::Trap, "NOTIFY") => *count = 0,
            (Kind::Virtual, "fetched") => *count += 1,
            _ => {}
        }
        most = most.max(*count);
    }
    most
}
