//! The thread of a kernel that a hart executes, as events report it: the same with both engines.

use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};
use trapless_isa::Mode;
use trapless_isa::csr::{self, status};
use trapless_isa::port::Lines;
use trapless_ledger::event::{Event, Switch};

const RAM: u64 = 0x8000_0000;
const PROGRAM: u64 = RAM + 0x1000;
const TRAP: u64 = RAM + 0x2000;
const USER: u64 = RAM + 0x3000;
/// Addresses of threads, in a1 and a2.
const A: u64 = 0xff60_0000_0000_1000;
const B: u64 = 0xff60_0000_0000_2000;

/// Keeps switches.
#[derive(Default)]
struct Switches(Vec<Switch>);

impl Platform for Switches {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        Lines::default()
    }

    fn lines_changed(&self, _: usize) -> bool {
        false
    }

    fn record(&mut self, event: &Event) {
        if let Event::Switch(switch) = event {
            self.0.push(*switch);
        }
    }
}

/// Switches of a program in HS-mode at [`PROGRAM`] with `tp` = [`A`]; a trap ends it.
fn switches(program: &[u32], user: &[u32], compiled: bool) -> Vec<Switch> {
    let ram = Ram::new(RAM, 0x10000).unwrap();
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    assert!(!compiled || code.compile(Tiers::EAGER, &config));
    let mut hart = Hart::new(0, config, ram.clone());
    let (mret, spin) = (0x3020_0073, 0x0000_006f);
    let put = |at: u64, words: &[u32]| {
        for (at, word) in (at..).step_by(4).zip(words) {
            ram.store(at, 4, u64::from(*word)).unwrap();
        }
    };
    put(RAM, &[mret]);
    put(PROGRAM, program);
    put(USER, user);
    put(TRAP, &[spin]);
    let mut plat = Switches::default();
    for (number, value) in [
        (csr::PMPADDR0, u64::MAX),
        (csr::PMPCFG0, 0x1f),
        (csr::MEPC, PROGRAM),
        (csr::MSTATUS, status::MPP & 1 << 11),
        (csr::MEDELEG, u64::MAX),
        (csr::STVEC, TRAP),
        (csr::SEPC, USER),
    ] {
        assert!(hart.poke_csr(number, value, &mut plat), "{number:#x}");
    }
    for (register, value) in [(4, A), (11, A), (12, B), (13, 0x5000)] {
        hart.set_x(register, value);
    }
    hart.run(&mut code, &mut plat, 2000, None);
    plat.0
}

fn both(program: &[u32], user: &[u32]) -> Vec<(u64, u64)> {
    let interpreted = switches(program, user, false);
    if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        assert_eq!(interpreted, switches(program, user, true));
    }
    interpreted.iter().map(|s| (s.from, s.to)).collect()
}

const MV_TP_A1: u32 = 0x00b0_0233; // add tp, zero, a1
const MV_TP_A2: u32 = 0x0006_0213; // addi tp, a2, 0
const EBREAK: u32 = 0x0010_0073;

#[test]
fn each_move_to_tp_is_a_switch() {
    // No trap in between, and one to the same thread.
    let found = both(&[MV_TP_A2, MV_TP_A1, MV_TP_A2, MV_TP_A2, EBREAK], &[]);
    assert_eq!(found, [(0, A), (A, B), (B, A), (A, B)]);
}

#[test]
fn no_events_while_sscratch_is_not_the_kernels() {
    let csrw_sscratch_a3 = 0x1406_9073;
    let found = both(&[csrw_sscratch_a3, MV_TP_A2, EBREAK], &[]);
    assert_eq!(found, []);
}

#[test]
fn a_program_runs_in_the_thread_of_sscratch() {
    // csrw sscratch, a2; sret. The program changes its own tp, and makes a system call.
    let found = both(&[0x1406_1073, 0x1020_0073], &[MV_TP_A1, 0x0000_0073]);
    assert_eq!(found, [(0, B)]);
}

#[test]
fn a_number_in_tp_is_no_thread() {
    // li tp, 3; mv tp, a3
    let found = both(&[0x0030_0213, 0x0006_8213, EBREAK], &[]);
    assert_eq!(found, []);
}
