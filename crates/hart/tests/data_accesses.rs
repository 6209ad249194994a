//! Loads and stores in S-mode where translation decides what they find: across pages, and in pages
//! of U-mode. Compiled code looks for the page once for several accesses, and keeps what it found.

mod common;
mod programs;

use programs::{RAM, enter_supervisor, finish, put, run, skip_exceptions};
use trapless_asm::reg::{A0, S0, S1, T0, T2, T3, ZERO};
use trapless_asm::{Asm, Reg, i, jalr, r, s};
use trapless_hart::{Hart, Ram};
use trapless_isa::csr::{self, status};

const SIZE: u64 = 1 << 20;
/// The program in S-mode, in a page that is where it is.
const PROGRAM: u64 = RAM + 0x4000;
/// Two pages that S-mode sees one behind the other, and which are not.
const SEEN: u64 = 0x4000_0000;
const PAGES: [u64; 2] = [RAM + 0x1_2000, RAM + 0x1_0000];
/// A page of U-mode.
const USER: u64 = SEEN + 0x2000;
const USER_PAGE: u64 = RAM + 0x1_4000;
/// A page that can only be read.
const READABLE: u64 = SEEN + 0x8000;
/// Where exceptions of S-mode lead to: counts them, and goes on behind the instruction.
const HANDLER: u64 = RAM + 0x5000;

/// RAM with page tables, what M-mode does before it enters the program, and the program.
fn machine(program: &Asm) -> Ram {
    let ram = Ram::new(RAM, SIZE).expect("RAM");
    let (root, level1, level0) = (RAM + 0x8000, RAM + 0x9000, RAM + 0xA000);
    let pointer = |table: u64| table >> 12 << 10 | 1;
    let leaf = |page: u64| page >> 12 << 10 | 0xCF;
    let store = |at, value| ram.store(at, 8, value).expect("in RAM");
    store(root + 8, pointer(level1));
    store(root + 16, leaf(RAM));
    store(level1, pointer(level0));
    store(level0, leaf(PAGES[0]));
    store(level0 + 8, leaf(PAGES[1]));
    store(level0 + 16, leaf(USER_PAGE) | 0x10);
    store(level0 + 64, leaf(PAGES[0]) & !0xC);
    let mut start = Asm::new(RAM);
    start.li(T0, 8 << 60 | root >> 12).csrw(csr::SATP, T0);
    enter_supervisor(&mut start, PROGRAM, HANDLER);
    let mut handler = Asm::new(HANDLER);
    skip_exceptions(&mut handler, A0);
    for (at, program) in [(RAM, &start), (HANDLER, &handler), (PROGRAM, program)] {
        put(&ram, at, program);
    }
    for page in PAGES {
        for at in (page..page + 0x1000).step_by(8) {
            // Each byte of it differs from those around it, and the pages from each other.
            ram.store(at, 8, at.wrapping_mul(0x9E37_79B9_7F4A_7C15))
                .expect("in RAM");
        }
    }
    ram
}

/// What the program leaves in registers and in both pages.
fn end(compiled: bool, program: &Asm) -> Vec<u64> {
    let ram = machine(program);
    let hart = run(&ram, compiled);
    let mut state: Vec<_> = (0..32).map(|register| hart.x(register)).collect();
    state.extend((0..32).map(|register| hart.f(register)));
    for page in PAGES {
        // One page before and one behind: nothing is written there.
        let words = (page - 0x1000..page + 0x2000).step_by(8);
        state.extend(words.map(|at| ram.load(at, 8).expect("in RAM")));
    }
    state
}

