//! Inter-processor interrupts.

use trapless_isa::Mode::{HS, M, VS};
use trapless_isa::cause::interrupt;
use trapless_isa::sbi::eid;
use trapless_ledger::event::StepKind::*;
use trapless_ledger::{Left, State};

use crate::common::*;
use crate::script::{Script, V0, V1};

#[test]
fn an_ipi_by_sbi_costs_the_senders_exit_and_the_targets_kick() {
    let mut s = Script::new();
    s.enter();
    s.ecall(VS, HS, eid::HSM, 1, 0x8020_0000).ret(HS, VS);
    s.on(1, V1).ret(M, HS).ret(HS, VS);
    s.on(0, V0).at(1_000).ecall(VS, HS, eid::IPI, 0b10, 0);
    s.ecall(HS, M, eid::IPI, 0b10, 0).ret(M, HS).ret(HS, VS);
    s.on(1, V1).at(1_100).irq(VS, M, interrupt::MSI).ret(M, VS);
    s.irq(VS, HS, SSI)
        .irq(HS, HS, SSI)
        .ret(HS, HS)
        .raise(interrupt::VSSI as u8)
        .ret(HS, VS)
        .irq(VS, VS, SSI); // 1 180
    // A kick that injects nothing is the host's own affair.
    s.irq(VS, HS, SSI).ret(HS, VS);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, arrived(ipi), ipi.taken), (1, [1, 0, 0, 0], 1));
    assert_eq!(cost(ipi), [2, 2, 1, 0]);
    assert_eq!(latency(ipi, State::Running), (1, 170));
    assert_eq!(section.exits["ipi_receive"].exits, 2);
}

#[test]
fn an_ipi_by_sbi_finds_its_target_paused_or_scheduled_off() {
    let mut s = Script::new();
    s.enter();
    s.ecall(VS, HS, eid::HSM, 1, 0x8020_0000).ret(HS, VS);
    s.on(1, V1).ret(M, HS).ret(HS, VS);
    s.ecall(VS, HS, eid::BASE, 0, 0);
    let send = |s: &mut Script| {
        let time = s.time;
        s.on(0, V0).ecall(VS, HS, eid::IPI, 0b10, 0).ret(HS, VS);
        let now = time.max(s.time);
        s.on(1, V1).at(now);
    };
    send(&mut s); // paused
    s.ret(HS, VS).irq(VS, VS, SSI);
    wfi_to_idle(&mut s);
    send(&mut s); // the hart idles
    send(&mut s); // and again: one is unanswered
    s.wait(HS, false).ret(HS, VS).irq(VS, VS, SSI);
    s.on(0, V0).ecall(VS, HS, eid::IPI, 1, 0); // to itself, from its own exit
    s.ecall(VS, HS, eid::IPI, 1, 7); // to an unknown vCPU
    s.ecall(VS, HS, eid::LEGACY_SEND_IPI, 0x8000_0000, 0);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, ipi.coalesced), (6, 1));
    assert_eq!(arrived(ipi), [0, 2, 1, 2]);
    assert_eq!(latency(ipi, State::Paused).0, 1);
    assert_eq!(latency(ipi, State::ScheduledOff).0, 1);
}

#[test]
fn a_posted_ipi_is_counted_where_the_slot_is_and_measured_to_the_trap() {
    let mut s = two_vcpus();
    s.on(0, V0).at(1_000).step(VS, post_soft(1), 3); // 1 010
    s.step_now(VS, Hit { vhart: 1, on: 1 }, 1);
    s.on(1, V1).at(1_040).irq(VS, VS, SSI); // 1 050
    // Pending already: nothing arrives.
    s.on(0, V0).step(VS, post_soft(1), 2);
    s.step(
        VS,
        PostSoft {
            vhart: 1,
            merged: true,
        },
        2,
    );
    s.on(1, V1).irq(VS, VS, SSI);
    // Paused.
    s.ecall(VS, HS, eid::BASE, 0, 0);
    s.on(0, V0).at(2_000).step(VS, post_soft(1), 2); // 2 010
    s.on(1, V1)
        .irq(HS, HS, interrupt::VSSI) // the host sees it at V=0
        .ret(HS, HS)
        .ret(HS, VS)
        .irq(VS, VS, SSI); // 2 050
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, ipi.coalesced, ipi.taken), (4, 1, 3));
    assert_eq!(arrived(ipi), [2, 1, 0, 0]);
    assert_eq!(latency(ipi, State::Running), (2, 40));
    assert_eq!(latency(ipi, State::Paused), (1, 40));
    assert_eq!((ipi.host_interrupts, ipi.memory_words), (1, 10));
    assert_eq!(cost(ipi), [0; 4]);
    assert_eq!(section.latency["guest_ipi"].count, 3);
}

