//! Timer interrupts, and which vCPU an event belongs to.

use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::event::StepKind::*;
use trapless_ledger::{Section, State};

use crate::common::*;
use crate::script::{Script, V0, V1};

#[test]
fn a_timer_arrives_where_the_vcpu_is_when_its_deadline_passes() {
    let mut s = Script::new();
    s.enter();
    // Running.
    s.timer(1_000).at(1_020).irq(VS, VS, STI); // taken at 1 030
    // Paused: the host handles an exit and comes back.
    s.timer(2_000).at(1_970).ecall(VS, HS, eid::BASE, 0, 0);
    s.at(2_090).ret(HS, VS).irq(VS, VS, STI);
    // Scheduled off: the host idles in between.
    s.timer(3_000);
    wfi_to_idle(&mut s).at(3_190).wait(HS, false);
    s.ret(HS, VS).irq(VS, VS, STI); // 3 220
    // Scheduled off: KVM_RUN has returned.
    s.timer(4_000)
        .fault(exception::LOAD_GUEST_PAGE, 0x1000_0000);
    s.ret(HS, U).at(4_290).trap(U, HS, exception::ECALL_U);
    s.ret(HS, VS).irq(VS, VS, STI); // 4 320
    // Never arrives, and one that is replaced.
    s.timer(90_000).timer(95_000).timer(u64::MAX);
    let section = s.done();
    let timer = &section.interrupts["timer"];
    assert_eq!(
        (timer.sent, arrived(timer), timer.superseded, timer.taken),
        (6, [1, 1, 2, 0], 2, 4)
    );
    assert_eq!(latency(timer, State::Running), (1, 30));
    assert_eq!(latency(timer, State::Paused), (1, 110));
    assert_eq!(latency(timer, State::ScheduledOff), (2, 320));
    assert_eq!(cost(timer), [0; 4]);
}

#[test]
fn a_slot_says_where_the_vcpu_is_whatever_the_hart_does() {
    let mut s = two_vcpus();
    s.on(0, V0);
    // The host waits with the vCPU still in the slot: paused.
    s.timer(1_000);
    wfi_to_idle(&mut s).at(1_090).wait(HS, false);
    s.ret(HS, VS).irq(VS, VS, STI);
    // Detached while the deadline passes.
    s.timer(2_000).ecall(VS, HS, eid::BASE, 0, 0);
    s.step(
        HS,
        Detached {
            vhart: 0,
            state: HALTED,
        },
        1,
    );
    s.at(2_190).step(HS, Attached { vhart: 0 }, 2);
    s.ret(HS, VS).irq(VS, VS, STI);
    let section = s.done();
    let timer = &section.interrupts["timer"];
    assert_eq!(arrived(timer), [0, 1, 1, 0]);
    assert_eq!(timer.left["halted"].arrived, 1);
    let slots = &section.slots;
    assert_eq!((slots.attached, slots.detached["halted"]), (3, 1));
    assert_eq!((slots.detached["preempted"], slots.memory_words), (0, 7));
}

#[test]
fn set_timer_by_sbi_costs_exits_and_firmware_traps() {
    let mut s = Script::new();
    s.enter()
        .ecall(VS, HS, eid::TIME, 10, 0)
        .ecall(HS, M, eid::TIME, 10, 0)
        .ret(M, HS)
        .ret(HS, VS);
    s.at(1_000).irq(VS, M, interrupt::MTI).ret(M, VS);
    s.irq(VS, HS, STI).raise(interrupt::VSTI as u8).ret(HS, VS);
    s.irq(VS, VS, STI);
    let section = s.done();
    let timer = &section.interrupts["timer"];
    assert_eq!((timer.sent, timer.taken), (1, 1));
    assert_eq!(arrived(timer), [1, 0, 0, 0]);
    assert_eq!(cost(timer), [2, 2, 0, 0]);
    // timer_set and timer_fire
    assert_eq!(section.guest_exits, 2);
}

