//! Calls and returns. Compiled code predicts where a function returns to by what called it; what it
//! executes is decided by registers and translation.

mod common;
mod programs;

use programs::{RAM, finish, put, run};
use trapless_asm::reg::{A0, A1, RA, S0, S2, SP, T0, T2, T3, T4, ZERO};
use trapless_asm::{Asm, addi, jal, jalr};
use trapless_hart::Ram;
use trapless_isa::csr;

const FUNCTION: u64 = RAM + 0x2000;
const SIZE: u64 = 8 << 20;
const STACK: u64 = RAM + SIZE;

/// What the program leaves in `a0`, and the counters then.
fn end(compiled: bool, load: impl Fn(&Ram)) -> [u64; 3] {
    let ram = Ram::new(RAM, SIZE).expect("RAM");
    load(&ram);
    let hart = run(&ram, compiled);
    [hart.x(A0 as usize), hart.now(), hart.instret()]
}

/// Promise: recursion may be deeper than what is predicted, and than this program's own stack.
#[test]
fn deep_recursion_returns_to_each_caller() {
    const DEPTH: u64 = 400_000;
    let load = |ram: &Ram| {
        let mut a = Asm::new(RAM);
        a.li(SP, STACK).li(A1, DEPTH).li(S0, FUNCTION);
        for _ in 0..3 {
            a.w(jalr(RA, S0, 0));
            a.li(A1, DEPTH);
        }
        finish(&mut a);
        put(ram, RAM, &a);
        let mut f = Asm::new(FUNCTION);
        let out = f.label();
        f.addi(SP, SP, -16).sd(RA, SP, 0);
        f.addi(A1, A1, -1);
        f.beq(A1, ZERO, out);
        f.w(jalr(RA, S0, 0));
        f.addi(A0, A0, 1);
        f.bind(out);
        f.ld(RA, SP, 0).addi(SP, SP, 16);
        f.w(jalr(ZERO, RA, 0));
        put(ram, FUNCTION, &f);
    };
    let ends = [false, true].map(|compiled| end(compiled, load));
    assert_eq!(ends[0][0], 3 * (DEPTH - 1));
    assert_eq!(ends[0], ends[1]);
}

/// Promise: a function may return to its caller's caller, or anywhere else.
#[test]
fn a_return_goes_where_the_register_says() {
    const ROUNDS: u64 = 200;
    let load = |ram: &Ram| {
        let mut a = Asm::new(RAM);
        let inner = FUNCTION + 0x100;
        a.li(T2, ROUNDS).li(S0, FUNCTION).li(S2, inner);
        let again = a.here();
        a.w(jalr(RA, S0, 0));
        a.addi(A0, A0, 1);
        a.addi(T2, T2, -1);
        a.bne(T2, ZERO, again);
        finish(&mut a);
        put(ram, RAM, &a);
        // Calls a function that returns to our caller in one of two rounds.
        let mut f = Asm::new(FUNCTION);
        f.addi(T3, RA, 0);
        f.w(jalr(RA, S2, 0));
        f.addi(A0, A0, 1000);
        f.addi(RA, T3, 0);
        f.w(jalr(ZERO, RA, 0));
        put(ram, FUNCTION, &f);
        let mut g = Asm::new(inner);
        let home = g.label();
        g.andi(T0, T2, 1);
        g.beq(T0, ZERO, home);
        g.addi(RA, T3, 0);
        g.bind(home);
        g.w(jalr(ZERO, RA, 0));
        put(ram, inner, &g);
    };
    let ends = [false, true].map(|compiled| end(compiled, load));
    assert_eq!(ends[0][0], ROUNDS + ROUNDS / 2 * 1000);
    assert_eq!(ends[0], ends[1]);
}