/// Promise: accesses that reach into the next page find it where it is mapped, alone and one beside
/// the other, at every distance from the border.
#[test]
fn accesses_across_pages_are_translated_twice() {
    let load = |kind: u32, to: u32, at: i32| i(0x03, kind, to, S0, at);
    let store = |kind: u32, from: u32, at: i32| s(0x23, kind, S0, from, at);
    for kind in 0..4 {
        let bytes = 1 << kind;
        for distance in 0..=2 * bytes {
            let mut a = Asm::new(PROGRAM);
            a.li(S0, SEEN).li(T3, 0x1122_3344_5566_7788).li(T2, 4);
            // Both pages are in the TLB.
            a.ld(T0, S0, 0).sd(T0, S0, 0);
            a.li(S0, SEEN + 0x1000).ld(T0, S0, 0).sd(T0, S0, 0);
            a.li(S0, SEEN + 0x1000 - distance);
            let again = a.here();
            // One, and two with the same base.
            a.w(load(kind, 14, 0));
            a.addi(15, 14, 0);
            a.w(load(kind, 16, 0));
            a.w(load(kind, 17, bytes as i32));
            a.w(store(kind, T3, 0));
            // Other bytes everywhere, in each round
            a.w(i(0x13, 4, T3, T3, -1));
            a.w(store(kind, T3, 0));
            a.w(store(kind, T3, bytes as i32));
            a.addi(T2, T2, -1);
            a.bne(T2, ZERO, again);
            finish(&mut a);
            let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
            assert_eq!(interpreted[A0 as usize], 0, "no exceptions");
            assert!(
                interpreted == compiled,
                "{bytes} bytes, {distance} before the border"
            );
        }
    }
}

/// Registers that the machine and the loop do not use.
const FREE: [Reg; 20] = [
    3, 4, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 30,
];

fn pick(below: &mut dyn FnMut(u64) -> u64, of: &[Reg]) -> Reg {
    of[below(of.len() as u64) as usize]
}

/// Numbers below a limit, the same for the same seed.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    }
}

/// A block of instructions that compute, load and store in registers of which nothing else knows,
/// the accesses near `s0`. Among what they compute are words, and what compilers write for an
/// extension or a rotation.
fn long_block(a: &mut Asm, seed: u64) {
    let mut below = numbers(seed);
    // Those that are used much, and all that are free.
    let often: [Reg; 9] = std::array::from_fn(|_| pick(&mut below, &FREE));
    for _ in 0..16 {
        let register = |below: &mut dyn FnMut(u64) -> u64| match below(4) {
            0 => pick(below, &FREE),
            _ => pick(below, &often),
        };
        let kind = below(7);
        for _ in 0..=below(3) {
            let (to, from) = (register(&mut below), register(&mut below));
            let at = 8 * below(8) as i32;
            let inst = match kind {
                0 => i(0x03, 3, to, S0, at),
                1 => s(0x23, 3, S0, from, at),
                2 | 3 => r(0x33, below(2) as u32 * 4, 0, to, to, from),
                4 => r(0x3B, 0, below(2) as u32 * 0x20, to, to, from),
                // slli to,from,n; srli to,to,n-2 or less
                5 => {
                    let left = [32, 48, 56][below(3) as usize];
                    a.w(i(0x13, 1, to, from, left));
                    i(0x13, 5, to, to, left - below(3) as i32)
                }
                // srliw to,from,n; slliw other,from,32-n; or to,to,other
                _ => {
                    let other = register(&mut below);
                    let right = 1 + below(31) as i32;
                    a.w(i(0x1B, 5, to, from, right));
                    a.w(i(0x1B, 1, other, from, 32 - right));
                    r(0x33, 6, 0, to, to, other)
                }
            };
            a.w(inst);
        }
    }
}

/// Promise: where registers are moved around in long blocks they have their values before, in, and
/// after accesses that compiled code leaves to the interpreter, and in exceptions.
#[test]
fn long_blocks_keep_their_values_where_pages_are_looked_up() {
    for seed in 1..80 {
        let mut a = Asm::new(PROGRAM);
        for (n, register) in FREE.into_iter().enumerate() {
            a.li(register, 0x1234_5678_9ABC * (n as u64 + 1));
        }
        a.li(S0, SEEN).li(S1, 0x1000).li(T2, 4);
        let again = a.here();
        long_block(&mut a, seed);
        // The other page, which nobody has accessed in the first round, one that is not there, and
        // the first again.
        a.w(r(0x33, 4, 0, S0, S0, S1));
        a.li(T0, 0x1000);
        a.w(r(0x33, 0, 0, S1, S1, T0));
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
        assert_ne!(interpreted[A0 as usize], 0, "exceptions");
        assert!(interpreted == compiled, "seed {seed}");
    }
}

