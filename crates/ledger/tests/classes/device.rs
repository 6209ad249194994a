//! Device interrupts.

use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::State;
use trapless_ledger::event::StepKind::*;

use crate::common::*;
use crate::script::{Script, V0, V1};

#[test]
fn a_posted_device_interrupt_is_measured_to_the_trap_after_which_it_is_claimed() {
    let mut s = two_vcpus();
    s.on(1, V1).at(1_000).step(U, post_source(0, 3), 4); // 1 010
    s.step(U, post_source(0, 9), 4); // 1 020
    s.step(
        U,
        PostSource {
            vhart: 0,
            source: 9,
            merged: true,
        },
        4,
    );
    s.on(0, V0).at(1_040).irq(VS, VS, SEI); // 1 050
    let (claim, complete) = (
        |source| Claimed { vhart: 0, source },
        |source, again| Completed {
            vhart: 0,
            source,
            again,
        },
    );
    s.step(VS, claim(3), 2).step(VS, complete(3, false), 1);
    // Arrives while the handler runs: claimed without another trap.
    s.on(1, V1).step(U, post_source(0, 4), 4); // 1 080
    s.on(0, V0);
    s.step(VS, claim(4), 2) // 1 090
        .step(VS, complete(4, true), 1) // its line is high: posted in the same access, at 1 100
        .step_now(VS, post_source(0, 4), 4);
    s.step(VS, claim(4), 2).step(VS, complete(4, false), 1); // 1 110
    // The one that waited behind a priority: its trap is the same.
    s.step(VS, claim(9), 2).step(VS, claim(0), 1);
    s.step(U, Lowered { source: 4 }, 1);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, d.coalesced, d.repended), (5, 1, 1));
    assert_eq!((d.claims, d.empty_claims, d.completions), (5, 1, 3));
    assert_eq!((d.taken, d.lowered), (1, 1));
    assert_eq!(d.memory_words, 5 * 4 + 2 * 4 + 3 + 1 + 1);
    assert_eq!(arrived(d), [4, 0, 0, 0]);
    let l = &d.latency["running"];
    assert_eq!(section.latency["guest_device"].sum, l.sum);
    // 3: 40, 9: 30, 4: 10, 4 again: 10
    assert_eq!((l.count, l.sum, l.min, l.max), (4, 90, 10, 40));
    assert_eq!(cost(d), [0; 4]);
}

#[test]
fn a_source_withdrawn_before_it_is_claimed_has_no_latency() {
    let mut s = two_vcpus();
    s.on(1, V1).step(U, post_source(0, 3), 4);
    s.step(U, Lowered { source: 3 }, 1);
    s.on(0, V0).irq(VS, VS, SEI).step(
        VS,
        Claimed {
            vhart: 0,
            source: 0,
        },
        1,
    );
    s.step(U, Lowered { source: 3 }, 1);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert!(d.latency.is_empty());
    assert_eq!((d.lowered, d.withdrawn), (2, 1));
}

#[test]
fn plic_accesses_and_the_vmms_calls_are_what_a_device_interrupt_costs_without_a_controller() {
    let mut s = Script::new();
    let load = exception::LOAD_GUEST_PAGE;
    let store = exception::STORE_GUEST_PAGE;
    // The vCPU thread enters the guest on hart 0.
    s.ret(M, HS).ret(HS, U).ioctl(12, KVM_RUN).ret(HS, VS);
    // The VMM's other thread on hart 1 signals; KVM kicks hart 0.
    s.on(1, V1).ret(M, HS).ret(HS, U).at(1_000);
    s.ioctl(20, KVM_INTERRUPT) // 1 010
        .ecall(HS, M, eid::IPI, 1, 0)
        .ret(M, HS)
        .ret(HS, U);
    s.on(0, V0).irq(VS, M, interrupt::MSI).ret(M, VS);
    s.irq(VS, HS, SSI).raise(VSEI).ret(HS, VS).irq(VS, VS, SEI); // 1 100
    // Claim, complete, claim again: MMIO exits that the VMM serves.
    for (cause, address) in [(load, 0xc20_1004), (store, 0xc20_1004), (load, 0xc20_1004)] {
        s.fault(cause, address)
            .ret(HS, U)
            .ioctl(12, KVM_RUN)
            .ret(HS, VS);
    }
    // A priority is neither a claim nor a completion; InterruptStatus and -ACK are the device's.
    s.fault(store, 0xc00_0004).ret(HS, VS);
    s.fault(load, 0x1000_1060).ret(HS, VS);
    s.fault(store, 0x1000_1064).ret(HS, VS);
    s.fault(store, 0x1000_1050).ret(HS, VS);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, d.taken), (1, 1));
    assert_eq!(arrived(d), [1, 0, 0, 0]);
    assert_eq!(latency(d, State::Running), (1, 90));
    assert_eq!((d.claims, d.completions, d.acknowledgements), (2, 1, 2));
    // Kick and four MMIO exits; the kick's two firmware traps; three KVM_RUN and one KVM_INTERRUPT.
    assert_eq!(cost(d), [5, 2, 3, 4]);
}

