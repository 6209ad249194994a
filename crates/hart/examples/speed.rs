//! Measures the interpreter: instructions per second of an integer loop with loads, stores, calls
//! and branches, bare and under Sv39.
//!
//! `cargo run --release -p trapless-hart --example speed`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::Nothing;
use trapless_hart::{CodeCache, Hart, HartConfig, Ram};

/// xorshift over a 4 KiB table, with a call and two data-dependent branches in each round.
const PROGRAM: [u32; 22] = [
    0x8001_02b7, // lui   t0, 0x80010     table
    0x1234_5337, // lui   t1, 0x12345     x
    0x0000_0393, // addi  t2, zero, 0     sum
    // loop:
    0x00d3_1e13, // slli  t3, t1, 13
    0x01c3_4333, // xor   t1, t1, t3
    0x0073_5e13, // srli  t3, t1, 7
    0x01c3_4333, // xor   t1, t1, t3
    0x0113_1e13, // slli  t3, t1, 17
    0x01c3_4333, // xor   t1, t1, t3
    0x3f83_7e93, // andi  t4, t1, 0x3f8
    0x01d2_8eb3, // add   t4, t0, t4
    0x000e_bf03, // ld    t5, 0(t4)
    0x006f_0f33, // add   t5, t5, t1
    0x01ee_b023, // sd    t5, 0(t4)
    0x0103_7f93, // andi  t6, t1, 16
    0x000f_8463, // beqz  t6, +8
    0x0013_8393, // addi  t2, t2, 1
    0x00c0_00ef, // jal   ra, +12
    0xfc1f_f06f, // j     loop (-64)
    0x0000_0013, // nop
    0x01e3_83b3, // add   t2, t2, t5
    0x0000_8067, // ret
];

fn main() {
    let ram = Ram::new(0x8000_0000, 64 << 20).expect("RAM");
    for (i, word) in PROGRAM.iter().enumerate() {
        ram.store(0x8000_0000 + 4 * i as u64, 4, u64::from(*word))
            .expect("in RAM");
    }
    let config = HartConfig {
        reset_pc: 0x8000_0000,
        ..HartConfig::default()
    };
    // lui sign-extends: the table is reached through its sign-extended address only if bare mode
    // allowed it, so the register is set here.
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    if std::env::args().nth(1).as_deref() == Some("jit") {
        code.compile(trapless_hart::Tiers::default(), &config);
    }
    let mut hart = Hart::new(0, config, ram);
    hart.set_pc(0x8000_0004);
    hart.set_x(5, 0x8001_0000);
    for _ in 0..5 {
        let before = hart.instret();
        let start = Instant::now();
        let until = hart.now() + 200_000_000;
        hart.run(&mut code, &mut Nothing, until, None);
        let seconds = start.elapsed().as_secs_f64();
        let done = (hart.instret() - before) as f64;
        println!("{:.0} million instructions/s", done / seconds / 1e6);
    }
}