/// Runs of loads or stores of floating point near `s0`, and of instructions that compute with what
/// is there.
fn float_block(a: &mut Asm, seed: u64) {
    let mut below = numbers(seed);
    let often: [Reg; 5] = std::array::from_fn(|_| below(32) as Reg);
    for _ in 0..8 {
        let (kind, precision) = (below(5), below(2) as u32);
        for _ in 0..=below(5) {
            let mut register = || match below(3) {
                0 => below(32) as Reg,
                _ => often[below(5) as usize],
            };
            let (to, one, other) = (register(), register(), register());
            let at = 4 * below(16) as i32;
            a.w(match kind {
                0 | 1 => i(0x07, 2 + precision, to, S0, at),
                2 => s(0x27, 2 + precision, S0, one, at),
                // Additions and `fsgnj`
                3 => r(0x53, 7, precision, to, one, other),
                _ => r(0x53, 0, 0x10 | precision, to, one, other),
            });
        }
        if below(3) == 0 {
            let to = pick(&mut below, &FREE);
            a.ld(to, S0, 8).ld(S1, S0, 24).addi(to, to, 1);
        }
    }
}

/// Promise: runs of loads and stores of floating point do what each of them does: across pages, in
/// pages that nobody has accessed, that are not there, or that share a place in the TLB, and while
/// FS is not Dirty yet.
#[test]
fn runs_of_floating_point_accesses_do_what_single_ones_do() {
    for seed in 1..120 {
        let mut a = Asm::new(PROGRAM);
        a.li(T2, 4);
        let again = a.here();
        // Off, Dirty, Clean, Initial
        a.li(T0, status::FS);
        a.w(trapless_asm::csrc(csr::SSTATUS, T0));
        a.w(i(0x13, 1, T0, T2, 13));
        a.csrs(csr::SSTATUS, T0);
        for at in [SEEN, SEEN + 0x1000 - seed % 72, USER - 64, SEEN + 0x40] {
            a.li(S0, at);
            float_block(&mut a, seed);
            a.w(trapless_asm::csrr(T0, csr::SSTATUS));
            a.w(r(0x33, 0, 0, T3, T3, T0));
        }
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
        assert!(interpreted == compiled, "seed {seed}");
    }
}

/// Promise: what is loaded from a page that nobody has accessed is there in the next instruction,
/// in a function, too, where registers stay in their place.
#[test]
fn what_is_loaded_is_there_at_once() {
    const ROUNDS: u64 = 50;
    const FIRST: u64 = RAM + 0x1_0000;
    let load = |to, at| i(0x03, 3, to, S0, at);
    for loads in [vec![load(21, 8)], vec![load(20, 0), load(21, 8)]] {
        let mut a = Asm::new(RAM);
        let function = a.label();
        a.li(S0, FIRST)
            .li(S1, 0x1000)
            .li(T2, ROUNDS)
            .la(T3, function);
        let again = a.here();
        a.w(jalr(1, T3, 0));
        a.w(r(0x33, 0, 0, S0, S0, S1));
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        a.bind(function);
        for load in loads {
            a.w(load);
        }
        a.addi(19, 21, 1);
        a.w(r(0x33, 0, 0, 18, 18, 19));
        a.w(jalr(ZERO, 1, 0));
        let end = |compiled| {
            let ram = Ram::new(RAM, SIZE).expect("RAM");
            for page in (FIRST..).step_by(0x1000).take(ROUNDS as usize) {
                ram.store(page + 8, 8, page * page).expect("in RAM");
            }
            put(&ram, RAM, &a);
            run(&ram, compiled).x(18)
        };
        let sum = (FIRST..).step_by(0x1000).take(ROUNDS as usize);
        let sum = sum.fold(0_u64, |sum, page| sum.wrapping_add(page * page + 1));
        assert_eq!([false, true].map(end), [sum, sum]);
    }
}

/// The hart after a program in M-mode, with these doublewords in RAM.
fn run_with(compiled: bool, program: &Asm, words: &[(u64, u64)]) -> Hart {
    let ram = Ram::new(RAM, SIZE).expect("RAM");
    for &(at, value) in words {
        ram.store(at, 8, value).expect("in RAM");
    }
    put(&ram, RAM, program);
    run(&ram, compiled)
}

