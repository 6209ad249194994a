//! An interrupt that is pending is taken as soon as it is enabled.

mod common;
mod programs;

use programs::{RAM, enter_supervisor, finish, put, run};
use trapless_asm::Asm;
use trapless_asm::reg::{A0, A1, S0, S1, T0, T2, ZERO};
use trapless_hart::Ram;
use trapless_isa::csr::{self, status};

const PROGRAM: u64 = RAM + 0x1000;
const HANDLER: u64 = RAM + 0x2000;
/// Supervisor software interrupt, in `mideleg`, `sie` and `sip`.
const SSI: u64 = 1 << 1;
const ROUNDS: u64 = 20;

/// The registers of S-mode after it has set SIE so often with an interrupt pending.
fn end(compiled: bool) -> Vec<u64> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let mut start = Asm::new(RAM);
    start.li(T0, SSI).csrw(csr::MIDELEG, T0).csrw(csr::SIE, T0);
    enter_supervisor(&mut start, PROGRAM, HANDLER);
    let mut a = Asm::new(PROGRAM);
    a.li(S0, SSI).li(S1, status::SIE).li(T2, ROUNDS);
    let again = a.here();
    a.csrs(csr::SIP, S0);
    a.csrs(csr::SSTATUS, S1);
    a.addi(A1, A1, 1);
    a.w(trapless_asm::csrc(csr::SSTATUS, S1));
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    // Adds what A1 is, which is incremented right behind.
    let mut handler = Asm::new(HANDLER);
    handler.w(trapless_asm::csrc(csr::SIP, S0));
    handler.add(A0, A0, A1);
    handler.sret();
    for (at, program) in [(RAM, &start), (PROGRAM, &a), (HANDLER, &handler)] {
        put(&ram, at, program);
    }
    let hart = run(&ram, compiled);
    (0..32).map(|register| hart.x(register)).collect()
}

/// Promise: not one instruction is executed between the one that enables it and the handler.
#[test]
fn an_interrupt_is_taken_when_sie_is_set() {
    let [interpreted, compiled] = [false, true].map(end);
    assert_eq!(interpreted[A0 as usize], (0..ROUNDS).sum::<u64>());
    assert!(interpreted == compiled);
}
