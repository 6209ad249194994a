//! The code cache is bounded: programs larger than it run, and run the same.

mod common;

use common::Nothing;
use trapless_hart::{CodeCache, CodeLimits, CodeStatistics, Hart, HartConfig, Ram, Tiers};

const RAM: u64 = 0x8000_0000;
const DATA: u64 = RAM + (8 << 20);
const BLOCKS: u64 = 6000;
/// Times that each block runs before the next one's turn, and rounds through all of them.
const RUNS: u64 = 3;
const ROUNDS: u64 = 3;

/// `BLOCKS` loops, each different, that mix a sum with words of a table.
fn program(ram: &Ram) {
    let mut at = RAM;
    let mut put = |word: u64| {
        ram.store(at, 4, word).expect("in RAM");
        at += 4;
    };
    for block in 0..BLOCKS {
        let (odd, word) = (block % 2047, block % 250 * 8);
        put(RUNS << 20 | 0x0393); //                  li   t2, RUNS
        put(odd << 20 | 0x0003_0313); //         loop: addi t1, t1, odd
        put(word << 20 | 0x0002_be03); //              ld   t3, word(t0)
        put(0x01c3_4333); //                           xor  t1, t1, t3
        put(0x01f3_1e13); //                           slli t3, t1, 31
        put(0x01c3_0333); //                           add  t1, t1, t3
        let (high, low) = (word >> 5, word & 31);
        put(high << 25 | 0x0062_b023 | low << 7); //   sd   t1, word(t0)
        put(0xfff3_8393); //                           addi t2, t2, -1
        put(0xfe03_92e3); //                           bnez t2, loop
    }
    put(0x0014_8493); //                               addi s1, s1, 1
    // Bare jumps reach 1 MiB: the way back goes by a register.
    put(0x0004_0067); //                               jr   s0
}

/// Registers, table, time and instructions at the end, and what the cache did.
fn run(limits: CodeLimits, compiled: bool) -> (Vec<u64>, CodeStatistics) {
    let ram = Ram::new(RAM, 16 << 20).expect("RAM");
    program(&ram);
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    code.set_limits(limits);
    if compiled && !code.compile(Tiers::EAGER, &config) {
        eprintln!("this host has no compiler");
    }
    let mut hart = Hart::new(0, config, ram.clone());
    hart.set_x(5, DATA);
    hart.set_x(8, RAM);
    let mut slices = 0;
    while hart.x(9) < ROUNDS {
        slices += 1;
        assert!(slices < 10_000, "the program does not come to its end");
        hart.run(&mut code, &mut Nothing, slices * 1_000, None);
    }
    let table = (0..250).map(|i| ram.load(DATA + 8 * i, 8).expect("in RAM"));
    let mut seen: Vec<u64> = table.collect();
    seen.extend((0..32).map(|i| hart.x(i)));
    seen.extend([hart.pc(), hart.now(), hart.instret()]);
    (seen, code.statistics())
}

/// Promise: memory for translated code is bounded, whatever runs: what does not fit makes room and
/// is translated again, with the same results at the same virtual time.
#[test]
fn code_that_does_not_fit_is_translated_again() {
    let usual = CodeLimits::default();
    let (expected, decoded) = run(usual, false);
    assert_eq!(decoded.decoded_resets, 0);
    let (seen, all) = run(usual, true);
    assert_eq!(seen, expected);
    if all.code_capacity == 0 {
        return;
    }
    assert_eq!(all.code_resets, 0);

    let compiled = 256 << 10;
    let (seen, few) = run(CodeLimits { compiled, ..usual }, true);
    assert!(seen == expected, "compiled code dropped");
    assert!(few.code_held <= few.code_capacity && few.code_capacity == compiled as u64);
    assert!(
        few.code_bytes > 8 * few.code_capacity && few.code_resets > 8,
        "{few:?}"
    );
    assert_eq!(few.blocks_decoded, all.blocks_decoded);

    let instructions = 10_000;
    let limits = CodeLimits {
        instructions,
        ..usual
    };
    for engine in [false, true] {
        let (seen, few) = run(limits, engine);
        assert!(seen == expected, "decoded blocks dropped");
        assert!(few.decoded_resets > 8, "{few:?}");
        assert!(
            few.instructions_decoded > 8 * instructions as u64,
            "{few:?}"
        );
    }
}
