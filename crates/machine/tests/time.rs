//! Timers, waiting and determinism of whole machines.

mod common;

use common::*;
use trapless_ledger::event::{Event, Sink};
use trapless_machine::{Input, Limits, Machine, Outcome, Shared};

const MTIME: u64 = 0x200_bff8;
const MTIMECMP: u64 = 0x200_4000;

fn run(machine: &mut Machine) -> Outcome {
    machine.run(&Limits {
        instret: 20_000_000,
        ..Limits::default()
    })
}

fn data(machine: &Machine, index: u64) -> u64 {
    machine.ram().load(DATA + 8 * index, 8).unwrap()
}

/// Waits for `mtime` = 5000 and stores cause and time of the interrupt.
fn timer_program() -> Asm {
    let mut a = Asm::new(RAM);
    let (start, handler) = (a.label(), a.label());
    a.j(start);
    a.bind(handler);
    a.csrr(T0, MCAUSE).li(T1, DATA).sd(T0, T1, 0);
    a.li(T0, MTIME).ld(T0, T0, 0).sd(T0, T1, 8);
    a.power_off();
    a.bind(start);
    let vector = a.address(handler);
    a.li(T0, vector).csrw(MTVEC, T0);
    a.li(T0, MTIMECMP).li(T1, 5000).sd(T1, T0, 0);
    a.li(T0, 1 << 7).csrw(MIE, T0);
    a.li(T0, 8).csrs(MSTATUS, T0);
    let wait = a.here();
    a.wfi().j(wait);
    a
}

#[test]
fn timer_wakes_a_waiting_hart_exactly_and_waiting_costs_nothing() {
    let mut machine = Machine::boot(config("sbi", 1), &timer_program().payload(), quiet()).unwrap();
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(data(&machine, 0), 1 << 63 | 7);
    assert!(
        (5000..5005).contains(&data(&machine, 1)),
        "woke at {}",
        data(&machine, 1)
    );
    assert!(
        machine.instret() < 200,
        "{} instructions",
        machine.instret()
    );
}

#[test]
fn run_in_pieces_is_the_same_run() {
    let run_with = |piece: u64| {
        let mut machine = Machine::boot(config("sbi", 2), &counters(2).payload(), quiet()).unwrap();
        loop {
            let limits = Limits {
                until: machine.now().saturating_add(piece),
                ..Limits::default()
            };
            match machine.run(&limits) {
                Outcome::Limit => {}
                end => break assert_eq!(end, Outcome::PoweredOff),
            }
        }
        machine.state_hash()
    };
    assert_eq!(run_with(u64::MAX), run_with(1));
    assert_eq!(run_with(u64::MAX), run_with(3333));
}

#[test]
fn quantum_does_not_change_what_race_free_programs_compute() {
    let program = counters(4).payload();
    let run_with = |quantum: u64| {
        let mut config = config("sbi", 4);
        config.quantum = quantum;
        let mut machine = Machine::boot(config, &program, quiet()).unwrap();
        assert_eq!(run(&mut machine), Outcome::PoweredOff);
        let mut ram = vec![0; 0x1000];
        machine.read_physical(DATA, &mut ram);
        (ram, machine.state_hash())
    };
    let (ram, hash) = run_with(1000);
    assert_eq!(ram[0..8], (500 * (1 + 2 + 3 + 4u64)).to_le_bytes());
    assert_eq!(
        run_with(1000),
        (ram.clone(), hash),
        "same configuration, same state"
    );
    assert_eq!(run_with(37).0, ram);
    assert_eq!(run_with(1_000_000).0, ram);
}

/// Hart 0 and hart 1 interrupt each other in turn, `rounds` times. Each stores `mcycle` when it
/// sends (even words from its own 64 KiB) and when it receives (odd words).
fn ping_pong(rounds: u64) -> Asm {
    const MSIP: u64 = 0x200_0000;
    const MIP: u16 = 0x344;
    let mut a = Asm::new(RAM);
    let (hart1, again1, end) = (a.label(), a.label(), a.label());
    a.li(S0, rounds)
        .csrr(A0, MHARTID)
        .li(S1, DATA)
        .slli(T0, A0, 16)
        .add(S1, S1, T0);
    a.addi(T0, ZERO, 8).csrw(MIE, T0);
    let send = |a: &mut Asm, to: u64| {
        a.li(T0, MSIP + 4 * to)
            .addi(T1, ZERO, 1)
            .csrr(T2, MCYCLE)
            .sd(T2, S1, 0)
            .sw(T1, T0, 0);
    };
    let receive = |a: &mut Asm, own: u64| {
        let wait = a.here();
        a.wfi().csrr(T0, MIP).andi(T0, T0, 8).beq(T0, ZERO, wait);
        a.csrr(T2, MCYCLE).sd(T2, S1, 8).addi(S1, S1, 16);
        a.li(T0, MSIP + 4 * own).sw(ZERO, T0, 0).addi(S0, S0, -1);
    };
    a.bne(A0, ZERO, hart1);
    let again0 = a.here();
    send(&mut a, 1);
    receive(&mut a, 0);
    a.bne(S0, ZERO, again0);
    a.power_off();
    a.bind(hart1);
    a.bind(again1);
    receive(&mut a, 1);
    send(&mut a, 0);
    a.bne(S0, ZERO, again1);
    a.bind(end);
    a.wfi().j(end);
    a
}

