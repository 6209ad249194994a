//! Machines in files.

mod common;

use common::*;
use trapless_machine::checkpoint::About;
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome};

const ENGINES: [Engine; 2] = [Engine::Jit { hot: 0 }, Engine::Interp];

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

/// Promise: a machine out of a checkpoint, whenever it was made, with either engine, ends as one
/// that never stopped.
#[test]
fn a_machine_goes_on_out_of_a_checkpoint() {
    goes_on(&timers_and_ipis());
}

/// Promise: it does not execute code that has been changed since, whatever was written before.
#[test]
fn code_that_changes_after_a_checkpoint_is_seen() {
    let mut end = goes_on(&code_writer());
    assert_eq!(end.hart_mut(0).x(A0 as usize), 200 * 3);
}

fn goes_on(program: &Asm) -> Machine {
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
        for machine in [&mut first, &mut used, &mut fresh] {
            assert_eq!(run_until(machine, u64::MAX), Outcome::PoweredOff);
            let reached = (machine.now(), machine.instret(), machine.state_hash());
            assert_eq!(reached, end, "at {at}, {engine:?} then {other:?}");
        }
    }
    whole
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
        assert!(error.contains("this is no checkpoint"), "{error}");
    }
    let mut newer = file.clone();
    newer[16] += 1;
    let error = same.restore(&mut &newer[..]).unwrap_err().to_string();
    assert!(error.contains("has format 3"), "{error}");
    let mut cut = &file[..file.len() - 1];
    let error = same.restore(&mut cut).unwrap_err().to_string();
    assert!(error.contains("it is cut off"), "{error}");
}