/// Promise: a return goes to any address if no function was called, and its lowest bit does not
/// count.
#[test]
fn a_return_without_a_call_goes_where_the_register_says() {
    const ROUNDS: u64 = 50;
    // Nothing is at 0; a function is at the last one.
    for to in [0, 1, 2, u64::MAX, FUNCTION + 1] {
        let load = |ram: &Ram| {
            let mut a = Asm::new(RAM);
            let (back, handler) = (a.label(), a.label());
            a.la(T0, handler).csrw(csr::MTVEC, T0);
            a.li(T2, ROUNDS).la(T3, back);
            let again = a.here();
            a.li(RA, to);
            a.w(jalr(ZERO, RA, 0));
            a.bind(back);
            a.addi(T2, T2, -1);
            a.bne(T2, ZERO, again);
            finish(&mut a);
            // Vectors begin at multiples of 4.
            while a.pc() % 4 != 0 {
                a.h(0x0001);
            }
            a.bind(handler);
            a.csrr(T4, csr::MEPC)
                .w(trapless_asm::r(0x33, 0, 0, A0, A0, T4));
            a.addi(A0, A0, 3);
            a.csrw(csr::MEPC, T3).mret();
            put(ram, RAM, &a);
            let mut f = Asm::new(FUNCTION);
            f.addi(A0, A0, 1);
            f.w(jalr(ZERO, T3, 0));
            put(ram, FUNCTION, &f);
        };
        let ends = [false, true].map(|compiled| end(compiled, load));
        let once = match to & !1 {
            FUNCTION => 1,
            nowhere => nowhere.wrapping_add(3),
        };
        assert_eq!(ends[0][0], once.wrapping_mul(ROUNDS), "{to:#x}");
        assert_eq!(ends[0], ends[1], "{to:#x}");
    }
}

/// Promise: code in pages that share a place in the TLB is found, by calls and by jumps, where an
/// instruction says, and where a register says.
#[test]
fn code_in_pages_that_share_a_place_is_found() {
    const ROUNDS: u64 = 200;
    const APART: u64 = 4096 << 12;
    const BESIDE: u64 = FUNCTION + 0x1000;
    // The page that is accessed first is in another way than the second one.
    for far_first in [false, true] {
        let ram = |compiled| {
            let ram = Ram::new(RAM, APART + SIZE).expect("RAM");
            let mut a = Asm::new(RAM);
            let back = [a.label(), a.label()];
            a.li(S0, FUNCTION + APART).li(S2, BESIDE + APART);
            a.li(T2, ROUNDS).la(T3, back[0]).la(T4, back[1]);
            let again = a.here();
            for far in [far_first, !far_first] {
                let at = a.pc();
                a.w(if far {
                    jalr(RA, S0, 0)
                } else {
                    jal(RA, (FUNCTION - at) as i32)
                });
            }
            for (far, back) in [far_first, !far_first].into_iter().zip(back) {
                let at = a.pc();
                a.w(if far {
                    jalr(ZERO, S2, 0)
                } else {
                    jal(ZERO, (BESIDE - at) as i32)
                });
                a.bind(back);
            }
            a.addi(T2, T2, -1);
            a.bne(T2, ZERO, again);
            finish(&mut a);
            put(&ram, RAM, &a);
            for (far, add) in [(0, 1), (APART, 30)] {
                let mut f = Asm::new(FUNCTION + far);
                f.addi(A0, A0, add);
                f.w(jalr(ZERO, RA, 0));
                put(&ram, FUNCTION + far, &f);
                let mut g = Asm::new(BESIDE + far);
                g.addi(A0, A0, 10 * add);
                let to = if (far != 0) == far_first { T3 } else { T4 };
                g.w(jalr(ZERO, to, 0));
                put(&ram, BESIDE + far, &g);
            }
            let hart = run(&ram, compiled);
            [hart.x(A0 as usize), hart.now(), hart.instret()]
        };
        let ends = [false, true].map(ram);
        assert_eq!(ends[0][0], ROUNDS * 341);
        assert_eq!(ends[0], ends[1]);
    }
}

