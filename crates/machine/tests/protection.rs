//! Promise: through the tables of Xtrapless, HS-mode reaches no memory that PMP keeps it out of.

mod common;

use common::*;
use trapless_isa::xtrapless::{
    csr, domain, file, hgenvsi, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, op, state, vhart,
};
use trapless_machine::{Limits, Machine, Outcome};

const TABLE: u64 = RAM + 0x20_0000;
const VHARTS: u64 = TABLE + 0x1000;
const OPEN: u64 = TABLE + 0x2000;
/// Memory of firmware, and what it lets others read.
const SECRET: u64 = RAM + 0x30_0000;
const SHOWN: u64 = RAM + 0x40_0000;
const QUEUE: u64 = SECRET + 0x1000;
/// Files of vhart 0, 1, 2 of domain 0.
const FILES: [u64; 3] = [SECRET, SHOWN, OPEN];

const PMPCFG0: u16 = 0x3a0;
const PMPADDR0: u16 = 0x3b0;
const NAPOT: u64 = 3 << 3;
const R: u64 = 1;
const RWX: u64 = 7;

/// What a host can do if PMP entries 0 (`SECRET`), 1 (`SHOWN`) and 2 (everything) are configured as
/// `pmp`: `hifmap` after an attach of each vhart, and `hnotify` after a post to vhart 2, halted.
fn run(pmp: [u64; 3]) -> (Machine, [u64; 4]) {
    let mut a = Asm::new(RAM);
    let set = |a: &mut Asm, csr: u16, value: u64| {
        a.li(T0, value).csrw(csr, T0);
    };
    set(&mut a, PMPADDR0, SECRET >> 2 | (0x1_0000 / 8 - 1));
    set(&mut a, PMPADDR0 + 1, SHOWN >> 2 | (0x1000 / 8 - 1));
    set(&mut a, PMPADDR0 + 2, u64::MAX);
    set(&mut a, PMPCFG0, pmp[0] | pmp[1] << 8 | pmp[2] << 16);
    set(&mut a, csr::HVTABLEBASE, hvtablebase::V | TABLE);
    set(&mut a, csr::HTLCFG, htlcfg::EN);
    set(&mut a, csr::HNQBASE, hnqbase::EN | QUEUE);
    a.li(S0, DATA);
    for number in 0..3 {
        set(&mut a, csr::HIFMAP, hifmap::V | number);
        a.csrr(T0, csr::HIFMAP).sd(T0, S0, 8 * number as i32);
    }
    let halted = state::HALTED << hifmap::STATE_SHIFT;
    set(&mut a, csr::HIFMAP, halted);
    let post = op::SOFT << hgenvsi::OP_SHIFT | 2;
    set(&mut a, csr::HGENVSI, post);
    a.csrr(T0, csr::HNOTIFY).sd(T0, S0, 24);
    a.power_off();

    let mut machine = Machine::boot(config("trapless", 1), &a.payload(), quiet()).unwrap();
    let store = |addr, value| machine.ram().store(addr, 8, value).unwrap();
    store(TABLE + domain::CONFIG, domain::CONFIG_V | 3);
    store(TABLE + domain::VHART_TABLE, VHARTS);
    for (number, at) in (0..).zip(FILES) {
        store(VHARTS + number * vhart::SIZE, vhart::ENTRY_V | at);
    }
    let limits = Limits {
        instret: 100_000,
        ..Limits::default()
    };
    assert_eq!(machine.run(&limits), Outcome::PoweredOff);
    let results = [0, 1, 2, 3].map(|i| word(&machine, DATA + 8 * i));
    (machine, results)
}

fn word(machine: &Machine, addr: u64) -> u64 {
    machine.ram().load(addr, 8).unwrap()
}

#[test]
fn controller_leaves_memory_alone_that_pmp_keeps_from_hs_mode() {
    let (machine, results) = run([NAPOT, NAPOT | R, NAPOT | RWX]);
    assert_eq!(results, [0, 0, hifmap::V | 2, hnotify::OVF]);
    for at in [SECRET, SHOWN] {
        assert!((0..512).all(|i| word(&machine, at + 8 * i) == 0), "{at:#x}");
    }
    assert_eq!(word(&machine, QUEUE), 0);
    assert_ne!(word(&machine, OPEN + file::CTL), 0);
}

#[test]
fn controller_uses_all_memory_that_hs_mode_may_write() {
    let (machine, results) = run([0, 0, NAPOT | RWX]);
    let attached = [0, 1, 2].map(|number| hifmap::V | number);
    assert_eq!(results[..3], attached);
    assert_ne!(results[3] & hnotify::V, 0);
    assert_ne!(word(&machine, QUEUE), 0);
}

/// Without any PMP entry that is on, a mode below M may access nothing.
#[test]
fn controller_finds_no_tables_before_firmware_opened_memory() {
    let (_, results) = run([0; 3]);
    assert_eq!(results, [0; 4]);
}
