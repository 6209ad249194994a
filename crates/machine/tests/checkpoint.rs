//! Machines in files.

mod common;

use common::*;
use trapless_hart::{Hart, Observer, Tiers};
use trapless_isa::inst::Inst;
use trapless_machine::checkpoint::{About, Base, FORMAT};
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome, Transport};

const ENGINES: [Engine; 2] = [Engine::Jit(Tiers::EAGER), Engine::Interp];

/// A hart that writes a function many times before it calls it, and then changes it before each
/// call.
fn code_writer() -> Asm {
    use trapless_asm::{FENCE_I, addi, jalr};
    let words = [addi(A0, A0, 1), addi(A0, A0, 2), jalr(ZERO, RA, 0)].map(u64::from);
    let mut a = Asm::new(RAM);
    a.li(S1, DATA).li(T1, words[2]).sw(T1, S1, 4);
    a.li(T0, words[0]).li(T2, words[1]).li(A1, 300);
    let fill = a.here();
    a.sw(T0, S1, 0).addi(A1, A1, -1).bne(A1, ZERO, fill);
    a.w(FENCE_I);
    a.li(A1, 200);
    let call = a.here();
    for word in [T0, T2] {
        a.sw(word, S1, 0);
        a.w(FENCE_I);
        a.w(jalr(RA, S1, 0));
    }
    a.addi(A1, A1, -1).bne(A1, ZERO, call);
    a.power_off();
    a
}

/// A hart that calls functions in two pages which share a slot of its TLB, by turns.
fn neighbours_in_the_tlb() -> Asm {
    use trapless_asm::{FENCE_I, jalr};
    let mut a = Asm::new(RAM);
    a.li(S1, DATA).li(T1, DATA + (4096 << 12)).li(A1, 300);
    a.li(T0, u64::from(jalr(ZERO, RA, 0)));
    for function in [S1, T1] {
        a.sw(T0, function, 0);
    }
    a.w(FENCE_I);
    let call = a.here();
    for function in [S1, T1, S1] {
        a.w(jalr(RA, function, 0));
    }
    a.addi(A1, A1, -1).bne(A1, ZERO, call);
    a.power_off();
    a
}

fn machine(engine: Engine) -> Machine {
    running(&timers_and_ipis(), engine)
}

fn running(program: &Asm, engine: Engine) -> Machine {
    let config = MachineConfig {
        engine,
        ..config("sstc", 2)
    };
    Machine::boot(config, &program.payload(), quiet()).unwrap()
}

fn run_until(machine: &mut Machine, until: u64) -> Outcome {
    let instret = 10_000_000;
    machine.run(&Limits { until, instret })
}

fn saved(machine: &Machine) -> Vec<u8> {
    let mut file = Vec::new();
    machine.save(&mut file, About::default(), b"more").unwrap();
    file
}

/// A file without its header, which names the engine.
fn state(file: &[u8]) -> &[u8] {
    let length: [u8; 4] = file[20..24].try_into().unwrap();
    &file[28 + u32::from_le_bytes(length) as usize..]
}

/// Promise: a machine out of a checkpoint, whenever it was made, with either engine, ends as one
/// that never stopped.
#[test]
fn a_machine_continues_out_of_a_checkpoint() {
    same_after_checkpoints(&timers_and_ipis());
}

/// Promise: it does not execute code that has been changed since, whatever was written before.
#[test]
fn code_that_changes_after_a_checkpoint_is_seen() {
    let mut end = same_after_checkpoints(&code_writer());
    assert_eq!(end.hart_mut(0).x(A0 as usize), 200 * 3);
}

/// Promise: nor does it matter which engine found what its TLB holds.
#[test]
fn either_engine_leaves_the_same_tlb() {
    same_after_checkpoints(&neighbours_in_the_tlb());
}