#[test]
fn interrupts_between_harts_arrive_after_they_were_sent_and_soon() {
    const ROUNDS: u64 = 50;
    for quantum in [100, 1000, 50_000] {
        let mut config = config("sbi", 2);
        config.quantum = quantum;
        let mut machine = Machine::boot(config, &ping_pong(ROUNDS).payload(), quiet()).unwrap();
        assert_eq!(run(&mut machine), Outcome::PoweredOff);
        let word = |hart: u64, index: u64| {
            machine
                .ram()
                .load(DATA + 0x1_0000 * hart + 8 * index, 8)
                .unwrap()
        };
        // Send, device access, wake-up and two CSR reads take less than this under the default
        // cost model, whatever the quantum is: a waiting hart wakes at the time of the sender.
        const SOON: u64 = 200;
        for round in 0..ROUNDS {
            let there = word(1, 2 * round + 1).checked_sub(word(0, 2 * round));
            let back = word(0, 2 * round + 1).checked_sub(word(1, 2 * round + 2));
            assert!(
                there.is_some_and(|d| (1..SOON).contains(&d)),
                "{quantum} {round}: {there:?}"
            );
            assert!(
                back.is_some_and(|d| (1..SOON).contains(&d)),
                "{quantum} {round}: {back:?}"
            );
        }
    }
}

#[test]
fn machine_without_anything_to_wait_for_is_idle() {
    let mut a = Asm::new(RAM);
    let forever = a.here();
    a.wfi().j(forever);
    let mut machine = Machine::boot(config("sstc", 3), &a.payload(), quiet()).unwrap();
    assert_eq!(run(&mut machine), Outcome::Idle);
    assert_eq!(run(&mut machine), Outcome::Idle);
}

const UART: u64 = 0x1000_0000;

/// After `a`, waits for the UART through the PLIC (M-mode context of hart 0), echoes each byte, and
/// powers off after `q`.
fn echo(mut a: Asm) -> Asm {
    const PLIC: u64 = 0xc00_0000;
    a.addi(T1, ZERO, 1);
    a.li(T0, PLIC + 4 * 10).sw(T1, T0, 0);
    a.li(T0, UART).sb(T1, T0, 1);
    a.li(T0, PLIC + 0x2000).li(T1, 1 << 10).sw(T1, T0, 0);
    a.li(T0, 1 << 11).csrw(MIE, T0);
    a.li(S0, PLIC + 0x20_0004).li(S1, UART);
    let (wait, next, off) = (a.here(), a.label(), a.label());
    a.wfi().lw(A0, S0, 0).beq(A0, ZERO, wait);
    a.bind(next);
    a.lbu(T0, S1, 0)
        .sb(T0, S1, 0)
        .addi(T1, T0, -(b'q' as i32))
        .beq(T1, ZERO, off);
    a.lbu(T0, S1, 5).andi(T0, T0, 1).bne(T0, ZERO, next);
    a.sw(A0, S0, 0).j(wait);
    a.bind(off);
    a.power_off();
    a
}

#[test]
fn console_input_arrives_at_its_time() {
    let output = Output::default();
    let peripherals = trapless_machine::Peripherals::new(Box::new(output.clone()));
    let mut machine = Machine::boot(
        config("sbi", 1),
        &echo(Asm::new(RAM)).payload(),
        peripherals,
    )
    .unwrap();
    assert_eq!(run(&mut machine), Outcome::Idle);
    machine.input(7_000_000, b"later ");
    machine.input(3_000_000, b"first ");
    assert_eq!(run(&mut machine), Outcome::Idle);
    assert_eq!(output.text(), "first later ");
    assert!(
        (7_000_000..7_020_000).contains(&machine.now()),
        "{}",
        machine.now()
    );
    // More than the UART's FIFO holds: the rest follows as the guest reads.
    machine.input(0, &[b'x'; 1000]);
    machine.input(0, b"q");
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(output.text(), format!("first later {}q", "x".repeat(1000)));
}

/// Promise: idle time does not jump over a tick, so that who waits for an answer from outside can
/// look for it; a frame for a machine without a cable is nothing.
#[test]
fn idle_time_stops_at_a_tick() {
    let peripherals = trapless_machine::Peripherals::new(Box::new(std::io::sink()));
    let program = echo(Asm::new(RAM)).payload();
    let mut machine = Machine::boot(config("sbi", 1), &program, peripherals).unwrap();
    assert_eq!(run(&mut machine), Outcome::Idle);
    machine.bring(5_000_000, Input::Tick);
    machine.bring(6_000_000, Input::Frame(vec![0; 60]));
    let limits = Limits {
        until: 5_000_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::Limit);
    assert_eq!(machine.now(), 5_000_000);
    assert_eq!(run(&mut machine), Outcome::Idle);
    assert!(machine.now() >= 6_000_000);
}

