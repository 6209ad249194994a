//! One test per rule of `docs/ledger.md`, section "Interrupt classes".

mod script;

use script::{Script, V0, V1};
use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::event::StepKind::{self, *};
use trapless_ledger::{InterruptClass, Left, Section, State};

const SEI: u64 = interrupt::SEI;
const SSI: u64 = interrupt::SSI;
const STI: u64 = interrupt::STI;
const VSEI: u8 = interrupt::VSEI as u8;
const NOTIFY: u64 = 24;
const WFI: u32 = 0x1050_0073;
const KVM_RUN: u64 = 0xae80;
const KVM_INTERRUPT: u64 = 0x4004_ae86;

const PREEMPTED: u8 = 1;
const HALTED: u8 = 2;
const WAKE: u8 = 1;
const YIELD: u8 = 2;
const RESAMPLE: u8 = 3;

fn arrived(class: &InterruptClass) -> [u64; 4] {
    State::ALL.map(|s| class.arrived_in(s))
}

/// Latencies in a state: their number and the largest.
fn latency(class: &InterruptClass, state: State) -> (u64, u64) {
    class
        .latency
        .get(state.name())
        .map_or((0, 0), |l| (l.count, l.max))
}

fn cost(class: &InterruptClass) -> [u64; 4] {
    [
        class.exits,
        class.firmware_traps,
        class.host_traps,
        class.syscalls,
    ]
}

fn post_soft(vhart: u16) -> StepKind {
    PostSoft {
        vhart,
        merged: false,
    }
}

fn post_source(vhart: u16, source: u16) -> StepKind {
    PostSource {
        vhart,
        source,
        merged: false,
    }
}

/// vCPU 0 of domain 5 runs on hart 0 and vCPU 1 on hart 1, both in slots.
fn two_vcpus() -> Script {
    let mut s = Script::new();
    s.on(1, V1)
        .ret(M, HS)
        .step(HS, Attached { vhart: 1 }, 2)
        .ret(HS, VS);
    s.on(0, V0)
        .ret(M, HS)
        .step(HS, Attached { vhart: 0 }, 2)
        .ret(HS, VS);
    s
}

fn wfi_to_idle(s: &mut Script) -> &mut Script {
    s.insn(HS, exception::VIRTUAL_INSTRUCTION, WFI)
        .wait(HS, true)
}

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
        (0x5c0, "ipi"),
        (0x5c1, "device"),
        (0x5c2, "device"),
        (0x5c3, "device"),
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
    s.ecall(VS, HS, eid::IPI, 1, 7); // to nobody known
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
    // Nothing tells of a vhart that was never on a hart.
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
    // Completing a source tells the host of the source.
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
fn the_call_for_an_injection_is_told_by_its_descriptor() {
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

#[test]
fn vcpus_are_told_by_the_slot_they_run_in() {
    let mut s = two_vcpus();
    s.step(HS, HartIpi { to: 1 }, 0);
    let section = s.done();
    assert_eq!(section.host_ipis, 1);
    let file = s.ledger.to_file(Default::default(), None);
    let told: Vec<_> = file
        .vcpus
        .iter()
        .map(|v| (v.context.as_str(), v.domain, v.vhart))
        .collect();
    assert_eq!(
        told,
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