fn same_after_checkpoints(program: &Asm) -> Machine {
    let mut whole = running(program, ENGINES[0]);
    assert_eq!(run_until(&mut whole, u64::MAX), Outcome::PoweredOff);
    let end = (whole.now(), whole.instret(), whole.state_hash());
    for instant in 0..50 {
        let at = whole.now() * instant / 50;
        let engine = ENGINES[instant as usize % 2];
        let other = ENGINES[(instant as usize + 1) % 2];
        let mut first = running(program, engine);
        run_until(&mut first, at);
        let file = saved(&first);
        // What a machine did before it takes over does not matter.
        let mut used = running(program, other);
        run_until(&mut used, whole.now() - at);
        let mut fresh = running(program, other);
        for machine in [&mut used, &mut fresh] {
            assert_eq!(machine.restore(&mut &file[..]).unwrap(), b"more");
            assert_eq!(machine.state_hash(), first.state_hash(), "at {at}");
        }
        // Equal states have equal bytes, whoever reached them, and how.
        let mut by_other = running(program, other);
        run_until(&mut by_other, at);
        for machine in [&used, &fresh, &by_other] {
            assert!(state(&saved(machine)) == state(&file), "at {at}");
        }
        // Nor what it has compiled since, if it goes back.
        let mut back = running(program, engine);
        run_until(&mut back, at);
        run_until(&mut back, u64::MAX);
        assert_eq!(back.go_back(&file).unwrap(), b"more");
        assert_eq!(back.state_hash(), first.state_hash(), "back at {at}");
        let mut often = running(program, engine);
        run_until(&mut often, at);
        let moment = often.moment();
        for cycles in [1_000, 20_000, u64::MAX] {
            let until = often.now().saturating_add(cycles);
            run_until(&mut often, until);
            assert!(often.return_to(&moment).unwrap());
            assert!(state(&saved(&often)) == state(&file), "often at {at}");
        }
        for machine in [&mut first, &mut used, &mut fresh, &mut back, &mut often] {
            assert_eq!(run_until(machine, u64::MAX), Outcome::PoweredOff);
            let reached = (machine.now(), machine.instret(), machine.state_hash());
            assert_eq!(reached, end, "at {at}, {engine:?} then {other:?}");
        }
    }
    whole
}

/// Stops once, after so many instructions.
struct StopAfter(u64);

impl Observer for StopAfter {
    fn before(&mut self, _: &Hart, _: u64, _: &Inst) -> bool {
        self.0 = self.0.wrapping_sub(1);
        self.0 != 0
    }
}

/// Promise: a machine goes back to any instruction, time and again, and on from there as one that
/// never did.
#[test]
fn a_machine_returns_to_an_instruction() {
    for engine in ENGINES {
        let mut whole = running(&code_writer(), engine);
        run_until(&mut whole, u64::MAX);
        let end = (whole.now(), whole.instret(), whole.state_hash());
        let mut machine = running(&code_writer(), engine);
        for instructions in 1..60 {
            let limits = Limits::default();
            let stopped = machine.run_observed(&limits, Some(&mut StopAfter(instructions)));
            assert!(matches!(stopped, Outcome::Observer(_)), "{stopped:?}");
            let (moment, here) = (machine.moment(), saved(&machine));
            for _ in 0..2 {
                assert_eq!(run_until(&mut machine, u64::MAX), Outcome::PoweredOff);
                let reached = (machine.now(), machine.instret(), machine.state_hash());
                assert_eq!(reached, end, "{engine:?}");
                assert!(machine.return_to(&moment).unwrap());
                assert!(saved(&machine) == here, "{engine:?}");
            }
        }
    }
}

/// Promise: machines that have changed in the same way since a moment end in the same way, and one
/// that has changed in any other is distinguished.
#[test]
fn equal_changes_have_equal_ends() {
    let start = || Machine::boot(config("sstc", 2), &timers_and_ipis().payload(), quiet()).unwrap();
    let mut whole = start();
    run_until(&mut whole, u64::MAX);
    let end = (whole.now(), whole.instret());
    let mut machine = start();
    let mut met = 0;
    for instructions in 1..40 {
        let limits = Limits::default();
        let stopped = machine.run_observed(&limits, Some(&mut StopAfter(instructions * 7)));
        let Outcome::Observer(hart) = stopped else {
            panic!("{stopped:?}")
        };
        let moment = machine.moment();
        let until = machine.now() + 20_000;
        run_until(&mut machine, until);
        let undisturbed = machine.change_since(&moment).unwrap();
        assert!(machine.return_to(&moment).unwrap());

        run_until(&mut machine, until);
        assert!(machine.change_since(&moment).unwrap() == undisturbed);
        let (word, place) = (machine.ram().load(DATA + 4096, 8).unwrap(), DATA + 4096);
        for (value, same) in [(!word, false), (word, true)] {
            machine.ram().store(place, 8, value).unwrap();
            assert_eq!(machine.change_since(&moment).unwrap() == undisturbed, same);
        }
        assert!(machine.return_to(&moment).unwrap());

        // The other hart first.
        machine.postpone(hart);
        run_until(&mut machine, until);
        if machine.change_since(&moment).unwrap() == undisturbed {
            met += 1;
            run_until(&mut machine, u64::MAX);
            assert_eq!((machine.now(), machine.instret()), end);
        }
        assert!(machine.return_to(&moment).unwrap());
    }
    assert!(met > 0);
    let moment = machine.moment();
    machine.ram().written_by_device();
    assert!(machine.change_since(&moment).is_none());
}