/// Promise: what is typed before a driver is ready reaches it. As Linux's driver of the 8250 does,
/// this one empties the receiver, reads it, enables its interrupt, and then switches the FIFO on,
/// which empties it again.
#[test]
fn console_input_waits_for_a_driver() {
    let mut a = Asm::new(RAM);
    a.li(T0, UART).li(T1, 7);
    a.sb(T1, T0, 2)
        .sb(ZERO, T0, 2)
        .lbu(T1, T0, 5)
        .lbu(T1, T0, 0);
    a.li(T1, 1).sb(T1, T0, 1).sb(T1, T0, 2);
    let output = Output::default();
    let peripherals = trapless_machine::Peripherals::new(Box::new(output.clone()));
    let mut machine = Machine::boot(config("sbi", 1), &echo(a).payload(), peripherals).unwrap();
    machine.input(0, b"typed ahead, q");
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(output.text(), "typed ahead, q");
}

/// Promise: a guest that polls the line status, as boot loaders do, gets input without any
/// interrupt.
#[test]
fn console_input_reaches_a_guest_that_polls() {
    let mut a = Asm::new(RAM);
    a.li(S1, UART);
    let (poll, off) = (a.here(), a.label());
    a.lbu(T0, S1, 5).andi(T0, T0, 1).beq(T0, ZERO, poll);
    a.lbu(T0, S1, 0)
        .sb(T0, S1, 0)
        .addi(T1, T0, -(b'q' as i32))
        .beq(T1, ZERO, off)
        .j(poll);
    a.bind(off);
    a.power_off();
    let output = Output::default();
    let peripherals = trapless_machine::Peripherals::new(Box::new(output.clone()));
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), peripherals).unwrap();
    machine.input(0, b"polled q");
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(output.text(), "polled q");
}

#[derive(Default)]
struct Log(Vec<String>);

impl Sink for Log {
    fn record(&mut self, event: &Event) {
        self.0.push(format!("{event:?}"));
    }
}

#[test]
fn every_sink_gets_every_event() {
    let mut machine = Machine::boot(config("sbi", 1), &timer_program().payload(), quiet()).unwrap();
    let sinks = [Shared::new(Log::default()), Shared::new(Log::default())];
    for sink in &sinks {
        machine.add_sink(Box::new(sink.clone()));
    }
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    let log = sinks[0].lock();
    assert_eq!(log.0, sinks[1].lock().0);
    for expected in ["DeviceAccess", "Wait", "Raise", "Trap"] {
        assert!(
            log.0.iter().any(|e| e.starts_with(expected)),
            "no {expected} in {:?}",
            log.0
        );
    }
}

#[test]
fn clock_alarm_wakes_an_idle_machine() {
    const RTC: u64 = 0x10_1000;
    const PLIC: u64 = 0xc00_0000;
    let mut a = Asm::new(RAM);
    a.addi(T1, ZERO, 1);
    a.li(T0, PLIC + 4 * 11).sw(T1, T0, 0);
    a.li(T0, PLIC + 0x2000)
        .li(T2, 1 << 11)
        .sw(T2, T0, 0)
        .csrw(MIE, T2);
    // Alarm 5 ms from now.
    a.li(S0, RTC).lw(T2, S0, 0).lw(A0, S0, 4).slli(A0, A0, 32);
    a.slli(T2, T2, 32)
        .word(32 << 20 | T2 << 15 | 5 << 12 | T2 << 7 | 0x13)
        .add(A0, A0, T2);
    a.li(T2, 5_000_000).add(A0, A0, T2).sw(T1, S0, 0x10);
    a.word(32 << 20 | A0 << 15 | 5 << 12 | T2 << 7 | 0x13)
        .sw(T2, S0, 0xc)
        .sw(A0, S0, 8);
    a.wfi();
    a.li(T0, PLIC + 0x20_0004)
        .lw(T2, T0, 0)
        .li(T0, DATA)
        .sd(T2, T0, 0);
    a.power_off();
    let mut machine = Machine::boot(config("sbi", 1), &a.payload(), quiet()).unwrap();
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(data(&machine, 0), 11, "claimed interrupt");
    assert!(
        (5_000_000..5_020_000).contains(&machine.now()),
        "{}",
        machine.now()
    );
}

#[test]
fn largest_machine_starts_and_stays_lazy() {
    let mut config = config("sstc", 64);
    config.ram = 64 << 30;
    // Before that, each hart counts in the last word of RAM. Branches are relative: code moves.
    let mut head = Asm::new(RAM);
    head.li(T0, RAM + (64 << 30) - 8)
        .addi(T1, ZERO, 1)
        .amoadd(ZERO, T1, T0);
    let mut payload = head.payload();
    payload
        .firmware
        .as_mut()
        .unwrap()
        .extend(counters(64).finish());
    let mut machine = Machine::boot(config, &payload, quiet()).unwrap();
    assert_eq!(run(&mut machine), Outcome::PoweredOff);
    assert_eq!(data(&machine, 0), 500 * (64 * 65 / 2));
    assert_eq!(machine.ram().load(RAM + (64 << 30) - 8, 8), Some(64));
}
