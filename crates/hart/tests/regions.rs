//! Loops that are compiled as regions do what their blocks do, at the same times: random flow
//! graphs in two pages, whose blocks compute, access memory, and sometimes trap, while a device
//! writes other instructions.

mod common;
mod programs;
#[allow(dead_code)]
#[path = "fuzz/rng.rs"]
mod rng;

use common::Nothing;
use rng::Rng;
use trapless_asm::reg::{A0, S0, S1, T0, T1, ZERO};
use trapless_asm::{Asm, Label, Reg, addi, auipc, csrr, csrw, i, jalr, lui, r, s};
use trapless_hart::{CodeCache, CostModel, Hart, HartConfig, Ram, Snapshot, Tiers};
use trapless_isa::csr::{self, status};

const RAM: u64 = 0x8000_0000;
const SIZE: u64 = 4 << 20;
/// Where the blocks are: most in the next page.
const CODE: u64 = RAM + 0x2F80;
const HANDLER: u64 = RAM + 0x1000;
const DATA: u64 = RAM + 0x8000;

/// A register that anything may be written to.
fn any(rng: &mut Rng) -> Reg {
    loop {
        let x = rng.below(32) as Reg;
        if x != S0 && x != S1 {
            return x;
        }
    }
}

/// Base and offset of an access: s0 is where data is; s1 leaves RAM now and then.
fn address(rng: &mut Rng) -> (Reg, i32) {
    match rng.below(6) {
        0 | 1 => (S1, 0),
        2 => (S0, rng.below(512) as i32 - 8),
        _ => (S0, rng.below(64) as i32 * 8),
    }
}

/// An instruction of F or D.
fn floating_point(rng: &mut Rng) -> u32 {
    let (x, (base, near)) = (any(rng), address(rng));
    let [single, double] = [0, 1];
    let format = rng.pick(&[single, double]);
    // A region keeps registers that have one format only. Now and then there are more than the host
    // has.
    let f = |rng: &mut Rng, format: u32| {
        let format = match rng.below(20) {
            0 => rng.pick(&[single, double]),
            _ => format,
        };
        let most = rng.pick(&[4, 4, 16]);
        format as Reg * 16 + rng.below(most) as Reg
    };
    let (d, a, b, c) = (
        f(rng, format),
        f(rng, format),
        f(rng, format),
        f(rng, format),
    );
    let dynamic = 7;
    let op = |of: u32| of << 2 | format;
    match rng.below(18) {
        // fmin and fmax are the interpreter's, and change the format of the register.
        16 | 17 => r(0x53, rng.below(2) as u32, op(5), f(rng, 1 - format), a, b),
        0..=3 => r(0x53, dynamic, op(rng.below(4) as u32), d, a, b), // fadd, fsub, fmul, fdiv
        4 => r(0x43, dynamic, c << 2 | format, d, a, b),             // fmadd
        5 => r(0x4B, dynamic, c << 2 | format, d, a, b),             // fnmsub
        6 => r(0x53, rng.below(3) as u32, op(4), d, a, b),           // fsgnj, fsgnjn, fsgnjx
        7 => r(0x53, rng.below(3) as u32, op(0x14), x, a, b),        // fle, flt, feq
        8 | 9 => i(0x07, 2 + format, d, base, near),                 // flw, fld
        10 | 11 => s(0x27, 2 + format, base, b, near),               // fsw, fsd
        12 => r(0x53, dynamic, 0x20, f(rng, single), f(rng, double), 1), // fcvt.s.d
        13 => r(0x53, dynamic, 0x21, f(rng, double), f(rng, single), 0), // fcvt.d.s
        14 => r(0x53, 0, op(0x1E), d, rng.pick(&[x, ZERO]), 0),      // fmv.w.x, fmv.d.x
        _ => r(0x53, 0, op(0x1C), x, a, 0),                          // fmv.x.w, fmv.x.d
    }
}

/// An instruction that does not end a block.
fn instruction(rng: &mut Rng) -> u32 {
    let (rd, a, b) = (any(rng), any(rng), any(rng));
    let imm = rng.below(4096) as i32 - 2048;
    let (base, near) = address(rng);
    match rng.below(26) {
        0..=5 => r(0x33, rng.below(8) as u32, 0, rd, a, b),
        6 => r(0x33, rng.below(8) as u32, 1, rd, a, b),
        7 => r(0x3B, 0, rng.pick(&[0, 0x20]), rd, a, b),
        8..=10 => addi(rd, a, imm),
        11 => i(0x13, 1, rd, a, imm & 63),
        12 => lui(rd, imm as u32 & 0xFFFFF),
        13 => auipc(rd, imm as u32 & 0xFFFFF),
        14 | 15 => i(0x03, rng.below(7) as u32, rd, base, near),
        16 | 17 => s(0x23, rng.below(4) as u32, base, b, near),
        18 => addi(S1, S1, imm & !7),
        19 => r(0x2F, 3, 0, rd, base, b), // amoadd.d
        20..=24 => floating_point(rng),
        _ => addi(4, a, 0),
    }
}

