//! Floating point in both engines: the interpreter computes with integers, compiled code with the
//! host's own registers.

mod common;
mod programs;

use programs::{RAM, finish, put, run};
use trapless_asm::reg::{A0, A1, S0, S1, T0, T1, ZERO};
use trapless_asm::{Asm, Reg, i, r, s};
use trapless_hart::Ram;
use trapless_isa::{Format, Op, csr};

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
    finish(&mut program);
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    put(&ram, RAM, &program);
    let hart = run(&ram, compiled);
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

/// Doubles at which something changes, and singles, in their box and out of it.
fn operands() -> [Vec<u64>; 2] {
    let numbers = [
        0.0,
        0.3,
        0.5,
        1.5,
        2147483647.5,
        2147483648.0,
        4294967295.5,
        4294967296.0,
        9.3e18,
        1.9e19,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let signed = numbers.into_iter().flat_map(|number| [number, -number]);
    let mut doubles: Vec<_> = signed.clone().map(f64::to_bits).collect();
    let mut singles: Vec<_> = signed
        .map(|n| BOX | u64::from((n as f32).to_bits()))
        .collect();
    // Signalling NaNs, payloads, the least and the greatest subnormal numbers and the least normal
    // ones, and a single without its box.
    doubles.extend([
        0x7FF0_0000_0000_0001,
        0xFFF8_0000_0000_1234,
        1,
        SMALLEST - 1,
        SMALLEST,
    ]);
    singles.extend([0x7F80_0001, 0xFFC0_1234, 1, 0x007F_FFFF, 0x0080_0000].map(|s| BOX | s));
    singles.push(u64::from(1.0f32.to_bits()));
    [doubles, singles]
}

/// Ones above a single.
const BOX: u64 = 0xFFFF_FFFF_0000_0000;

/// `instruction` has its operands in registers 10, 11 and 13 and its result in 12, of either kind.
/// What is in 12, of both kinds, and `fflags`, after it was executed for each set of operands.
fn results(compiled: bool, instruction: u32, sets: &[[u64; 3]]) -> Vec<[u64; 3]> {
    const SET: u64 = 48;
    const SETS: u64 = RAM + 0x1_0000;
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    for (set, at) in sets.iter().zip((SETS..).step_by(SET as usize)) {
        for (value, at) in set.iter().zip((at..).step_by(8)) {
            ram.store(at, 8, *value).expect("in RAM");
        }
    }
    let load = |at: u32, register: u32| at << 20 | 8 << 15 | 3 << 12 | register << 7;
    let (integer, float) = (0x03, 0x07);
    let mut a = Asm::new(RAM);
    a.li(T0, 0x6000).csrs(csr::MSTATUS, T0);
    a.li(S0, SETS).li(S1, SETS + SET * sets.len() as u64);
    let next = a.here();
    for (at, register) in [(0, 10), (8, 11), (16, 13)] {
        a.w(load(at, register) | integer);
        a.w(load(at, register) | float);
    }
    a.csrw(csr::FCSR, ZERO);
    a.w(instruction);
    a.w(trapless_asm::csrr(T1, csr::FFLAGS));
    // fsd fa2, 24(s0)
    a.w(12 << 20 | 8 << 15 | 3 << 12 | 24 << 7 | 0x27);
    a.sd(12, S0, 32).sd(T1, S0, 40);
    a.addi(S0, S0, SET as i32);
    a.bne(S0, S1, next);
    finish(&mut a);
    put(&ram, RAM, &a);
    run(&ram, compiled);
    let found = (SETS + 24..).step_by(SET as usize).take(sets.len());
    let word = |at| ram.load(at, 8).expect("in RAM");
    found
        .map(|at| [word(at), word(at + 8), word(at + 16)])
        .collect()
}

/// What is in the registers after `between` was executed with 1 in fa0, 0.5 in fa3, a single 1 in
/// fa4, and 0 in fa5, with s0 at the start of another page each time. Results are in fa2.
fn kept(compiled: bool, between: &[u32]) -> Vec<u64> {
    const ROUNDS: u64 = 100;
    const SUM: Reg = 18;
    let mut a = Asm::new(RAM);
    a.li(T0, 0x6000).csrs(csr::MSTATUS, T0);
    let single = BOX | u64::from(1.0f32.to_bits());
    for (f, value) in [(10, ONE), (13, HALF), (14, single), (15, 0)] {
        a.li(T0, value).w(r(0x53, 0, 0x79, f, T0, 0)); // fmv.d.x
    }
    a.li(S0, RAM + 0x1_0000).li(S1, 0x1000).li(T1, ROUNDS);
    let again = a.here();
    for word in between {
        a.w(*word);
    }
    a.w(r(0x53, 0, 0x71, T0, 12, 0)); // fmv.x.d t0, fa2
    a.w(r(0x33, 0, 0, SUM, SUM, T0));
    a.w(r(0x33, 0, 0, S0, S0, S1));
    a.addi(T1, T1, -1);
    a.bne(T1, ZERO, again);
    a.w(trapless_asm::csrr(T0, csr::FFLAGS));
    finish(&mut a);
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    for at in (RAM + 0x1_0000..).step_by(0x1000).take(ROUNDS as usize) {
        ram.store(at, 8, at).expect("in RAM");
        ram.store(at + 8, 8, !at).expect("in RAM");
    }
    put(&ram, RAM, &a);
    let hart = run(&ram, compiled);
    (0..32).map(|x| hart.x(x)).collect()
}

/// Promise: numbers that compiled code has in registers of the host, integers among them, are the
/// guest's after whatever comes in between: accesses to new pages, instructions that the
/// interpreter executes, and NaN.
#[test]
fn numbers_stay_the_same_over_other_instructions() {
    let double = |operation: u32, rm, d, a, b| r(0x53, rm, operation << 2 | 1, d, a, b);
    let single = |operation: u32, rm, d, a, b| r(0x53, rm, operation << 2, d, a, b);
    let (add, divide, sign, max) = (0, 3, 4, 5);
    let sum = double(add, 7, 11, 10, 13);
    let half = double(max, 1, 11, 13, 13);
    let nan = double(divide, 7, 11, 15, 15);
    let load = |rd, at| i(0x03, 3, rd, S0, at);
    let store = s(0x27, 3, S0, 11, 8);
    let result = double(add, 7, 12, 11, 10);
    // More than the host has registers for, of which two or three at a time are needed again.
    let many = (16..30).map(|f| double(add, 7, f + 1, f, 13));
    let again = (16..30).rev();
    let again = again.map(|f| r(0x43, 7, 12 << 2 | 1, 12, f, 16 + (f * 5 + 3) % 15));
    let cases = [
        many.chain(again).collect(),
        vec![sum, load(A0, 0), result],
        vec![sum, load(A0, 0), load(A1, 8), result],
        vec![sum, load(A0, 0), load(A1, 8), store, result],
        vec![
            load(20, 0),
            load(21, 8),
            r(0x33, 0, 0, 22, 22, 21),
            sum,
            result,
        ],
        vec![load(20, 0), r(0x33, 0, 0, 22, 22, 20), sum, result],
        vec![sum, half, result],
        vec![single(add, 7, 11, 14, 14), half, single(add, 7, 12, 11, 11)],
        vec![nan, double(sign, 1, 12, 11, 11)],
        vec![nan, store, load(A0, 8), double(sign, 2, 12, 11, 10)],
    ];
    for between in cases {
        let [interpreted, compiled] = [false, true].map(|compiled| kept(compiled, &between));
        assert_ne!(interpreted[18], 0);
        assert!(interpreted == compiled, "{between:x?}");
    }
}

/// Promise: results and flags are the same in both engines, for every operation on registers.
#[test]
fn engines_agree_on_every_operation() {
    let mut sets = Vec::new();
    for kind in &operands() {
        for &a in kind {
            for &b in kind {
                // Each third operand beside each pair of kinds would be too many.
                sets.push([a, b, kind[sets.len() * 7 % kind.len()]]);
            }
        }
    }
    let mut tried = 0;
    for &op in Op::ALL {
        let (bits, mask) = op.encoding();
        if !op.is_fp() || matches!(op.format(), Format::FLoad | Format::FStore) {
            continue;
        }
        let rounds = mask & 7 << 12 == 0;
        for rounding in if rounds { &[0, 1, 2, 4, 7][..] } else { &[0] } {
            let fields = 13 << 27 | 11 << 20 | 10 << 15 | rounding << 12 | 12 << 7;
            let instruction = bits | fields & !mask;
            let [interpreted, compiled] = [false, true].map(|c| results(c, instruction, &sets));
            for ((set, one), other) in sets.iter().zip(interpreted).zip(compiled) {
                assert_eq!(one, other, "{op:?}, rounding {rounding}, of {set:x?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried} operations");
}
