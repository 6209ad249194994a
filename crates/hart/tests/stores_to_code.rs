//! Programs that change themselves without `fence.i`, as QEMU lets them.

mod common;

use common::Nothing;
use trapless_asm::reg::{A0, RA, S0, S1, T0, T1, T2, ZERO};
use trapless_asm::{Asm, addi, r};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};
use vm_memory::{GuestAddress, GuestMemoryBackend};

const RAM: u64 = 0x8000_0000;
/// `addi a0, a0, N` and `ret`, of which N changes.
const SAME_PAGE: u64 = RAM + 0x800;
const OTHER_PAGE: u64 = RAM + 0x2000;
const ROUNDS: i32 = 200;

#[derive(Clone, Copy, Debug)]
enum By {
    Store,
    Atomic,
}

/// Adds 0, 1, ... `ROUNDS` - 1 to a0 by calls of a function that is changed before each, then spins
/// with s1 set.
fn program(ram: &Ram, function: u64, by: By) {
    let mut a = Asm::new(RAM);
    a.li(S0, function).li(T2, ROUNDS as u64);
    a.li(T0, addi(A0, A0, 0).into());
    let again = a.here();
    match by {
        By::Store => a.sw(T0, S0, 0),
        // amoswap.w zero, t0, (s0)
        By::Atomic => a.word(r(0x2F, 2, 0b000_0100, ZERO, S0, T0)),
    };
    a.w(trapless_asm::jalr(RA, S0, 0));
    a.li(T1, 1 << 20);
    a.w(r(0x33, 0, 0, T0, T0, T1)); // add t0, t0, t1
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    a.addi(S1, ZERO, 1);
    let forever = a.here();
    a.j(forever);
    for (i, &byte) in a.finish().iter().enumerate() {
        ram.store(RAM + i as u64, 1, byte.into()).expect("in RAM");
    }
    ram.store(function, 4, addi(A0, A0, 0).into())
        .expect("in RAM");
    ram.store(function + 4, 4, 0x0000_8067).expect("in RAM");
}

fn hart(id: usize, ram: &Ram) -> Hart {
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    Hart::new(id, config, ram.clone())
}

fn code(ram: &Ram, compiled: bool) -> CodeCache {
    let config = HartConfig::default();
    let mut code = CodeCache::new(ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    code
}

/// Promise: a hart executes what it has stored, with either engine, at the same virtual time.
#[test]
fn a_hart_executes_what_it_stored() {
    for function in [SAME_PAGE, OTHER_PAGE] {
        for by in [By::Store, By::Atomic] {
            let ends = [false, true].map(|compiled| {
                let ram = Ram::new(RAM, 1 << 20).expect("RAM");
                program(&ram, function, by);
                let (mut code, mut hart) = (code(&ram, compiled), hart(0, &ram));
                let mut until = 0;
                while hart.x(S1 as usize) == 0 {
                    until += 1_000;
                    assert!(until < 1_000_000, "the program does not come to its end");
                    hart.run(&mut code, &mut Nothing, until, None);
                }
                let sum = (ROUNDS * (ROUNDS - 1) / 2) as u64;
                assert_eq!(
                    hart.x(A0 as usize),
                    sum,
                    "{function:#x} {by:?} compiled={compiled}"
                );
                (hart.now(), hart.instret())
            });
            assert_eq!(ends[0], ends[1]);
        }
    }
}

/// Promise: so does another hart, from its next turn on.
#[test]
fn another_hart_executes_what_one_stored() {
    for compiled in [false, true] {
        let ram = Ram::new(RAM, 1 << 20).expect("RAM");
        program(&ram, OTHER_PAGE, By::Store);
        let mut code = code(&ram, compiled);
        let (mut writer, mut reader) = (hart(0, &ram), hart(1, &ram));
        let spin = OTHER_PAGE + 8;
        let call = |hart: &mut Hart, code: &mut CodeCache| {
            let before = hart.x(A0 as usize);
            hart.set_pc(OTHER_PAGE);
            hart.set_x(RA as usize, spin);
            let until = hart.now() + 100;
            hart.run(code, &mut Nothing, until, None);
            assert_eq!(hart.pc(), spin);
            hart.x(A0 as usize) - before
        };
        ram.store(spin, 4, 0x0000_006F).expect("in RAM");
        for _ in 0..4 {
            call(&mut reader, &mut code);
        }
        assert_eq!(call(&mut reader, &mut code), 0);
        while writer.x(S1 as usize) == 0 {
            let until = writer.now() + 1_000;
            writer.run(&mut code, &mut Nothing, until, None);
        }
        assert_eq!(
            call(&mut reader, &mut code),
            ROUNDS as u64 - 1,
            "compiled={compiled}"
        );
    }
}

/// Promise: a hart that goes on in a loop from turn to turn executes what a device has written
/// there, once another hart has executed `fence.i`.
#[test]
fn a_loop_that_goes_on_is_what_a_device_wrote() {
    for compiled in [false, true] {
        let ram = Ram::new(RAM, 1 << 20).expect("RAM");
        // fence.i; j .
        ram.store(RAM, 8, 0x0000_006F_0000_100F).expect("in RAM");
        // addi a0, a0, 1; j -4
        ram.store(OTHER_PAGE, 4, addi(A0, A0, 1).into())
            .expect("in RAM");
        ram.store(OTHER_PAGE + 4, 4, 0xFFDF_F06F).expect("in RAM");
        let mut code = code(&ram, compiled);
        let (mut fencer, mut reader) = (hart(0, &ram), hart(1, &ram));
        reader.set_pc(OTHER_PAGE);
        let turn = |hart: &mut Hart, code: &mut CodeCache| {
            let (before, until) = (hart.x(A0 as usize), hart.now() + 100);
            hart.run(code, &mut Nothing, until, None);
            hart.x(A0 as usize) - before
        };
        let adds = [(); 4].map(|()| turn(&mut reader, &mut code));
        assert_eq!(adds, [50; 4]);
        let memory = ram.guest_memory().get_slice(GuestAddress(OTHER_PAGE), 4);
        let memory = memory.expect("in RAM");
        memory.copy_from(&addi(A0, A0, 2).to_le_bytes());
        ram.written_by_device();
        turn(&mut fencer, &mut code);
        assert_eq!(turn(&mut reader, &mut code), 100, "compiled={compiled}");
    }
}
