//! What a guest or a process may not reach, tried by real ones (`images/tests/isolation`): programs in user mode of
//! host and guest, a hostile guest kernel beside a second guest that watches its interrupts, and the KVM device's own
//! test (`linux/tests`).

use std::collections::BTreeMap;

use crate::hosts::{device, isolation, steps_of};

/// Promise: a process without a grant, in host or guest, reaches no register of Xtrapless: each try is SIGILL.
#[test]
fn user_mode_without_a_grant_gets_sigill() {
    let run = isolation();
    run.assert_result("user", "0");
    run.assert_result("attacker_user", "0");
}

/// Promise: a process with a grant stays in its range, and the grant ends with it: other threads, children, programs
/// it becomes, and the time after it was given back (`linux/tests/grant.c` says what it tries).
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
    ]);
}

/// Promise: the KVM device does what its documentation says (`linux/Documentation/virt/kvm/devices`).
#[test]
fn the_test_of_the_kvm_device_passes() {
    device().assert_result("kvm_test", "0");
}

/// Promise: a guest's kernel reaches no register of the host or of user space: each try is an illegal instruction in
/// the guest. Numbers of vharts and sources that it does not have are without effect.
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

/// Promise: a guest beside a hostile one gets all its interrupts, each once, and no other.
#[test]
fn a_second_guest_notices_nothing() {
    let run = isolation();
    for class in ["timer", "ipi", "device"] {
        assert!(run.number(&format!("victim_{class}")) > 100, "{class}");
    }
    run.assert_result("victim_errors", "0");
}

/// Promise: what a guest does with its registers concerns the domain on whose slot it runs, and vharts that exist.
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
                assert_eq!(slots.get(&e.hart), Some(&e.number("domain")), "{e:?}");
                assert!(e.number("vhart") < Some(3), "{e:?}");
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked > 5_000, "{checked}");
}

/// Promise: however fast a guest sends to vCPUs that sleep, run, or are switched off, at most one notification for each
/// vCPU is outstanding at any time, and no queue overflows.
#[test]
fn a_flood_costs_one_outstanding_notification_per_vcpu() {
    let log = &isolation().log;
    let (mut outstanding, mut most, mut all) = (BTreeMap::new(), 0, 0);
    for e in &log.events {
        let kind = e.field("kind").filter(|k| *k != "resample");
        let key = |id| (e.number("domain"), e.number(id));
        match (e.cause, kind) {
            ("notified", Some(_)) => {
                let count = outstanding.entry(key("vhart")).or_insert(0);
                *count += 1;
                most = most.max(*count);
                all += 1;
            }
            ("fetched", Some(_)) => drop(outstanding.remove(&key("id"))),
            _ => {}
        }
    }
    assert_eq!(most, 1, "outstanding at a time");
    assert_eq!(steps_of(log, "HS", "overflow").count(), 0);
    // The attacker alone sends this often: two times 300 to each of four.
    let sent = steps_of(log, "VS", "post_soft").count();
    assert!(sent > 2_400, "{sent}");
    assert!(all > 10, "{all}");
}
