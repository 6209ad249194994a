//! Engines side by side.

mod common;

use common::*;
use trapless_hart::Tiers;
use trapless_isa::Mode;
use trapless_ledger::event::{Event, Sink};
use trapless_machine::{Engine, Limits, Machine, MachineConfig, Outcome, Shared};

const BOTH: Engine = Engine::Jit(Tiers::EAGER);

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

/// HS-mode enters a guest that enables interrupts and disables them again, and that M-mode takes
/// away from it, a thousand times.
fn guest_that_firmware_leaves() -> Asm {
    const SSTATUS: u16 = 0x100;
    const SEPC: u16 = 0x141;
    const HSTATUS: u16 = 0x600;
    let mut a = Asm::new(RAM);
    let (start, firmware) = (a.label(), a.label());
    a.j(start);
    a.bind(firmware);
    a.addi(S0, S0, 1);
    let end = a.label();
    a.li(T0, 1000).beq(S0, T0, end);
    a.bind(start);
    let (to_firmware, to_host) = (a.address(firmware), RAM + 0x100);
    a.li(T0, to_firmware).csrw(MTVEC, T0);
    // All of memory for everybody.
    a.li(T0, u64::MAX >> 10)
        .csrw(0x3B0, T0)
        .li(T0, 0x1F)
        .csrw(0x3A0, T0);
    // MPP = S, MPV = 0
    a.li(T0, 0x80_0000_1800)
        .word(trapless_asm::csrc(MSTATUS, T0));
    a.li(T0, 0x800).csrs(MSTATUS, T0);
    a.li(T0, to_host).csrw(MEPC, T0).mret();
    a.bind(end);
    a.power_off();
    while a.pc() < to_host {
        a.h(1); // c.nop
    }
    // SPV and SPP
    a.li(T0, 0x80)
        .csrs(HSTATUS, T0)
        .li(T0, 0x100)
        .csrs(SSTATUS, T0);
    a.li(T0, to_host + 0x100).csrw(SEPC, T0).word(0x1020_0073); // sret
    while a.pc() < to_host + 0x100 {
        a.h(1);
    }
    a.word(0x1001_6073).word(0x1001_7073); // csrsi sstatus, SIE; csrci sstatus, SIE
    a.word(0x0000_0073); // ecall
    a
}

/// What HS-mode says of its interrupts when it enters a guest.
#[derive(Default)]
struct Entries(Vec<bool>);

impl Sink for Entries {
    fn record(&mut self, event: &Event) {
        match event {
            Event::Return(r) if r.from == Mode::HS && r.to.v() => self.0.push(r.masked),
            _ => {}
        }
    }
}

/// Promise: what a guest does with its own interrupts is not taken for the host's, whichever engine
/// runs it and whoever takes it off the hart.
#[test]
fn interrupts_of_a_guest_are_not_those_of_its_host() {
    let program = guest_that_firmware_leaves();
    let build = move |engine| {
        let config = MachineConfig {
            engine,
            ..config("sstc", 1)
        };
        Machine::boot(config, &program.payload(), quiet())
    };
    let mut machine = build(BOTH).unwrap();
    let entries = Shared::new(Entries::default());
    machine.add_sink(Box::new(entries.clone()));
    machine.accompany(Box::new(build)).unwrap();
    assert_eq!(machine.run(&Limits::default()), Outcome::PoweredOff);
    assert_eq!(machine.divergence(), "");
    let entries = &entries.lock().0;
    assert_eq!(entries.len(), 1000);
    assert!(entries.iter().all(|masked| *masked));
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