/// Promise: a load may replace the address that the next one uses, and a floating-point register
/// with the same number is another one.
#[test]
fn pointers_are_followed_in_runs_of_loads() {
    const ROUNDS: u64 = 20;
    const FIRST: u64 = RAM + 0x1_0000;
    let mut a = Asm::new(RAM);
    a.li(T0, status::FS).csrs(csr::MSTATUS, T0);
    a.li(T2, ROUNDS);
    let again = a.here();
    a.li(20, FIRST);
    a.ld(20, 20, 0).ld(20, 20, 8).ld(21, 20, 16);
    // fld of the register with the number of the base, then of another one
    a.w(i(0x07, 3, 20, 20, 24));
    a.w(i(0x07, 3, 19, 20, 32));
    a.w(r(0x33, 0, 0, 18, 18, 21));
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let (second, third) = (FIRST + 0x100, FIRST + 0x2000);
    let end = |compiled| {
        let hart = run_with(
            compiled,
            &a,
            &[
                (FIRST, second),
                (second + 8, third),
                (third + 16, 7),
                (third + 24, 11),
                (third + 32, 13),
            ],
        );
        [hart.x(18), hart.f(20), hart.f(19)]
    };
    assert_eq!([false, true].map(end), [[7 * ROUNDS, 11, 13]; 2]);
}

/// Promise: what an atomic instruction loads is an address in the next instruction.
#[test]
fn pointers_that_atomics_load_are_followed() {
    const ROUNDS: u64 = 50;
    const POINTER: u64 = RAM + 0x1_0000;
    const VALUE: u64 = RAM + 0x1_2000;
    let mut a = Asm::new(RAM);
    a.li(S0, POINTER).li(T2, ROUNDS);
    let again = a.here();
    // amoor.d and lr.d into registers that compiled code keeps in memory
    for (to, kind) in [(20, 0x20), (22, 0x08)] {
        a.w(r(0x2F, 3, kind, to, S0, ZERO));
        a.ld(21, to, 0);
        a.w(r(0x33, 0, 0, 18, 18, 21));
    }
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let end = |compiled| run_with(compiled, &a, &[(POINTER, VALUE), (VALUE, 7)]).x(18);
    assert_eq!([false, true].map(end), [2 * 7 * ROUNDS; 2]);
}

/// Promise: stores to a page that can only be read are refused, whatever is loaded beside them.
#[test]
fn a_page_that_can_be_read_is_not_written() {
    const ROUNDS: u64 = 20;
    let mut a = Asm::new(PROGRAM);
    a.li(S0, READABLE).li(T2, ROUNDS);
    let again = a.here();
    a.ld(T0, S0, 0).addi(T3, T0, 1).sd(T3, S0, 8).ld(T3, S0, 16);
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
    assert_eq!(interpreted[A0 as usize], ROUNDS);
    assert!(interpreted == compiled);
}

/// Promise: S-mode has access to pages of U-mode while SUM is set, and no longer.
#[test]
fn pages_of_user_mode_need_sum() {
    const ROUNDS: u64 = 20;
    let mut a = Asm::new(PROGRAM);
    a.li(S0, USER).li(S1, status::SUM).li(T2, ROUNDS);
    let again = a.here();
    a.csrs(csr::SSTATUS, S1);
    a.sd(T2, S0, 0).ld(T3, S0, 0);
    a.w(trapless_asm::csrc(csr::SSTATUS, S1));
    // Three exceptions.
    a.ld(T3, S0, 0).sd(T2, S0, 8).ld(T3, S0, 16);
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
    assert_eq!(interpreted[A0 as usize], 3 * ROUNDS);
    assert!(interpreted == compiled);
}

/// Promise: `cbo.zero` is an illegal instruction in S-mode until M-mode allows it.
#[test]
fn zeroing_blocks_needs_permission() {
    let mut a = Asm::new(PROGRAM);
    a.li(S0, SEEN).li(T2, 5);
    let again = a.here();
    // The page is in the TLB.
    a.sd(T2, S0, 0);
    a.w(0x0044_200F); // cbo.zero (s0)
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
    assert_eq!(interpreted[A0 as usize], 5);
    assert!(interpreted == compiled);
}