/// Promise: a function that maps another page where its caller was returns to that page.
#[test]
fn a_return_is_translated_as_it_is_now() {
    const ROUNDS: u64 = 200;
    const CALLER: u64 = 0x4000_0000;
    const PAGES: [u64; 2] = [RAM + 0x3000, RAM + 0x4000];
    let (root, level1, level0) = (RAM + 0x5000, RAM + 0x6000, RAM + 0x7000);
    let pointer = |table: u64| table >> 12 << 10 | 1;
    let leaf = |page: u64| page >> 12 << 10 | 0xCF;
    let load = |ram: &Ram| {
        let store = |at, value| ram.store(at, 8, value).expect("in RAM");
        store(root + 8, pointer(level1));
        store(root + 16, leaf(RAM));
        store(level1, pointer(level0));
        store(level0, leaf(PAGES[0]));
        let mut a = Asm::new(RAM);
        a.li(T0, u64::MAX).csrw(csr::PMPADDR0, T0);
        a.li(T0, 0x1F).csrw(csr::PMPCFG0, T0);
        a.li(T0, 8 << 60 | root >> 12).csrw(csr::SATP, T0);
        a.li(T0, 1 << 11).csrw(csr::MSTATUS, T0);
        a.li(T0, CALLER).csrw(csr::MEPC, T0);
        a.li(T2, ROUNDS).li(S0, FUNCTION);
        a.li(S2, leaf(PAGES[0])).li(T4, level0);
        a.li(T3, leaf(PAGES[0]) ^ leaf(PAGES[1]));
        a.mret();
        put(ram, RAM, &a);
        for (page, add) in PAGES.into_iter().zip([1, 100]) {
            let mut caller = Asm::new(page);
            let again = caller.here();
            caller.w(jalr(RA, S0, 0));
            caller.w(addi(A0, A0, add));
            caller.addi(T2, T2, -1);
            caller.bne(T2, ZERO, again);
            finish(&mut caller);
            put(ram, page, &caller);
        }
        let mut f = Asm::new(FUNCTION);
        f.w(trapless_asm::r(0x33, 4, 0, S2, S2, T3)); // xor
        f.sd(S2, T4, 0);
        f.sfence_vma(ZERO, ZERO);
        f.w(jalr(ZERO, RA, 0));
        put(ram, FUNCTION, &f);
    };
    let ends = [false, true].map(|compiled| end(compiled, load));
    assert_eq!(ends[0][0], ROUNDS / 2 * 101);
    assert_eq!(ends[0], ends[1]);
}

/// Promise: what S-mode called does not decide where M-mode, which it trapped to, returns to.
#[test]
fn a_return_in_another_mode_is_translated_there() {
    const ROUNDS: u64 = 200;
    /// S-mode calls here; M-mode sees another page at this address.
    const CALLER: u64 = RAM + 0x1000;
    const OTHER: u64 = RAM + 0x3000;
    const LOOP: u64 = RAM + 0x4000;
    const HANDLER: u64 = RAM + 0x8000;
    let (root, level1, level0) = (RAM + 0x5000, RAM + 0x6000, RAM + 0x7000);
    let load = |ram: &Ram| {
        let store = |at, value| ram.store(at, 8, value).expect("in RAM");
        store(root + 16, level1 >> 12 << 10 | 1);
        store(level1, level0 >> 12 << 10 | 1);
        for page in 0..256 {
            let at = RAM + page * 0x1000;
            let to = if at == CALLER { OTHER } else { at };
            store(level0 + 8 * page, to >> 12 << 10 | 0xCF);
        }
        let mut a = Asm::new(RAM);
        a.li(T0, u64::MAX).csrw(csr::PMPADDR0, T0);
        a.li(T0, 0x1F).csrw(csr::PMPCFG0, T0);
        a.li(T0, 8 << 60 | root >> 12).csrw(csr::SATP, T0);
        a.li(T0, HANDLER).csrw(csr::MTVEC, T0);
        a.li(T2, ROUNDS).li(S0, FUNCTION).li(S2, LOOP);
        a.li(T3, CALLER).li(T4, 1 << 11);
        a.w(jalr(ZERO, S2, 0));
        put(ram, RAM, &a);
        let mut again = Asm::new(LOOP);
        again.csrs(csr::MSTATUS, T4).csrw(csr::MEPC, T3).mret();
        put(ram, LOOP, &again);
        // In S-mode: the call; nothing returns here.
        let mut caller = Asm::new(OTHER);
        caller.w(jalr(RA, S0, 0));
        finish(&mut caller);
        put(ram, OTHER, &caller);
        // It traps: nothing is mapped there.
        let mut f = Asm::new(FUNCTION);
        f.ld(T0, ZERO, 0);
        f.w(jalr(ZERO, RA, 0));
        put(ram, FUNCTION, &f);
        let mut handler = Asm::new(HANDLER);
        handler.w(jalr(ZERO, RA, 0));
        put(ram, HANDLER, &handler);
        // In M-mode, behind where S-mode has its call.
        let mut back = Asm::new(CALLER + 4);
        let done = back.label();
        back.addi(A0, A0, 100);
        back.addi(T2, T2, -1);
        back.beq(T2, ZERO, done);
        back.w(jalr(ZERO, S2, 0));
        back.bind(done);
        finish(&mut back);
        put(ram, CALLER + 4, &back);
    };
    let ends = [false, true].map(|compiled| end(compiled, load));
    assert_eq!(ends[0][0], ROUNDS * 100);
    assert_eq!(ends[0], ends[1]);
}