/// Blocks that lead to each other.
fn code(rng: &mut Rng) -> Asm {
    let mut a = Asm::new(CODE);
    let count = 1 + rng.below(12);
    let labels: Vec<Label> = (0..count).map(|_| a.label()).collect();
    for label in &labels {
        a.bind(*label);
        for _ in 0..rng.below(10) {
            a.w(instruction(rng));
        }
        let to = rng.pick(&labels);
        match rng.below(10) {
            0 => a.j(to),
            1 => a.word(csrr(any(rng), csr::INSTRET)),
            2 => &mut a,
            _ => a.branch(rng.pick(&[0, 1, 4, 5, 6, 7]), any(rng), any(rng), to),
        };
    }
    a.j(labels[0]);
    a
}

/// Resumes after what trapped, with s1 back at the data.
fn handler() -> Asm {
    let mut a = Asm::new(HANDLER);
    a.w(csrw(csr::MSCRATCH, T0));
    a.w(csrr(T0, csr::MEPC));
    a.addi(T0, T0, 4);
    a.w(csrw(csr::MEPC, T0));
    a.w(csrr(T0, csr::MSCRATCH));
    a.addi(S1, S0, 0);
    a.mret();
    a
}

/// The states at some times of the program of a seed, and how many regions there were.
fn states(seed: u64, tiers: Option<Tiers>) -> (Vec<Snapshot>, u64) {
    let rng = &mut Rng::new(seed);
    let ram = Ram::new(RAM, SIZE).expect("RAM");
    for (start, asm) in [(CODE, code(rng)), (HANDLER, handler())] {
        for (address, byte) in (start..).zip(asm.finish()) {
            ram.store(address, 1, byte.into()).expect("in RAM");
        }
    }
    for at in 0..512 {
        let special = [f64::INFINITY, -f64::INFINITY, f64::NAN, 0.0, 1.5];
        let value = match rng.below(4) {
            0 => rng.pick(&special).to_bits(),
            1 => u64::MAX << 32 | u64::from((rng.pick(&special) as f32).to_bits()),
            _ => rng.integer(),
        };
        ram.store(DATA + 8 * at, 8, value).expect("in RAM");
    }
    let mut price = || 1 + rng.below(5) as u32;
    let cost = CostModel {
        simple: price(),
        mul: price(),
        load: price(),
        store: price(),
        fp: price(),
        branch: price(),
        ..CostModel::default()
    };
    // Near the end of a page, accesses by one base register may be in two; at an odd address, only
    // bytes are aligned.
    let data = rng.pick(&[DATA, DATA + 0xF00, DATA + 0xF03]);
    let config = HartConfig {
        reset_pc: CODE,
        cost,
        misaligned: rng.chance(70),
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if let Some(tiers) = tiers {
        if !code.compile(tiers, &config) {
            eprintln!("this host has no compiler");
        }
    }
    let mut hart = Hart::new(0, config, ram.clone());
    for x in 1..32 {
        hart.set_x(x, rng.integer());
    }
    hart.set_x(S0 as usize, data);
    hart.set_x(S1 as usize, data);
    hart.poke_csr(csr::MTVEC, HANDLER, &mut Nothing);
    hart.poke_csr(csr::MSTATUS, status::FS, &mut Nothing);
    let mut until = 0;
    let states = (0..40).map(|_| {
        let most = rng.pick(&[50, 3000]);
        until += 1 + rng.below(most);
        hart.run(&mut code, &mut Nothing, until, None);
        if rng.chance(20) {
            let at = CODE + 4 * rng.below(60);
            ram.store(at, 4, instruction(rng).into()).expect("in RAM");
            ram.written_by_device();
            code.compare(&ram);
        }
        let mut state = Snapshot::default();
        state.take(&hart);
        state
    });
    let states = states.collect();
    (states, code.statistics().regions_compiled)
}

/// Promise: whenever regions are made, a hart is in the same state at the same times.
#[test]
fn regions_are_not_seen() {
    let mut regions = 0;
    for seed in 0..1500 {
        let (expected, _) = states(seed, None);
        for region in [Some(0), Some(500)] {
            let (found, made) = states(seed, Some(Tiers { hot: 0, region }));
            regions += made;
            for (slice, (expected, found)) in expected.iter().zip(&found).enumerate() {
                let differences = expected.differences(found);
                assert!(
                    differences.is_empty(),
                    "seed {seed}, region {region:?}, slice {slice}: {differences:x?}"
                );
            }
        }
    }
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert!(regions > 1500, "{regions} regions");
    }
}

