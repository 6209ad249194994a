//! Programs that run on one hart with nothing but RAM, in either engine, until they say that they
//! have come to their end.

#![allow(dead_code, reason = "each test file uses a part")]

use trapless_asm::reg::{S0, T0, T2, ZERO};
use trapless_asm::{Asm, Reg};
use trapless_hart::{CodeCache, CostModel, Hart, HartConfig, Ram, Tiers};
use trapless_isa::csr;

use crate::common::Nothing;

/// Where RAM begins, and the hart.
pub const RAM: u64 = 0x8000_0000;

/// `t6`, which is not 0 at the end of a program.
const ENDED: Reg = 31;
/// Cycles after which the end is looked for, and how often it is.
const SLICE: u64 = 50_000;
const SLICES: u64 = 4_000;

/// Writes a program to RAM.
pub fn put(ram: &Ram, at: u64, program: &Asm) {
    for (address, byte) in (at..).zip(program.finish()) {
        ram.store(address, 1, byte.into()).expect("in RAM");
    }
}

/// A program at `base` that does `body` so often; S0 is where its results go, from `results` on,
/// and T2 the rounds that are left.
pub fn repeat(base: u64, rounds: u64, results: u64, body: impl Fn(&mut Asm)) -> Asm {
    let mut a = Asm::new(base);
    a.li(S0, results).li(T2, rounds);
    let again = a.here();
    body(&mut a);
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    a
}

/// What a program of [`repeat`] has put from `results` on, in words of 64 bits.
pub fn results(ram: &Ram, hart: &Hart, results: u64) -> Vec<u64> {
    let all = (results..hart.x(S0 as usize)).step_by(8);
    all.map(|at| ram.load(at, 8).expect("in RAM")).collect()
}

/// Ends the program.
pub fn finish(a: &mut Asm) {
    a.addi(ENDED, ZERO, 1);
    let forever = a.here();
    a.j(forever);
}

/// Lets S-mode access all memory, and be told of its own exceptions at `handler`; enters it at
/// `program`.
pub fn enter_supervisor(a: &mut Asm, program: u64, handler: u64) {
    enter_with(a, 1 << 11, program, handler);
}

/// The same, with these bits in `mstatus`, of which MPP, MPV and TVM may be set: exceptions of
/// VS-mode go to `handler` in HS-mode.
pub fn enter_with(a: &mut Asm, mstatus: u64, program: u64, handler: u64) {
    a.li(T0, u64::MAX).csrw(csr::PMPADDR0, T0);
    a.li(T0, 0x1F).csrw(csr::PMPCFG0, T0);
    a.li(T0, u64::MAX).csrw(csr::MEDELEG, T0);
    a.li(T0, handler).csrw(csr::STVEC, T0);
    a.li(T0, mstatus).csrw(csr::MSTATUS, T0);
    a.li(T0, program).csrw(csr::MEPC, T0);
    a.mret();
}

/// A handler that counts exceptions in a register, and goes on behind the instruction, which has
/// four bytes.
pub fn skip_exceptions(a: &mut Asm, count: Reg) {
    a.addi(count, count, 1);
    a.w(trapless_asm::csrr(T0, csr::SEPC));
    a.addi(T0, T0, 4).csrw(csr::SEPC, T0);
    a.sret();
}

/// A hart that begins in M-mode where RAM does, and its code. Misses of the TLB take time.
pub fn hart(ram: &Ram, compiled: bool) -> (Hart, CodeCache) {
    hart_with(ram, compiled, 0, |_| ())
}

/// The same with a number of its own, and another configuration.
pub fn hart_with(
    ram: &Ram,
    compiled: bool,
    id: usize,
    change: impl FnOnce(&mut HartConfig),
) -> (Hart, CodeCache) {
    let mut config = HartConfig {
        reset_pc: RAM,
        cost: CostModel {
            walk_step: 2,
            ..CostModel::default()
        },
        ..HartConfig::default()
    };
    change(&mut config);
    let mut code = CodeCache::new(ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    (Hart::new(id, config, ram.clone()), code)
}

/// The hart after the program that is where RAM begins has ended.
pub fn run(ram: &Ram, compiled: bool) -> Hart {
    run_to_end(hart(ram, compiled))
}

/// The same of any hart.
pub fn run_to_end((mut hart, mut code): (Hart, CodeCache)) -> Hart {
    for slice in 1..=SLICES {
        hart.run(&mut code, &mut Nothing, slice * SLICE, None);
        if hart.x(ENDED as usize) != 0 {
            return hart;
        }
    }
    panic!("the program does not come to its end");
}
