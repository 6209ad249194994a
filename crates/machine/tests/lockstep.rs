//! Engines side by side.

mod common;

use common::*;
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome};

const BOTH: Engine = Engine::Jit { hot: 0 };

/// A loop with traps and stores on two harts; ends after a while.
fn program() -> Asm {
    let mut a = Asm::new(RAM);
    a.li(T0, 0).li(T1, 3000).li(T2, RAM + 0x8000);
    let again = a.here();
    a.addi(T0, T0, 1).add(S0, T0, T0).sd(S0, T2, 0);
    a.csrr(S0, 0xC00);
    a.bne(T0, T1, again);
    a.power_off();
    a
}

/// Machines that run the program; `spoil` changes compiled ones before they start.
fn machine(spoil: fn(&mut Machine)) -> Machine {
    let build = move |engine| {
        let config = MachineConfig {
            engine,
            ..config("sstc", 2)
        };
        let mut machine = Machine::boot(config, &program().payload(), quiet())?;
        if engine == BOTH {
            spoil(&mut machine);
        }
        Ok(machine)
    };
    let mut machine = build(BOTH).unwrap();
    machine.accompany(Box::new(build)).unwrap();
    machine
}

/// Promise: engines that do the same run to the end.
#[test]
fn equal_engines_run_to_the_end() {
    let mut machine = machine(|_| {});
    assert_eq!(machine.run(&Limits::default()), Outcome::PoweredOff);
    assert_eq!(machine.divergence(), "");
}

/// Promise: if they do not, the block after which they first differ is named, with register and
/// values.
#[test]
fn first_differing_block_and_register_are_named() {
    let mut machine = machine(|machine| {
        let add = program().finish().chunks_exact(4).position(|word| {
            // addi t0, t0, 1
            word == 0x0012_8293_u32.to_le_bytes()
        });
        let at = RAM + 4 * add.expect("it is in the program") as u64;
        // addi t0, t0, 2
        assert_eq!(
            machine.write_physical(at, &0x0022_8293_u32.to_le_bytes()),
            4
        );
    });
    assert_eq!(machine.run(&Limits::default()), Outcome::Diverged);
    let text = machine.divergence();
    let register = |line: &str| {
        line.split_whitespace()
            .eq(["hart", "0", "t0", "0x2", "0x1"])
    };
    assert!(text.lines().any(register), "{text}");
    assert!(text.contains("after the block at 0x80000"), "{text}");
    assert!(text.contains("addi t0,t0,1"), "{text}");
}

/// Promise: memory is compared, too, and the store found.
#[test]
fn differing_memory_is_found() {
    let mut machine = machine(|machine| {
        machine.write_physical(RAM + 0x9000, &[1]);
    });
    assert_eq!(machine.run(&Limits::default()), Outcome::Diverged);
    let text = machine.divergence();
    assert!(text.contains("RAM at 0x80009000"), "{text}");
}

/// Promise: what happens once and never again is reported with what is known of it.
#[test]
fn passing_fault_is_reported() {
    let mut machine = machine(|_| {});
    let limits = Limits {
        until: 5000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::Limit);
    machine.hart_mut(1).set_x(18, 0xBAD);
    assert_eq!(machine.run(&Limits::default()), Outcome::Diverged);
    let text = machine.divergence();
    assert!(
        text.contains("hart 1 s2") && text.contains("0xbad"),
        "{text}"
    );
    assert!(text.contains("when the machines ran again"), "{text}");
}
