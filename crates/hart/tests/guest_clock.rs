//! The clock and the timer of a guest, which compiled code reads and writes itself.

mod common;
mod programs;

use programs::{RAM, put, repeat, results, run};
use trapless_asm::reg::{A0, A1, S0, S1, T0, T1, ZERO};
use trapless_asm::{Asm, csrr};
use trapless_hart::Ram;
use trapless_isa::csr::{self, envcfg, status};

const PROGRAM: u64 = RAM + 0x1000;
const HANDLER: u64 = RAM + 0x2000;
const RESULTS: u64 = RAM + 0x3000;
/// `htimedelta` in ticks.
const DELTA: u64 = 0x1234_5678_9ABC;
const ROUNDS: u64 = 3;
/// Supervisor timer interrupt in `sie`, virtual supervisor timer interrupt in `hideleg`.
const STI: u64 = 1 << 5;
const VSTI: u64 = 1 << 6;

/// What a program in VS-mode, which is repeated, has put where S0 was. A timer interrupt puts the
/// guest's time there, and makes T1 1.
fn end(compiled: bool, program: impl Fn(&mut Asm)) -> Vec<u64> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let mut start = Asm::new(RAM);
    for (number, value) in [
        (csr::PMPADDR0, u64::MAX),
        (csr::PMPCFG0, 0x1F),
        (csr::MSTATEEN0, u64::MAX),
        (csr::MCOUNTEREN, u64::MAX),
        (csr::HCOUNTEREN, u64::MAX),
        (csr::MENVCFG, envcfg::STCE),
        (csr::HENVCFG, envcfg::STCE),
        (csr::HTIMEDELTA, DELTA),
        (csr::VSTIMECMP, u64::MAX),
        (csr::HIDELEG, VSTI),
        (csr::VSTVEC, HANDLER),
        (csr::VSIE, STI),
        (csr::VSSTATUS, status::SIE),
        (csr::MSTATUS, status::MPV | 1 << 11),
        (csr::MEPC, PROGRAM),
    ] {
        start.li(T0, value).csrw(number, T0);
    }
    start.mret();

    let a = repeat(PROGRAM, ROUNDS, RESULTS, program);

    let mut handler = Asm::new(HANDLER);
    handler.w(csrr(T0, csr::TIME));
    handler.sd(T0, S0, 0).addi(S0, S0, 8);
    handler.li(T0, u64::MAX).csrw(csr::STIMECMP, T0);
    handler.li(T1, 1).sret();

    for (at, program) in [(RAM, &start), (PROGRAM, &a), (HANDLER, &handler)] {
        put(&ram, at, program);
    }
    let hart = run(&ram, compiled);
    results(&ram, &hart, RESULTS)
}

/// The results of both engines, which are the same.
fn of_both(program: impl Fn(&mut Asm) + Copy) -> Vec<u64> {
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, program));
    assert_eq!(interpreted, compiled);
    interpreted
}

/// Reads the time to A0, and keeps it.
fn keep_time(a: &mut Asm) {
    a.w(csrr(A0, csr::TIME));
    a.sd(A0, S0, 0).addi(S0, S0, 8);
}

/// Sets the timer to so many ticks after the time in A0.
fn set_timer(a: &mut Asm, ticks: u64) {
    a.li(A1, ticks).add(A1, A0, A1);
    a.csrw(csr::STIMECMP, A1);
}

/// Each round has two times, so many ticks apart, or a few more.
fn assert_passed(times: &[u64], ticks: u64) {
    assert_eq!(times.len() as u64, 2 * ROUNDS);
    for pair in times.chunks(2) {
        let passed = pair[1] - pair[0];
        assert!((ticks..ticks + 4).contains(&passed), "{passed} ticks");
    }
}

/// Promise: a guest reads the time with what the host adds to it.
#[test]
fn the_time_of_a_guest_has_its_delta() {
    for time in of_both(keep_time) {
        assert!((DELTA..DELTA + 1_000).contains(&time), "{time:#x}");
    }
}

/// Promise: a timer of a guest that is due in less time than the hart runs on its own interrupts
/// it then, although it was set by compiled code, and whatever was set before.
#[test]
fn a_timer_that_is_due_soon_interrupts_then() {
    const TICKS: u64 = 40;
    let times = of_both(|a| {
        keep_time(a);
        a.li(T1, 0);
        set_timer(a, 1 << 32);
        set_timer(a, TICKS);
        let wait = a.here();
        a.beq(T1, ZERO, wait);
    });
    assert_passed(&times, TICKS);
}

/// Promise: the same after more turns in which nothing else happened than a timer is noted for.
#[test]
fn a_timer_that_is_set_after_long_computing_interrupts_then() {
    const TICKS: u64 = 40;
    // 18 million cycles
    const LOOPS: u64 = 9_000_000;
    let times = of_both(|a| {
        a.li(S1, LOOPS);
        let compute = a.here();
        a.addi(S1, S1, -1);
        a.bne(S1, ZERO, compute);
        keep_time(a);
        a.li(T1, 0);
        set_timer(a, TICKS);
        let wait = a.here();
        a.beq(T1, ZERO, wait);
    });
    assert_passed(&times, TICKS);
}

/// Promise: a timer of a guest that was due soon, or has been due while interrupts were off, does
/// not interrupt it if it is set to later.
#[test]
fn a_timer_that_is_set_to_later_does_not_interrupt() {
    const TICKS: u64 = 40;
    for first in [TICKS, 0] {
        let times = of_both(|a| {
            a.li(T0, status::SIE);
            a.w(trapless_asm::csrc(csr::SSTATUS, T0));
            keep_time(a);
            a.li(T1, 0);
            set_timer(a, first);
            set_timer(a, 1 << 32);
            a.li(T0, status::SIE).csrs(csr::SSTATUS, T0);
            a.li(S1, 2 * TICKS).add(S1, S1, A0);
            let wait = a.here();
            a.w(csrr(A0, csr::TIME));
            a.blt(A0, S1, wait);
            a.sd(T1, S0, 0).addi(S0, S0, 8);
        });
        assert_eq!(times.len() as u64, 2 * ROUNDS);
        assert!(times.chunks(2).all(|pair| pair[1] == 0), "{times:x?}");
    }
}
