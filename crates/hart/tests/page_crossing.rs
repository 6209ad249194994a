//! Instructions across pages whose halves change: in code that changes itself without `fence.i`, and
//! in a second page that is mapped elsewhere.

mod common;

use common::Nothing;
use trapless_asm::reg::{A0, A1, RA, S0, S1, S2, T0, T1, T2, T3, ZERO};
use trapless_asm::{Asm, addi, jalr};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};
use trapless_isa::csr;

const RAM: u64 = 0x8000_0000;
/// Where the changed instruction is: the last parcel of a page.
const CHANGED: u64 = RAM + 0x1FFE;
/// What the program puts there, one after the other.
const PARCELS: u64 = RAM + 0x8000;

/// First parcel of `addi a0, a0, 1`.
const LONG: u64 = 0x0513;
/// `c.addi a1, 1`.
const SHORT: u64 = 0x0585;

/// A program that executes the changed instruction, and all its states between slices of its time.
fn run(parcels: &[u64], compiled: bool) -> Vec<Vec<u64>> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let code = [
        0x0009_5303, // lhu  t1, 0(s2)
        0x0029_0913, // addi s2, s2, 2
        0x0064_9023, // sh   t1, 0(s1)
        0x0009_8067, // jr   s3
    ];
    for (at, word) in (RAM..).step_by(4).zip(code) {
        ram.store(at, 4, word).expect("in RAM");
    }
    // Before it: c.nop. Behind it: the rest of the long one, alone a c.nop, and c.jr s0.
    for (at, parcel) in [
        (CHANGED - 2, 0x0001),
        (CHANGED + 2, 0x0015),
        (CHANGED + 4, 0x8402),
    ] {
        ram.store(at, 2, parcel).expect("in RAM");
    }
    // The last slice may need some more.
    let all = parcels.iter().chain([&LONG; 16]);
    for (at, parcel) in (PARCELS..).step_by(2).zip(all) {
        ram.store(at, 2, *parcel).expect("in RAM");
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
    for (register, value) in [(8, RAM), (9, CHANGED), (18, PARCELS), (19, CHANGED - 2)] {
        hart.set_x(register, value);
    }
    let mut states = Vec::new();
    while hart.x(18) < PARCELS + 2 * parcels.len() as u64 {
        hart.run(
            &mut code,
            &mut Nothing,
            40 * (states.len() as u64 + 1),
            None,
        );
        let mut state: Vec<u64> = (0..32).map(|i| hart.x(i)).collect();
        state.extend([hart.pc(), hart.now(), hart.instret()]);
        states.push(state);
        assert!(
            states.len() < 10_000,
            "the program does not come to its end"
        );
    }
    states
}

/// Promise: what is decoded is not decoded anew before `fence.i`, or it is, but in both engines the
/// same.
#[test]
fn engines_agree_while_an_instruction_changes_its_length() {
    for pattern in 0u64..256 {
        let kind = |step: u32| {
            if pattern >> (step % 8) & 1 != 0 {
                LONG
            } else {
                SHORT
            }
        };
        let parcels: Vec<u64> = (0..24).map(kind).collect();
        let interpreted = run(&parcels, false);
        let last = interpreted.last().expect("it ran");
        assert!(last[10] + last[11] >= 23, "it was executed");
        assert!(run(&parcels, true) == interpreted, "pattern {pattern:#x}");
    }
}

/// What a program in S-mode leaves in `a0` that executes `addi a0, a0, N` across two pages 200 times,
/// whose second page is another one each time: with N 1 there, and with N 2.
fn alternate(compiled: bool) -> u64 {
    const ROUNDS: u64 = 200;
    /// Where S-mode sees the two pages; its own page is where it is.
    const CROSSED: u64 = 0x4000_0000;
    const FIRST: u64 = RAM + 0x1000;
    const SECOND: [u64; 2] = [RAM + 0x2000, RAM + 0x3000];
    const PROGRAM: u64 = RAM + 0x4000;
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let (root, level1, level0) = (RAM + 0x5000, RAM + 0x6000, RAM + 0x7000);
    let pointer = |table: u64| table >> 12 << 10 | 1;
    let leaf = |page: u64| page >> 12 << 10 | 0xCF;
    let store = |at, value| ram.store(at, 8, value).expect("in RAM");
    store(root + 8, pointer(level1));
    store(root + 16, leaf(RAM));
    store(level1, pointer(level0));
    store(level0, leaf(FIRST));
    store(level0 + 8, leaf(SECOND[0]));
    let put = |at: u64, program: &Asm| {
        for (address, byte) in (at..).zip(program.finish()) {
            ram.store(address, 1, byte.into()).expect("in RAM");
        }
    };
    let mut a = Asm::new(RAM);
    a.li(T0, u64::MAX).csrw(csr::PMPADDR0, T0);
    a.li(T0, 0x1F).csrw(csr::PMPCFG0, T0);
    a.li(T0, 8 << 60 | root >> 12).csrw(csr::SATP, T0);
    a.li(T0, 1 << 11).csrw(csr::MSTATUS, T0);
    a.li(T0, PROGRAM).csrw(csr::MEPC, T0);
    a.li(T2, ROUNDS).li(S0, CROSSED + 0xFFE).li(S1, level0 + 8);
    a.li(A1, CROSSED + 0x1000).li(S2, leaf(SECOND[0]));
    a.li(T3, leaf(SECOND[0]) ^ leaf(SECOND[1]));
    a.mret();
    put(RAM, &a);
    let mut program = Asm::new(PROGRAM);
    let again = program.here();
    // The second page is in the TLB for fetches before the instruction is executed.
    program.w(jalr(RA, A1, 2));
    program.w(jalr(RA, S0, 0));
    program.w(trapless_asm::r(0x33, 4, 0, S2, S2, T3)); // xor
    program.sd(S2, S1, 0);
    program.sfence_vma(A1, ZERO);
    program.addi(T2, T2, -1);
    program.bne(T2, ZERO, again);
    program.addi(T1, ZERO, 1);
    let forever = program.here();
    program.j(forever);
    put(PROGRAM, &program);
    for (page, add) in SECOND.into_iter().zip([1, 2]) {
        let across = u64::from(addi(A0, A0, add));
        for (at, parcel) in [
            (FIRST + 0xFFE, across),
            (page, across >> 16),
            (page + 2, 0x8082), // c.jr ra
        ] {
            ram.store(at, 2, parcel & 0xFFFF).expect("in RAM");
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
    hart.run(&mut code, &mut Nothing, 100_000, None);
    assert_eq!(hart.x(T1 as usize), 1, "the program comes to its end");
    hart.x(A0 as usize)
}

/// Promise: an instruction across pages is what both pages hold as they are mapped now.
#[test]
fn the_second_half_is_that_of_the_page_mapped_now() {
    assert_eq!([false, true].map(alternate), [300, 300]);
}
