//! CSR instructions of S-mode, of which compiled code executes some itself.

mod common;

use common::Nothing;
use trapless_asm::Asm;
use trapless_asm::reg::{A0, S0, S1, T0, T1, T2, ZERO};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};
use trapless_isa::csr;

const RAM: u64 = 0x8000_0000;
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

/// What the program in S-mode has put where S0 was, and the time.
fn end(compiled: bool, program: impl Fn(&mut Asm)) -> Vec<u64> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let mut start = Asm::new(RAM);
    start.li(T0, u64::MAX).csrw(csr::PMPADDR0, T0);
    start.li(T0, 0x1F).csrw(csr::PMPCFG0, T0);
    start.li(T0, u64::MAX).csrw(csr::MEDELEG, T0);
    // S-mode may access all there is.
    start.csrw(csr::MSTATEEN0, T0).csrw(csr::MENVCFG, T0);
    start.csrw(csr::MCOUNTEREN, T0);
    start.li(T0, HANDLER).csrw(csr::STVEC, T0);
    start.li(T0, 1 << 11).csrw(csr::MSTATUS, T0);
    start.li(T0, PROGRAM).csrw(csr::MEPC, T0);
    start.mret();
    let mut a = Asm::new(PROGRAM);
    a.li(S0, RESULTS).li(T2, 3);
    let again = a.here();
    program(&mut a);
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    a.addi(T1, ZERO, 1);
    let forever = a.here();
    a.j(forever);
    // An exception is seen in A0, too.
    let mut handler = Asm::new(HANDLER);
    handler.addi(A0, A0, 1);
    handler.w(trapless_asm::csrr(T0, csr::SEPC));
    handler.addi(T0, T0, 4).csrw(csr::SEPC, T0);
    handler.sret();
    for (at, program) in [(RAM, &start), (PROGRAM, &a), (HANDLER, &handler)] {
        for (address, byte) in (at..).zip(program.finish()) {
            ram.store(address, 1, byte.into()).expect("in RAM");
        }
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
    hart.run(&mut code, &mut Nothing, 20_000, None);
    assert_eq!(hart.x(T1 as usize), 1, "the program comes to its end");
    let results = (RESULTS..hart.x(S0 as usize)).step_by(8);
    let mut state: Vec<_> = results.map(|at| ram.load(at, 8).expect("in RAM")).collect();
    state.push(hart.now());
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