/// Promise: a checkpoint of another machine is refused, and the message says what differs.
#[test]
fn checkpoints_of_other_machines_are_refused() {
    let file = saved(&machine(ENGINES[0]));
    let mut slower = config("sstc", 2);
    slower.quantum = 500;
    for (config, what) in [
        (config("sstc", 3), "its harts is 2, not 3"),
        (config("aia", 2), "its interrupts is"),
        (slower, "its quantum is 1000, not 500"),
    ] {
        let mut other = Machine::boot(config, &timers_and_ipis().payload(), quiet()).unwrap();
        let error = other.restore(&mut &file[..]).unwrap_err().to_string();
        assert!(
            error.contains("another machine") && error.contains(what),
            "{error}"
        );
    }
    let mut same = machine(ENGINES[0]);
    for wrong in [&b""[..], b"#!/bin/sh\n echo not a checkpoint\n"] {
        let error = same.restore(&mut &wrong[..]).unwrap_err().to_string();
        assert!(error.contains("this is not a checkpoint"), "{error}");
    }
    let mut newer = file.clone();
    newer[16] += 1;
    let error = same.restore(&mut &newer[..]).unwrap_err().to_string();
    let format = format!("has format {}", FORMAT + 1);
    assert!(error.contains(&format), "{error}");
    let mut cut = &file[..file.len() - 1];
    let error = same.restore(&mut cut).unwrap_err().to_string();
    assert!(error.contains("it is cut off"), "{error}");
}

/// Promise: pages that two checkpoints have in common are stored once, and a checkpoint whose pages
/// are elsewhere is refused without them, with those of another file, and if they are damaged.
#[test]
fn checkpoints_share_pages() {
    let mut first = machine(ENGINES[0]);
    let last = first.ram().base() + first.ram().size() - 4096;
    for (at, value) in (last - 20 * 4096..last).step_by(8).zip(1..) {
        first.ram().store(at, 8, value % 5000).unwrap();
    }
    let shared = saved(&first);
    let base = |file: &[u8]| Base::open("pages".into(), Box::new(file.to_vec()));
    run_until(&mut first, 2000);
    let mut file = Vec::new();
    let pages = base(&shared).unwrap();
    let about = About::default();
    first
        .save_beside(&mut file, about, b"", Some(&pages))
        .unwrap();
    assert!(file.len() + 10 * 4096 < shared.len());
    let mut second = machine(ENGINES[1]);
    second.restore_from(&file, Some(&pages)).unwrap();
    assert_eq!(second.state_hash(), first.state_hash());

    let mut damaged = shared.clone();
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    let damaged = base(&damaged).unwrap();
    assert!(pages.check().is_ok() && damaged.check().is_err());
    first.ram().store(last, 8, 1).unwrap();
    let other = base(&saved(&first)).unwrap();
    for (wrong, what) in [
        (None, "that is not there"),
        (Some(&other), "with another file"),
        (Some(&damaged), "checksum of its memory"),
    ] {
        let error = second.restore_from(&file, wrong).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    assert!(base(&file).is_err(), "it shares pages itself");
}

/// Promise: a machine with a network outside is saved and continues, as if its cable had been
/// pulled and put in again; it cannot go back, and says which option is the reason.
#[test]
fn machine_with_a_network_outside_is_saved_but_cannot_go_back() {
    let connected = || {
        let mut peripherals = trapless_machine::Peripherals::new(Box::new(std::io::sink()));
        let cable = peripherals.plug_cable(
            Transport::Mmio,
            Some(Box::new(|_| {})),
            [2; 6],
            Box::new(()),
        );
        cable.unwrap();
        Machine::boot(config("sbi", 1), &timers_and_ipis().payload(), peripherals).unwrap()
    };
    let mut first = connected();
    let obstacle = first.obstacle().unwrap();
    assert!(obstacle.contains("--net user"), "{obstacle}");
    run_until(&mut first, 20_000);
    let file = saved(&first);
    let mut second = connected();
    second.restore(&mut &file[..]).unwrap();
    let [one, other] = [first, second].map(|mut machine| {
        assert_eq!(run_until(&mut machine, u64::MAX), Outcome::PoweredOff);
        (machine.now(), machine.instret(), machine.state_hash())
    });
    assert_eq!(one, other);
}
