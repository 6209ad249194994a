//! Instructions across pages whose halves change: in code that changes itself without `fence.i`,
//! and in a second page that is mapped elsewhere.

mod common;
mod programs;

use common::Nothing;
use programs::{RAM, enter_supervisor, finish, hart, put};
use trapless_asm::reg::{A0, A1, RA, S0, S1, S2, T0, T2, T3, ZERO};
use trapless_asm::{Asm, Label, addi, jal, jalr};
use trapless_hart::Ram;
use trapless_isa::csr;

/// Where the changed instruction is: the last parcel of a page.
const CHANGED: u64 = RAM + 0x1FFE;
/// What the program puts there, one after the other.
const PARCELS: u64 = RAM + 0x8000;

/// First parcel of `addi a0, a0, 1`.
const LONG: u64 = 0x0513;
/// `c.addi a1, 1`.
const SHORT: u64 = 0x0585;

/// A program that executes the changed instruction, and all its states between slices of its time.
fn states(parcels: &[u64], compiled: bool) -> Vec<Vec<u64>> {
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
    let (mut hart, mut code) = hart(&ram, compiled);
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
        let interpreted = states(&parcels, false);
        let last = interpreted.last().expect("it ran");
        assert!(last[10] + last[11] >= 23, "it was executed");
        assert!(
            states(&parcels, true) == interpreted,
            "pattern {pattern:#x}"
        );
    }
}

/// Writes an instruction across pages, and `c.jr ra` behind it.
fn put_across(ram: &Ram, at: u64, behind: u64, instruction: u32) {
    let (low, high) = (instruction & 0xFFFF, instruction >> 16);
    for (at, parcel) in [(at, low), (behind, high), (behind + 2, 0x8082)] {
        ram.store(at, 2, parcel.into()).expect("in RAM");
    }
}

/// What the program leaves in `a0`.
fn end(compiled: bool, load: &dyn Fn(&Ram)) -> u64 {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    load(&ram);
    programs::run(&ram, compiled).x(A0 as usize)
}

/// Counts `t2` down to 0 by jumps to `again`, then ends.
fn count_down(a: &mut Asm, again: Label) {
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(a);
}

/// Promise: an instruction across pages is what both pages hold as they are mapped now.
#[test]
fn the_second_half_is_that_of_the_page_mapped_now() {
    const ROUNDS: u64 = 200;
    /// Where S-mode sees the two pages; its own page is where it is.
    const CROSSED: u64 = 0x4000_0000;
    const FIRST: u64 = RAM + 0x1000;
    const SECOND: [u64; 2] = [RAM + 0x2000, RAM + 0x3000];
    const PROGRAM: u64 = RAM + 0x4000;
    let (root, level1, level0) = (RAM + 0x5000, RAM + 0x6000, RAM + 0x7000);
    let pointer = |table: u64| table >> 12 << 10 | 1;
    let leaf = |page: u64| page >> 12 << 10 | 0xCF;
    let load = |ram: &Ram| {
        let store = |at, value| ram.store(at, 8, value).expect("in RAM");
        store(root + 8, pointer(level1));
        store(root + 16, leaf(RAM));
        store(level1, pointer(level0));
        store(level0, leaf(FIRST));
        store(level0 + 8, leaf(SECOND[0]));
        let mut a = Asm::new(RAM);
        a.li(T0, 8 << 60 | root >> 12).csrw(csr::SATP, T0);
        a.li(T2, ROUNDS).li(S0, CROSSED + 0xFFE).li(S1, level0 + 8);
        a.li(A1, CROSSED + 0x1000).li(S2, leaf(SECOND[0]));
        a.li(T3, leaf(SECOND[0]) ^ leaf(SECOND[1]));
        enter_supervisor(&mut a, PROGRAM, RAM);
        put(ram, RAM, &a);
        let mut a = Asm::new(PROGRAM);
        let again = a.here();
        // The second page is in the TLB for fetches before the instruction is executed.
        a.w(jalr(RA, A1, 2));
        a.w(jalr(RA, S0, 0));
        a.w(trapless_asm::r(0x33, 4, 0, S2, S2, T3)); // xor
        a.sd(S2, S1, 0);
        a.sfence_vma(A1, ZERO);
        count_down(&mut a, again);
        put(ram, PROGRAM, &a);
        for (page, add) in SECOND.into_iter().zip([1, 2]) {
            put_across(ram, FIRST + 0xFFE, page, addi(A0, A0, add));
        }
    };
    let sum = ROUNDS / 2 * (1 + 2);
    assert_eq!([false, true].map(|c| end(c, &load)), [sum; 2]);
}

/// Promise: the same jump across pages in two places goes to two places.
#[test]
fn a_jump_across_pages_is_relative_to_its_own_page() {
    const ROUNDS: u64 = 200;
    const FIRST: [u64; 2] = [RAM + 0x1000, RAM + 0x4000];
    let load = |ram: &Ram| {
        let mut a = Asm::new(RAM);
        a.li(T2, ROUNDS)
            .li(S0, FIRST[0] + 0xFFE)
            .li(S1, FIRST[1] + 0xFFE);
        let again = a.here();
        a.w(jalr(RA, S0, 0));
        a.w(jalr(RA, S1, 0));
        count_down(&mut a, again);
        put(ram, RAM, &a);
        for (page, add) in FIRST.into_iter().zip([1, 100]) {
            put_across(ram, page + 0xFFE, page + 0x1000, jal(ZERO, -0xF00));
            let mut target = Asm::new(page + 0xFE);
            target.w(addi(A0, A0, add));
            target.w(jalr(ZERO, RA, 0));
            put(ram, page + 0xFE, &target);
        }
    };
    assert_eq!([false, true].map(|c| end(c, &load)), [ROUNDS * 101; 2]);
}
