//! Instructions across pages in code that changes itself without `fence.i`.

mod common;

use common::Nothing;
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};

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
