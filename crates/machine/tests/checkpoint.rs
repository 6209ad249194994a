//! Machines in files.

mod common;

use common::*;
use trapless_machine::checkpoint::{About, FORMAT};
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome};

const ENGINES: [Engine; 2] = [Engine::Jit { hot: 0 }, Engine::Interp];

/// Two or more harts that wait for timers and send each other interrupts while they count.
fn program() -> Asm {
    const MTIME: u64 = 0x200_bff8;
    const MTIMECMP: u64 = 0x200_4000;
    const MSIP: u64 = 0x200_0000;
    let mut a = Asm::new(RAM);
    let (start, handler, ipi, back) = (a.label(), a.label(), a.label(), a.label());
    a.j(start);
    a.bind(handler);
    // Timers are set again, 3 ticks later; each sends an interrupt to the other hart.
    a.csrr(T0, MCAUSE).slli(T0, T0, 1).addi(T1, ZERO, 14);
    a.bne(T0, T1, ipi);
    a.li(T0, MTIME).ld(T0, T0, 0).addi(T0, T0, 3);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 3)
        .li(T2, MTIMECMP)
        .add(T2, T2, T1)
        .sd(T0, T2, 0);
    a.csrr(T1, MHARTID)
        .addi(T1, T1, 1)
        .slli(T1, T1, 63)
        .srli(T1, T1, 61);
    a.li(T2, MSIP).add(T2, T2, T1);
    a.addi(T0, ZERO, 1).sw(T0, T2, 0);
    a.j(back);
    a.bind(ipi);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 2)
        .li(T2, MSIP)
        .add(T2, T2, T1)
        .sw(ZERO, T2, 0);
    a.bind(back);
    a.addi(S0, S0, 1);
    a.w(trapless_asm::MRET);
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    a.csrr(T1, MHARTID)
        .slli(T1, T1, 3)
        .li(T2, MTIMECMP)
        .add(T2, T2, T1);
    a.li(T0, 10).sd(T0, T2, 0);
    a.li(T0, 1 << 7 | 1 << 3).csrw(MIE, T0);
    a.li(T0, 8).csrs(MSTATUS, T0);
    let (wait, done) = (a.here(), a.label());
    a.wfi().srli(A0, S0, 7).bne(A0, ZERO, done).j(wait);
    a.bind(done);
    a.power_off();
    a
}

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
    running(&program(), engine)
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
    goes_on(&program());
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
        let mut other = Machine::boot(config, &program().payload(), quiet()).unwrap();
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
    let format = format!("has format {}", FORMAT + 1);
    assert!(error.contains(&format), "{error}");
    let mut cut = &file[..file.len() - 1];
    let error = same.restore(&mut cut).unwrap_err().to_string();
    assert!(error.contains("it is cut off"), "{error}");
}

/// Promise: a machine whose state is not all in it is refused, with the option that is the reason.
#[test]
fn machine_with_a_network_outside_is_not_saved() {
    let mut peripherals = trapless_machine::Peripherals::new(Box::new(std::io::sink()));
    let cable = peripherals.plug_cable(Box::new(|_| {}), [2; 6], Box::new(()));
    cable.unwrap();
    let machine = Machine::boot(config("sbi", 1), &program().payload(), peripherals).unwrap();
    let saved = machine.save(&mut Vec::new(), About::default(), &[]);
    let error = saved.unwrap_err().to_string();
    assert!(error.contains("--net user"), "{error}");
}