#[test]
fn exits_that_stop_the_guest_from_using_its_registers_belong_to_the_class() {
    let csr = |n: u32| n << 20 | 0x1073; // csrw n, zero
    for (number, class) in [
        (0x14d, "timer"),
        (0x5d8, "ipi"),
        (0x5d9, "device"),
        (0x5da, "device"),
        (0x5db, "device"),
    ] {
        let mut s = Script::new();
        s.enter()
            .insn(HS, exception::VIRTUAL_INSTRUCTION, csr(number))
            .ret(HS, VS);
        assert_eq!(
            cost(&s.done().interrupts[class]),
            [1, 0, 0, 0],
            "{number:#x}"
        );
    }
    for (code, class, key) in [
        (interrupt::VSTI, "timer", "vs_level.timer"),
        (interrupt::VSSI, "ipi", "vs_level.software"),
        (interrupt::VSEI, "device", "vs_level.external"),
    ] {
        let mut s = Script::new();
        s.enter().irq(VS, HS, code).ret(HS, VS);
        let section = s.done();
        assert_eq!(section.exits[key].exits, 1);
        assert_eq!(cost(&section.interrupts[class]), [1, 0, 0, 0], "{code}");
    }
}

#[test]
fn a_kick_belongs_to_the_timer_only_if_the_host_has_to_inject_it() {
    for (sstc, exits) in [(true, 0), (false, 2)] {
        let mut s = Script::new();
        s.enter();
        if sstc {
            s.timer(1_000);
        } else {
            s.ecall(VS, HS, eid::TIME, 10, 0).ret(HS, VS);
        }
        s.at(980).irq(VS, HS, SSI).at(1_010);
        s.raise(interrupt::VSTI as u8).ret(HS, VS).irq(VS, VS, STI);
        let timer = &s.done().interrupts["timer"];
        assert_eq!((timer.exits, arrived(timer)), (exits, [0, 1, 0, 0]));
    }
}

#[test]
fn vcpus_are_identified_by_the_slot_they_run_in() {
    let mut s = two_vcpus();
    s.step(HS, HartIpi { to: 1 }, 0);
    let section = s.done();
    assert_eq!(section.host_ipis, 1);
    let file = s.ledger.to_file(Default::default(), None);
    let vcpus: Vec<_> = file
        .vcpus
        .iter()
        .map(|v| (v.context.as_str(), v.domain, v.vhart))
        .collect();
    assert_eq!(
        vcpus,
        [("0x2000", Some(5), Some(1)), ("0x1000", Some(5), Some(0))]
    );
}

#[test]
fn a_pinned_guest_on_the_controller_costs_nothing() {
    let mut s = two_vcpus();
    for round in 1..=100u64 {
        s.on(0, V0).at(round * 10_000).timer(round * 10_000 + 500);
        s.at(round * 10_000 + 500).irq(VS, VS, STI);
        s.step(VS, post_soft(1), 2)
            .step_now(VS, Hit { vhart: 1, on: 1 }, 0);
        s.on(1, V1).irq(VS, VS, SSI);
        s.on(1, V1).step(U, post_source(0, 1), 4);
        s.on(0, V0).irq(VS, VS, SEI);
        s.step(
            VS,
            Claimed {
                vhart: 0,
                source: 1,
            },
            2,
        );
        s.step(
            VS,
            Completed {
                vhart: 0,
                source: 1,
                again: false,
            },
            2,
        );
    }
    let section: Section = s.done();
    assert_eq!((section.guest_exits, section.firmware.total), (0, 0));
    for (name, class) in &section.interrupts {
        assert_eq!(
            (class.sent, class.taken, arrived(class)),
            (100, 100, [100, 0, 0, 0]),
            "{name}"
        );
        assert_eq!(cost(class), [0; 4]);
        assert_eq!(latency(class, State::Running).0, 100, "{name}");
    }
}
