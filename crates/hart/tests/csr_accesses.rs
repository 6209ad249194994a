//! CSR instructions of S-mode, of which compiled code executes some itself.

mod common;
mod programs;

use programs::{RAM, enter_supervisor, put, repeat, results, run, skip_exceptions};
use trapless_asm::Asm;
use trapless_asm::reg::{A0, S0, S1, T0};
use trapless_hart::Ram;
use trapless_isa::csr;

const PROGRAM: u64 = RAM + 0x1000;
const HANDLER: u64 = RAM + 0x2000;
const RESULTS: u64 = RAM + 0x3000;
/// `csrrw`, `csrrs`, `csrrc`.
const KINDS: [u32; 3] = [1, 2, 3];
const VALUES: [u64; 4] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0xAAAA_AAAA_AAAA_AAAA,
    0x1_2345_6789,
];

/// What the program in S-mode has put where S0 was, and how many instructions that took.
fn end(compiled: bool, program: impl Fn(&mut Asm)) -> Vec<u64> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let mut start = Asm::new(RAM);
    // S-mode may access all there is.
    start.li(T0, u64::MAX);
    start.csrw(csr::MSTATEEN0, T0).csrw(csr::MENVCFG, T0);
    start.csrw(csr::MCOUNTEREN, T0);
    enter_supervisor(&mut start, PROGRAM, HANDLER);
    let a = repeat(PROGRAM, 3, RESULTS, program);
    // An exception is seen in A0, too.
    let mut handler = Asm::new(HANDLER);
    skip_exceptions(&mut handler, A0);
    for (at, program) in [(RAM, &start), (PROGRAM, &a), (HANDLER, &handler)] {
        put(&ram, at, program);
    }
    let hart = run(&ram, compiled);
    let mut state = results(&ram, &hart, RESULTS);
    state.push(hart.instret());
    state
}

/// Promise: what was written is read back the same in both engines, for every CSR but those by
/// which the program itself runs.
#[test]
fn csrs_keep_the_same_bits_in_both_engines() {
    for &(number, name) in csr::NAMES {
        let accesses = |a: &mut Asm| {
            for kind in KINDS {
                for value in VALUES {
                    a.li(S1, value);
                    a.w(trapless_asm::csr_op(kind, A0, number, S1));
                    a.sd(A0, S0, 0).addi(S0, S0, 8);
                }
            }
        };
        if !matches!(number, csr::SATP | csr::STVEC) {
            let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, accesses));
            assert!(interpreted == compiled, "{name}");
        }
    }
}

/// Promise: a result in a floating-point register makes FS Dirty, whatever it was, and there is
/// none while FS is Off.
#[test]
fn results_make_the_state_of_floating_point_dirty() {
    const FS: u64 = 3 << 13;
    const FADD: u32 = 0x0215_8653; // fadd.d fa2, fa1, ft1
    let program = |a: &mut Asm| {
        for state in [3, 2, 1, 0, 2, 3, 1] {
            a.li(S1, FS);
            a.w(trapless_asm::csrc(csr::SSTATUS, S1));
            a.li(S1, state << 13).csrs(csr::SSTATUS, S1);
            a.w(FADD);
            a.w(trapless_asm::csrr(A0, csr::SSTATUS));
            a.sd(A0, S0, 0).addi(S0, S0, 8);
        }
    };
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, program));
    let states: Vec<_> = interpreted[..7].iter().map(|s| s >> 13 & 3).collect();
    assert_eq!(states, [3, 3, 3, 0, 3, 3, 3]);
    assert!(interpreted == compiled);
}