#[test]
fn an_ipi_to_a_halted_vcpu_notifies_once_and_is_fetched() {
    let mut s = two_vcpus();
    s.on(1, V1).ecall(VS, HS, eid::BASE, 0, 0);
    s.step(
        HS,
        Detached {
            vhart: 1,
            state: HALTED,
        },
        1,
    );
    s.wait(HS, true);
    s.on(0, V0).at(1_000);
    let to_1 = Notified {
        vhart: 1,
        to: 1,
        kind: WAKE,
    };
    // The lookup belongs to the post: one access, one time.
    s.step(VS, post_soft(1), 2).step_now(VS, to_1, 3); // 1 010
    s.step(
        VS,
        PostSoft {
            vhart: 1,
            merged: true,
        },
        2,
    )
    .step_now(VS, Silent { vhart: 1 }, 1);
    s.on(1, V1)
        .at(1_100)
        .wait(HS, false)
        .irq(HS, HS, NOTIFY)
        .step(HS, Fetched { id: 1, kind: WAKE }, 1) // 1 130
        .step(HS, Attached { vhart: 1 }, 2)
        .ret(HS, VS)
        .irq(VS, VS, SSI); // 1 160
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!(
        (ipi.sent, ipi.coalesced, ipi.memory_words),
        (2, 1, 2 + 3 + 2 + 1)
    );
    assert_eq!(arrived(ipi), [0, 0, 1, 0]);
    assert_eq!(latency(ipi, State::ScheduledOff), (1, 150));
    let halted = &ipi.left["halted"];
    assert_eq!(halted.arrived, 1);
    assert_eq!(halted.latency, ipi.latency.get("scheduled_off").cloned());
    assert_eq!(ipi.left.len(), 1);
    let n = &section.notifications;
    let wake = &n.kinds["wake"];
    assert_eq!((wake.queued, wake.fetched, n.silent), (1, 1, 1));
    assert_eq!(wake.latency.as_ref().map(|l| l.max), Some(120));
    assert_eq!((n.host_interrupts, n.exits, n.memory_words), (1, 0, 1));
    assert!(!n.kinds.contains_key("yield"));
}

#[test]
fn a_vcpu_that_is_scheduled_off_was_left_preempted_halted_or_stopped() {
    let mut s = two_vcpus();
    s.on(1, V1);
    for (state, name) in [(0, "stopped"), (PREEMPTED, "preempted"), (HALTED, "halted")] {
        s.on(1, V1).ecall(VS, HS, eid::BASE, 0, 0);
        s.step(HS, Detached { vhart: 1, state }, 1);
        s.on(0, V0).step(VS, post_soft(1), 2);
        s.on(1, V1)
            .step(HS, Attached { vhart: 1 }, 2)
            .ret(HS, VS)
            .irq(VS, VS, SSI);
        let answered = s.ledger.take_answered().unwrap();
        assert_eq!(
            (answered.state, answered.left),
            (State::ScheduledOff, Left::from_name(name))
        );
    }
    // Nothing reports a vhart that was never on a hart.
    s.on(0, V0).step(VS, post_soft(9), 2);
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!(arrived(ipi), [0, 0, 4, 0]);
    let names: Vec<_> = ipi
        .left
        .iter()
        .map(|(n, l)| (n.name(), l.arrived))
        .collect();
    assert_eq!(names, [("halted", 1), ("preempted", 1), ("stopped", 1)]);
    assert_eq!(latency(ipi, State::ScheduledOff), (3, 30));
}

#[test]
fn a_notification_that_interrupts_a_guest_is_an_exit_of_its_own_reason() {
    let mut s = two_vcpus();
    s.on(0, V0);
    let to_0 = Notified {
        vhart: 1,
        to: 0,
        kind: YIELD,
    };
    s.step(VS, post_soft(1), 2).step_now(VS, to_0, 3);
    s.irq(VS, HS, NOTIFY)
        .step(HS, Fetched { id: 1, kind: YIELD }, 1)
        .ret(HS, VS);
    s.step(VS, Overflow { on: 0 }, 0);
    // Evaluated without a post.
    s.step(
        HS,
        Notified {
            vhart: 7,
            to: 0,
            kind: WAKE,
        },
        2,
    );
    // Completing a source notifies the host.
    s.step(
        VS,
        Completed {
            vhart: 0,
            source: 9,
            again: false,
        },
        2,
    );
    s.step_now(
        VS,
        Notified {
            vhart: 0,
            to: 0,
            kind: RESAMPLE,
        },
        3,
    );
    s.step(
        HS,
        Fetched {
            id: 9,
            kind: RESAMPLE,
        },
        1,
    );
    let section = s.done();
    assert_eq!(section.exits["notification"].exits, 1);
    let n = &section.notifications;
    assert_eq!((n.exits, n.host_interrupts, n.overflows), (1, 0, 1));
    let resample = &n.kinds["resample"];
    assert_eq!((n.kinds["yield"].fetched, n.kinds["wake"].fetched), (1, 0));
    assert_eq!((resample.queued, resample.fetched), (1, 1));
    assert_eq!(resample.latency.as_ref().map(|l| l.max), Some(10));
    assert_eq!(n.memory_words, 1 + 2 + 1);
    assert_eq!(section.interrupts["device"].memory_words, 2 + 3);
    assert_eq!(cost(&section.interrupts["ipi"]), [0; 4]);
}

#[test]
fn an_ipi_that_kvm_posts_for_an_sbi_call_is_sent_once() {
    let mut s = two_vcpus();
    s.on(0, V0).at(1_000).ecall(VS, HS, eid::IPI, 0b10, 0); // 1 010
    s.step(HS, post_soft(1), 3).ret(HS, VS);
    s.on(1, V1).at(1_080).irq(VS, VS, SSI); // 1 090
    let section = s.done();
    let ipi = &section.interrupts["ipi"];
    assert_eq!((ipi.sent, arrived(ipi)), (1, [1, 0, 0, 0]));
    assert_eq!(latency(ipi, State::Running), (1, 80));
    assert_eq!((cost(ipi), ipi.memory_words), ([1, 0, 0, 0], 3));
}