/// Promise: where two ways meet, a register has the value of the way that was taken, also if there
/// are more registers than the host has, and one way has nothing but a jump at its end.
#[test]
fn a_register_has_the_value_of_the_way_that_was_taken() {
    const OFTEN: std::ops::Range<Reg> = 10..18;
    const SELDOM: Reg = 19;
    let mut a = Asm::new(RAM);
    a.li(5, 1).li(7, 20);
    let again = a.here();
    let meet = a.label();
    a.w(i(0x13, 4, 5, 5, 1));
    a.bne(5, ZERO, meet);
    a.addi(SELDOM, 12, 3);
    a.j(meet);
    a.bind(meet);
    a.addi(A0, SELDOM, 1);
    a.w(r(0x33, 0, 0, 11, 11, A0));
    for register in OFTEN.chain(OFTEN) {
        a.w(r(0x33, 0, 0, register, register, register));
    }
    a.addi(7, 7, -1);
    a.bne(7, ZERO, again);
    programs::finish(&mut a);
    let end = |compiled| {
        let ram = Ram::new(RAM, SIZE).expect("RAM");
        programs::put(&ram, RAM, &a);
        let hart = programs::run(&ram, compiled);
        (0..32).map(|x| hart.x(x)).collect::<Vec<_>>()
    };
    assert_eq!(end(false), end(true));
}

/// Promise: a region that is made of code which a device may have written meanwhile does not run
/// before that code is compared with memory.
#[test]
fn a_region_of_code_that_was_written_is_not_entered() {
    const LOOP: u64 = RAM + 0x4000;
    const OTHER: u64 = RAM + 0x5000;
    const WAIT: u64 = 10_000;
    let end = |tiers: Option<Tiers>| {
        let ram = Ram::new(RAM, SIZE).expect("RAM");
        // Counts in a loop of its own page, and waits in another one, in turns.
        let mut a = Asm::new(LOOP);
        let again = a.here();
        a.addi(A0, A0, 1);
        a.addi(T1, T1, -1);
        a.bne(T1, ZERO, again);
        a.w(jalr(ZERO, S0, 0));
        let mut b = Asm::new(OTHER);
        b.li(T1, WAIT);
        let wait = b.here();
        b.addi(T1, T1, -1);
        b.bne(T1, ZERO, wait);
        b.li(T1, 50);
        b.w(jalr(ZERO, S1, 0));
        for (start, asm) in [(LOOP, a), (OTHER, b)] {
            for (address, byte) in (start..).zip(asm.finish()) {
                ram.store(address, 1, byte.into()).expect("in RAM");
            }
        }
        let config = HartConfig {
            reset_pc: OTHER,
            ..HartConfig::default()
        };
        let mut code = CodeCache::new(&ram, config.extensions, config.cost);
        if let Some(tiers) = tiers {
            code.compile(tiers, &config);
        }
        let mut hart = Hart::new(0, config, ram.clone());
        hart.set_x(S0 as usize, OTHER);
        hart.set_x(S1 as usize, LOOP);
        let mut until = 0;
        // Twice through the loop, and into the third wait.
        while hart.x(A0 as usize) != 100 {
            until += WAIT / 10;
            hart.run(&mut code, &mut Nothing, until, None);
            assert!(hart.pc() >= OTHER, "the loop is not seen yet");
        }
        ram.store(LOOP, 4, addi(A0, A0, 100).into())
            .expect("in RAM");
        ram.written_by_device();
        code.compare(&ram);
        // The next limit is where the loop begins.
        while hart.pc() != LOOP {
            until += 1;
            hart.run(&mut code, &mut Nothing, until, None);
        }
        until += 1000;
        hart.run(&mut code, &mut Nothing, until, None);
        (hart.x(A0 as usize), hart.now(), hart.instret())
    };
    let region = Some(1);
    assert_eq!(end(None), end(Some(Tiers { hot: 0, region })));
}
