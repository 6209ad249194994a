//! Underflow: RISC-V raises it for results that are tiny after rounding (unprivileged
//! specification, "Floating-Point Control and Status Register"), hosts may for those that are tiny
//! before it.

mod common;

use common::Nothing;
use trapless_asm::Asm;
use trapless_asm::reg::{A0, A1, S1, T0, ZERO};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};

const RAM: u64 = 0x8000_0000;

/// `fflags` of inexact and of underflow.
const NX: u64 = 1;
const UF: u64 = 2;

/// 2^-1022, the smallest normal number.
const SMALLEST: u64 = 1 << 52;
const ONE: u64 = 0x3FF0_0000_0000_0000;
const HALF: u64 = 0x3FE0_0000_0000_0000;

/// `fmul.d fa2, fa0, fa1` and `fdiv.d fa2, fa0, fa1`, to nearest.
const FMUL: u32 = 0x12B5_0653;
const FDIV: u32 = 0x1AB5_0653;

/// The result of `op` with these operands, and the flags it leaves of `before`.
fn compute(compiled: bool, op: u32, [a, b]: [u64; 2], before: u64) -> (u64, u64) {
    let mut program = Asm::new(RAM);
    // csrs mstatus, t0: FS is Dirty. fmv.d.x fa0, a0; fmv.d.x fa1, a1; csrw fcsr, t0.
    program.li(T0, 0x6000).w(0x3002_A073);
    program.li(A0, a).w(0xF205_0553);
    program.li(A1, b).w(0xF205_85D3);
    program.li(T0, before).w(0x0032_9073);
    program.w(op);
    // fmv.x.d a0, fa2; csrr a1, fflags
    program.w(0xE206_0553);
    program.w(0x0010_25F3);
    program.addi(S1, ZERO, 1);
    let forever = program.here();
    program.j(forever);
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    for (address, byte) in (RAM..).zip(program.finish()) {
        ram.store(address, 1, byte.into()).expect("in RAM");
    }
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    let mut hart = Hart::new(0, config, ram.clone());
    hart.run(&mut code, &mut Nothing, 10_000, None);
    assert_eq!(
        hart.x(S1 as usize),
        1,
        "the program does not come to its end"
    );
    (hart.x(A0 as usize), hart.x(A1 as usize))
}

/// Promise: a result that rounds to the smallest normal number is inexact, and no underflow; one
/// below it is both; and flags that were raised before stay.
#[test]
fn underflow_is_raised_after_rounding() {
    let cases = [
        // (1 + 2^-52) 2^-1022 times 1 - 2^-52 is 2^-1022 less 2^-1126.
        (FMUL, [SMALLEST + 1, ONE - 2], 0, (SMALLEST, NX)),
        (FMUL, [SMALLEST + 1, ONE - 2], UF, (SMALLEST, UF | NX)),
        (FMUL, [SMALLEST + 1, HALF], 0, (SMALLEST >> 1, UF | NX)),
        (FMUL, [SMALLEST, ONE], 0, (SMALLEST, 0)),
        (FMUL, [0, ONE], 0, (0, 0)),
        (FDIV, [SMALLEST + 1, ONE + 1], 0, (SMALLEST, 0)),
        (FDIV, [SMALLEST + 1, ONE + 3], 0, (SMALLEST - 2, NX | UF)),
    ];
    for (op, operands, before, expected) in cases {
        for compiled in [false, true] {
            let found = compute(compiled, op, operands, before);
            assert_eq!(
                found, expected,
                "{op:#x} of {operands:x?}, compiled: {compiled}"
            );
        }
    }
}
