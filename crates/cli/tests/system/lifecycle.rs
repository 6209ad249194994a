//! What the harts of a KVM host go through while it has virtual machines, tried by modules and
//! programs of the image `test-host` (`images/tests`).

use crate::hosts::{crash, faults, suspend, unplug};

/// Promise: an interrupt that a CPU injects on its way off line arrives, and so does one that it
/// injects after KVM has let go of it. It wakes a vCPU up even if all other CPUs of the host are in
/// low-power states at that moment.
#[test]
fn a_dying_cpu_loses_no_interrupt() {
    let run = unplug();
    run.assert_passed(&[
        "an irqfd is signalled by a CPU that goes off line while the other one is in a low-power \
         state",
    ]);
    run.assert_result("unplug", "0");
}

/// Promise: a crash kernel comes up, and takes interrupts, on a hart where KVM had a vCPU attached
/// and its timer armed.
#[test]
fn a_crash_kernel_comes_up() {
    let run = crash();
    run.assert_passed(&["the crash kernel is loaded, and a guest runs"]);
    assert!(run.console.contains("trapless_crash: as the test wants it"));
    run.assert_result("crash_kernel", "up");
}

/// Promise: a hart that loses its registers in a suspend, as the CPU PM notifiers announce it, runs
/// vCPUs and injects as before. What a guest left pending does not wake it, and a thread with a
/// grant may ask for the suspend.
#[test]
fn a_suspended_cpu_gets_its_registers_back() {
    suspend().assert_result("suspend", "0");
}

/// Promise: a VM whose vCPU the controller does not find any more ends with an error instead of
/// running without its interrupts, and two harts with the same vCPU are reported in the log.
#[test]
fn kvm_notices_that_it_lost_track_of_a_vcpu() {
    faults().assert_result("faults", "0");
}

/// Promise: what the controller of events cannot access is reported in the log.
#[test]
fn kvm_notices_events_that_are_in_no_memory() {
    faults().assert_passed(&[
        "an event is posted that is in no memory",
        "the kernel says what happened",
    ]);
}

/// Promise: without KVM user mode may reach no more registers than before it was loaded.
#[test]
fn registers_of_user_mode_are_closed_when_kvm_goes() {
    faults().assert_result("sstateen0_with_kvm", "1");
    faults().assert_result("sstateen0_without_kvm", "0");
}

/// Promise: if more vCPUs are to be woken up than the queue of a hart has room for, they are all
/// woken up, and a vCPU of another VM for which nothing came is not.
#[test]
fn an_overflow_affects_no_other_guest() {
    faults().assert_passed(&[
        "a queue of two overflows",
        "all that sleep are woken up",
        "a vCPU of another VM sleeps on",
    ]);
}

/// Promise: the module can be removed and loaded again.
#[test]
fn the_module_can_be_replaced() {
    let run = unplug();
    run.assert_result("unload", "0");
    run.assert_result("reload", "0");
}
