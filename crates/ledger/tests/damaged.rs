//! Promise: a ledger out of a checkpoint that was made up is refused, or counts on: no panic, and
//! no memory beyond what a ledger may have.

mod numbers;
mod script;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use script::{Script, V0, V1};
use trapless_isa::Mode::{HS, M, U, VS};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_isa::xtrapless::{kind, state};
use trapless_ledger::event::{Event, EventOrigin, Sink, StepKind, Switch, Trap};
use trapless_ledger::{Config, Ledger};

/// Ledgers that are tried.
const INPUTS: u64 = 4_000;
const UART: u64 = 0x1000_0000;
const WFI: u32 = 0x1050_0073;

/// An example of everything that a ledger records; it stops in the middle of most.
fn play(s: &mut Script) {
    let running = |s: &mut Script, hart, guest, vhart| {
        s.on(hart, guest).step(HS, StepKind::Attached { vhart }, 2);
        s.enter();
    };
    for task in [1, 2, 1] {
        s.on(0, V0);
        s.ledger.record(&Event::Switch(Switch {
            time: s.time,
            hart: 0,
            from: 0xff00,
            to: 0xff00 + task,
            satp: 0,
        }));
    }
    running(s, 0, V0, 1);
    s.timer(s.time + 25);
    s.irq(VS, M, interrupt::MTI).ret(M, VS);
    s.ecall(VS, HS, eid::IPI, 3, 0)
        .ecall(HS, M, eid::TIME, 0, 0);
    s.ret(M, HS).ioctl(7, 0x4004_ae86).ret(HS, U);
    s.ret(HS, VS).raise(interrupt::VSSI as u8);
    s.irq(VS, VS, interrupt::SSI);
    running(s, 1, V1, 2);
    let source = StepKind::PostSource {
        vhart: 1,
        source: 9,
        merged: false,
    };
    s.step(VS, source, 1);
    s.step_now(VS, StepKind::Hit { vhart: 1, on: 0 }, 1);
    let soft = StepKind::PostSoft {
        vhart: 2,
        merged: false,
    };
    s.step(VS, soft, 1);
    s.insn(HS, exception::VIRTUAL_INSTRUCTION, WFI);
    let state = state::HALTED as u8;
    s.step(HS, StepKind::Detached { vhart: 2, state }, 2);
    let notified = StepKind::Notified {
        vhart: 2,
        to: 0,
        kind: kind::WAKE as u8,
    };
    s.step(HS, soft, 1).step_now(HS, notified, 1);
    let by = EventOrigin::Doorbell;
    let posted = StepKind::EventPosted {
        request: 1,
        by,
        merged: false,
    };
    s.step(HS, posted, 1);
    s.step(HS, StepKind::EventQueued { to: 1, id: 4 }, 1);
    s.step(HS, StepKind::FileSelected { file: 2 }, 0);
    s.ret(HS, VS);
    let message = StepKind::Message {
        on: 1,
        file: 2,
        identity: 5,
        merged: false,
    };
    s.step(VS, message, 1);
    s.ledger.mark("workload", s.time);
    // A handler in user mode that was interrupted, and one that runs.
    s.on(0, V0).ret(VS, VS);
    for left in [true, false] {
        let trap = s.base(VS, U, exception::STORE_MMIO_PAGE);
        s.send(Trap { gpa: UART, ..trap });
        if left {
            s.irq(U, HS, interrupt::STI).ret(HS, VS);
        }
    }
    s.on(1, V1).irq(VS, M, interrupt::MEI);
}

/// All that others ask of a ledger.
fn ask(ledger: &mut Ledger) {
    for hart in 0..2 {
        ledger.loaded_on(hart).map(|index| ledger.vcpu(index));
    }
    for index in 0..ledger.vcpu_numbers().count() {
        ledger.vcpu(index);
    }
    if let Some(exit) = ledger.take_exit() {
        ledger.vcpu(exit.vcpu);
    }
    ledger.take_answered();
    ledger.phase();
    ledger.to_file(Default::default(), None).to_json();
}

fn sound() -> Ledger {
    let mut script = Script::new();
    play(&mut script);
    script.ledger
}

#[test]
fn a_ledger_that_was_made_up_is_refused_or_counts_on() {
    let bytes = postcard::to_stdvec(&sound()).unwrap();
    let config = Config::new(2);
    let mut found = [0; 3];
    for seed in 0..INPUTS {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut bytes = bytes.clone();
        numbers::damage(&mut bytes, &mut random);
        let Ok(ledger) = postcard::from_bytes::<Ledger>(&bytes) else {
            found[0] += 1;
            continue;
        };
        if ledger.check(&config).is_err() {
            found[1] += 1;
            continue;
        }
        found[2] += 1;
        let mut script = Script::new();
        script.ledger = ledger;
        let counted = catch_unwind(AssertUnwindSafe(|| {
            ask(&mut script.ledger);
            play(&mut script);
            ask(&mut script.ledger);
        }));
        assert!(counted.is_ok(), "{seed} panics");
    }
    println!("{found:?} of {INPUTS}: cannot be decoded, refused, counts on");
    assert!(found.iter().all(|&n| n > INPUTS / 100), "{found:?}");
}

#[test]
fn a_ledger_that_was_saved_is_not_refused() {
    let mut saved = sound();
    let bytes = postcard::to_stdvec(&saved).unwrap();
    let mut ledger: Ledger = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(ledger.check(&Config::new(2)), Ok(()));
    let file = |ledger: &mut Ledger| ledger.to_file(Default::default(), None).to_json();
    assert_eq!(file(&mut ledger), file(&mut saved));
    let other = Config::new(2).with_aia();
    for other in [Config::new(1), other] {
        assert_eq!(ledger.check(&other), Err("is of another machine"));
    }
}