/// Promise: a store-conditional fails if the load-reserved had another size, if the value has
/// changed since, and if there was another one before it.
#[test]
fn a_store_conditional_needs_its_own_reservation() {
    const WORD: u32 = 2;
    const DOUBLEWORD: u32 = 3;
    let load = |size| r(0x2F, size, 0x08, T0, S0, ZERO);
    let store = |result, size| r(0x2F, size, 0x0C, result, S0, T0);
    let mut a = Asm::new(PROGRAM);
    a.li(S0, SEEN).li(T2, 5);
    a.li(T3, 7).sd(T3, S0, 0);
    let again = a.here();
    for (result, first, second) in [(14, WORD, DOUBLEWORD), (15, DOUBLEWORD, WORD)] {
        a.w(load(first));
        a.w(store(result, second));
    }
    a.w(load(DOUBLEWORD));
    a.addi(T0, T0, 1).sd(T0, S0, 0);
    a.w(store(16, DOUBLEWORD));
    // What was loaded is stored, so that nothing changes.
    a.w(load(DOUBLEWORD));
    a.w(store(17, DOUBLEWORD));
    a.w(store(18, DOUBLEWORD));
    a.addi(T2, T2, -1);
    a.bne(T2, ZERO, again);
    finish(&mut a);
    let [interpreted, compiled] = [false, true].map(|compiled| end(compiled, &a));
    assert_eq!(interpreted[14..19], [1, 1, 1, 0, 1]);
    assert!(interpreted == compiled);
}

/// Promise: which of the pages that share a place in the TLB stay there, which costs time, does not
/// depend on whether a loop looks for one of them once or each time.
#[test]
fn pages_that_share_a_place_replace_each_other_as_ever() {
    /// Pages so far from each other share a place; each is in a mapping of its own.
    const APART: u64 = 4096 << 12;
    let pages: Vec<u64> = (1..4).map(|n| SEEN + n * APART).collect();
    let end = |compiled| {
        let mut a = Asm::new(PROGRAM);
        a.li(S0, pages[0] + 0x1_2000).li(S1, pages[1] + 0x1_2000);
        a.li(T3, pages[1] ^ pages[2]).li(T2, 500);
        let again = a.here();
        for load in [S0, S1, S0] {
            a.w(i(0x03, 3, A0, load, 8));
            a.w(r(0x33, 0, 0, ZERO + 15, 15, A0));
        }
        a.w(r(0x33, 4, 0, S1, S1, T3));
        for load in [S1, S0] {
            a.w(i(0x03, 3, A0, load, 8));
            a.w(r(0x33, 0, 0, ZERO + 15, 15, A0));
        }
        // In turns, one of them is found in the second way, or not at all.
        a.w(i(0x13, 7, ZERO + 16, T2, 3));
        let same = a.label();
        a.bne(ZERO + 16, ZERO, same);
        a.w(r(0x33, 4, 0, S1, S1, T3));
        a.bind(same);
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        let ram = machine(&a);
        for page in &pages {
            // All show the start of RAM.
            let entry = RAM + 0x9000 + ((page - SEEN) >> 21) * 8;
            ram.store(entry, 8, RAM >> 12 << 10 | 0xCF).expect("in RAM");
        }
        let hart = run(&ram, compiled);
        (hart.x(15), hart.now(), hart.instret())
    };
    assert_eq!(end(false), end(true));
}

/// Promise: nothing is found at the last address or the first one while nothing is mapped there,
/// alone and one beside the other.
#[test]
fn the_ends_of_the_address_space_are_not_mapped() {
    let end = |compiled| {
        let mut a = Asm::new(PROGRAM);
        a.li(T2, 3);
        let again = a.here();
        for at in [-16, 0] {
            a.w(i(0x03, 3, 11, ZERO, at));
        }
        for at in [-8, 8] {
            a.w(s(0x23, 3, ZERO, ZERO, at));
        }
        a.w(i(0x03, 3, 12, ZERO, 0));
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        run(&machine(&a), compiled).x(A0 as usize)
    };
    assert_eq!([false, true].map(end), [15, 15]);
}