#[test]
fn an_injection_into_a_waiting_vcpu_counts_as_scheduled_off_and_a_reload_not_at_all() {
    let mut s = Script::new();
    s.ret(M, HS).ret(HS, U).ioctl(12, KVM_RUN).ret(HS, VS);
    wfi_to_idle(&mut s);
    s.on(1, V1).ret(M, HS).ret(HS, U);
    s.ioctl(20, KVM_INTERRUPT).ret(HS, U);
    s.on(0, V0)
        .wait(HS, false)
        .raise(VSEI)
        .ret(HS, VS)
        .irq(VS, VS, SEI);
    // Descriptor 20 is known to be this vCPU's: another one says nothing about it, and the level is
    // still high when the vCPU is loaded again.
    s.on(1, V1).ioctl(99, KVM_INTERRUPT).ret(HS, U);
    s.on(0, V0);
    s.ecall(VS, HS, eid::BASE, 0, 0).raise(VSEI).ret(HS, VS);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, arrived(d)), (1, [0, 0, 1, 0]));
    assert_eq!(d.syscalls, 2);
}

#[test]
fn the_call_for_an_injection_is_identified_by_its_descriptor() {
    let mut s = Script::new();
    s.ret(M, HS).ret(HS, VS);
    s.on(1, V1).ret(M, HS).ret(HS, VS);
    let call = |s: &mut Script, fd| {
        // Any hart that is in U-mode; not one of the vCPUs'.
        s.on(2, V0).ioctl(fd, KVM_INTERRUPT).ret(HS, U);
    };
    let inject = |s: &mut Script, hart, guest| {
        s.on(hart, guest)
            .irq(VS, HS, SSI)
            .raise(VSEI)
            .ret(HS, VS)
            .irq(VS, VS, SEI);
    };
    call(&mut s, 20);
    inject(&mut s, 0, V0); // vCPU 0 is descriptor 20: 60
    call(&mut s, 21);
    inject(&mut s, 1, V1); // vCPU 1 is 21: 60
    call(&mut s, 21); // for vCPU 1, at the same time ...
    call(&mut s, 20); // ... as this for vCPU 0
    inject(&mut s, 1, V1); // 80
    inject(&mut s, 0, V0); // 100
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, arrived(d)), (4, [4, 0, 0, 0]));
    let l = &d.latency["running"];
    assert_eq!((l.count, l.sum, l.max), (4, 50 + 50 + 70 + 90, 90));
}

#[test]
fn an_injection_whose_call_was_not_seen_is_of_unknown_state() {
    let mut s = Script::new();
    s.enter()
        .irq(VS, HS, SEI)
        .raise(VSEI)
        .ret(HS, VS)
        .irq(VS, VS, SEI);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, arrived(d)), (1, [0, 0, 0, 1]));
    assert_eq!(latency(d, State::Unknown), (1, 20));
}

#[test]
fn a_system_call_in_which_the_kernel_posts_is_the_device_interrupts() {
    let mut s = two_vcpus();
    s.on(1, V1).ecall(VS, HS, eid::BASE, 0, 0);
    s.step(
        HS,
        Detached {
            vhart: 1,
            state: PREEMPTED,
        },
        1,
    );
    s.ret(HS, U);
    // An eventfd write that reaches an irqfd, twice the same source; then one that does nothing.
    s.trap(U, HS, exception::ECALL_U)
        .step(HS, post_source(0, 3), 4)
        .step(HS, post_source(0, 4), 4)
        .ret(HS, U);
    s.trap(U, HS, exception::ECALL_U).ret(HS, U);
    // A post in an interrupt that comes during a call is not the call's.
    s.trap(U, HS, exception::ECALL_U)
        .irq(HS, HS, SEI)
        .step(HS, post_source(0, 5), 4)
        .ret(HS, HS)
        .ret(HS, U);
    // Injection from U-mode: no call.
    s.step(U, post_source(0, 6), 4);
    let section = s.done();
    let d = &section.interrupts["device"];
    assert_eq!((d.sent, d.syscalls), (4, 1));
    assert_eq!(arrived(d), [4, 0, 0, 0]);
}
