//! CSR instructions, of which compiled code executes some itself.

mod common;
mod programs;

use common::Nothing;
use programs::{
    RAM, enter_with, hart, hart_with, put, repeat, results, run_to_end, skip_exceptions,
};
use trapless_asm::reg::{A0, S0, S1, T0};
use trapless_asm::{Asm, r};
use trapless_hart::{AiaConfig, HartConfig, Ram};
use trapless_isa::csr::{self, envcfg, stateen0, status};

const PROGRAM: u64 = RAM + 0x1000;
const HANDLER: u64 = RAM + 0x2000;
const RESULTS: u64 = RAM + 0x3000;
/// `csrrw`, `csrrs`, `csrrc`.
const KINDS: [u32; 3] = [1, 2, 3];
const VALUES: [u64; 4] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0xAAAA_AAAA_AAAA_AAAA,
    0x1_2345_6789,
];

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Machine,
    Supervisor,
    /// S-mode with only those rights without which compiled code leaves CSRs to the interpreter;
    /// `henvcfg` and `hstateen0` have more bits set than it may read.
    Restricted,
    /// S-mode that M-mode does not let manage virtual memory (TVM).
    NoTranslation,
    Guest,
}

impl Place {
    const ALL: [Self; 5] = [
        Self::Machine,
        Self::Supervisor,
        Self::Restricted,
        Self::NoTranslation,
        Self::Guest,
    ];

    /// Whether a program there depends on a CSR that it would change.
    fn needs(self, number: u16) -> bool {
        match self {
            Self::Machine => {
                matches!(number, csr::MSTATUS | csr::MTVEC)
                    || (csr::PMPCFG0..=csr::PMPADDR63).contains(&number)
            }
            Self::Supervisor | Self::Restricted | Self::NoTranslation => {
                matches!(number, csr::SATP | csr::STVEC)
            }
            Self::Guest => number == csr::SATP,
        }
    }
}

/// What differs between harts.
#[derive(Clone, Copy, Debug)]
enum Features {
    Usual,
    Custom,
    Aia,
}

impl Features {
    fn add_to(self, config: &mut HartConfig) {
        match self {
            Self::Usual => {}
            Self::Custom => config.custom_csrs = true,
            Self::Aia => config.aia = Some(AiaConfig { guests: 3 }),
        }
    }
}

/// What the program has put where S0 was, how many instructions that took, and all CSRs.
fn end(compiled: bool, place: Place, has: Features, program: impl Fn(&mut Asm)) -> Vec<u64> {
    let ram = Ram::new(RAM, 1 << 20).expect("RAM");
    let mut start = Asm::new(RAM);
    // S-mode may access all there is.
    start.li(T0, u64::MAX);
    start.csrw(csr::MSTATEEN0, T0).csrw(csr::MENVCFG, T0);
    start.csrw(csr::MCOUNTEREN, T0).csrw(csr::HIDELEG, T0);
    if place == Place::Restricted {
        start.csrw(csr::HENVCFG, T0).csrw(csr::HSTATEEN0, T0);
        start.li(T0, envcfg::STCE).csrw(csr::MENVCFG, T0);
        let needed = stateen0::SE0 | stateen0::ENVCFG;
        start.li(T0, needed).csrw(csr::MSTATEEN0, T0);
    }
    // An exception is seen in A0, too.
    let mut handler = Asm::new(HANDLER);
    let mpp = match place {
        Place::Machine => {
            start.li(T0, HANDLER).csrw(csr::MTVEC, T0);
            start.li(T0, PROGRAM).csrw(csr::MEPC, T0);
            start.li(T0, status::MPP).csrw(csr::MSTATUS, T0).mret();
            handler.addi(A0, A0, 1);
            handler.w(trapless_asm::csrr(T0, csr::MEPC));
            handler.addi(T0, T0, 4).csrw(csr::MEPC, T0).mret();
            None
        }
        Place::Supervisor | Place::Restricted => Some(0),
        Place::NoTranslation => Some(status::TVM),
        Place::Guest => Some(status::MPV),
    };
    if let Some(more) = mpp {
        enter_with(&mut start, 1 << 11 | more, PROGRAM, HANDLER);
        skip_exceptions(&mut handler, A0);
    }
    let a = repeat(PROGRAM, 3, RESULTS, program);
    for (at, program) in [(RAM, &start), (PROGRAM, &a), (HANDLER, &handler)] {
        put(&ram, at, program);
    }
    // One with a number that is not 0
    let hart = hart_with(&ram, compiled, 3, |config| has.add_to(config));
    let hart = run_to_end(hart);
    let mut state = results(&ram, &hart, RESULTS);
    state.push(hart.instret());
    let csr = |&(number, _): &(u16, _)| hart.peek_csr_as_m(number).unwrap_or(0);
    state.extend(csr::NAMES.iter().map(csr));
    state
}

/// Promise: what was written is read back the same in both engines and in all modes, for every CSR
/// but those by which the program itself runs; and a CSR keeps a value that is written back.
#[test]
fn csrs_keep_the_same_bits_in_both_engines() {
    for &(number, name) in csr::NAMES {
        let keep = |a: &mut Asm| {
            a.sd(A0, S0, 0).addi(S0, S0, 8);
        };
        let accesses = |a: &mut Asm| {
            for kind in KINDS {
                for value in VALUES {
                    a.li(S1, value);
                    a.w(trapless_asm::csr_op(kind, A0, number, S1));
                    keep(a);
                }
            }
            // Without a result: new values, and those that are there; these with a result, too.
            for value in VALUES {
                a.li(S1, value).csrw(number, S1);
                a.w(trapless_asm::csrr(A0, number));
                keep(a);
                a.csrw(number, A0);
                a.w(trapless_asm::csrr(A0, number));
                keep(a);
                a.addi(S1, A0, 0).addi(A0, A0, 1);
                a.w(trapless_asm::csr_op(1, A0, number, S1));
                keep(a);
            }
        };
        for has in [Features::Usual, Features::Custom, Features::Aia] {
            for place in Place::ALL {
                if !place.needs(number) {
                    let both = [false, true].map(|compiled| end(compiled, place, has, accesses));
                    assert!(both[0] == both[1], "{name} in {place:?}, {has:?}");
                }
            }
        }
    }
}

/// Promise: each bit alone is changed the same in both engines, in registers that are most often
/// written with the value that they have.
#[test]
fn single_bits_are_changed_in_both_engines() {
    for (place, number) in [
        (Place::Machine, csr::MSTATUS),
        (Place::Supervisor, csr::VSSTATUS),
        (Place::Supervisor, csr::VSIE),
        (Place::Supervisor, csr::HGATP),
        (Place::Supervisor, csr::HENVCFG),
        (Place::Supervisor, csr::HSTATEEN0),
        (Place::Supervisor, csr::HTIMEDELTA),
        (Place::Supervisor, csr::HEDELEG),
    ] {
        for bits in (0..64).step_by(16) {
            let program = |a: &mut Asm| {
                for bit in bits..bits + 16 {
                    a.li(S1, 1 << bit);
                    for kind in [2, 3] {
                        a.w(trapless_asm::csr_op(kind, A0, number, S1));
                        a.w(trapless_asm::csrr(A0, number));
                        a.sd(A0, S0, 0).addi(S0, S0, 8);
                    }
                    a.w(trapless_asm::csrr(A0, number));
                    a.w(r(0x33, 4, 0, A0, A0, S1));
                    a.csrw(number, A0);
                    a.w(trapless_asm::csrr(A0, number));
                    a.sd(A0, S0, 0).addi(S0, S0, 8);
                }
            };
            let both = [false, true].map(|on| end(on, place, Features::Usual, program));
            assert!(both[0] == both[1], "{number:#x}, bits from {bits}");
        }
    }
}

/// Promise: `mstatus` has SD while FS is Dirty, what M-mode changes in it is changed, and `mtvec`
/// has no reserved mode, in both engines.
#[test]
fn machine_mode_works_the_same_in_both_engines() {
    let program = |a: &mut Asm| {
        for mode in [2, 1, 3, 0] {
            a.li(S1, HANDLER | mode);
            a.w(trapless_asm::csr_op(1, A0, csr::MTVEC, S1));
            a.w(trapless_asm::csrr(A0, csr::MTVEC));
            a.sd(A0, S0, 0).addi(S0, S0, 8);
        }
        for bits in [3 << 13, status::SUM, 2 << 13, status::TVM, 1 << 13, 3 << 13] {
            a.li(S1, bits);
            for kind in [2, 3, 2] {
                a.w(trapless_asm::csr_op(kind, A0, csr::MSTATUS, S1));
                a.sd(A0, S0, 0);
                a.w(trapless_asm::csrr(A0, csr::MSTATUS));
                a.sd(A0, S0, 8).addi(S0, S0, 16);
                a.csrw(csr::MSTATUS, A0);
            }
            a.li(S1, status::FS);
            a.w(trapless_asm::csrc(csr::MSTATUS, S1));
        }
    };
    let both =
        [false, true].map(|compiled| end(compiled, Place::Machine, Features::Usual, program));
    assert!(both[0] == both[1]);
    let (vector, status, dirty) = (both[0][0], both[0][5], status::SD | status::FS);
    assert_eq!(vector, HANDLER, "mode 2 is reserved");
    assert_eq!(status & dirty, dirty);
}

/// Promise: a result in a floating-point register makes FS Dirty, whatever it was, and there is
/// none while FS is Off.
#[test]
fn results_make_the_state_of_floating_point_dirty() {
    const FS: u64 = 3 << 13;
    const FADD: u32 = 0x0215_8653; // fadd.d fa2, fa1, ft1
    let program = |a: &mut Asm| {
        for state in [3, 2, 1, 0, 2, 3, 1] {
            a.li(S1, FS);
            a.w(trapless_asm::csrc(csr::SSTATUS, S1));
            a.li(S1, state << 13).csrs(csr::SSTATUS, S1);
            a.w(FADD);
            a.w(trapless_asm::csrr(A0, csr::SSTATUS));
            a.sd(A0, S0, 0).addi(S0, S0, 8);
        }
    };
    let [interpreted, compiled] =
        [false, true].map(|compiled| end(compiled, Place::Supervisor, Features::Usual, program));
    let states: Vec<_> = interpreted[..7].iter().map(|s| s >> 13 & 3).collect();
    assert_eq!(states, [3, 3, 3, 0, 3, 3, 3]);
    assert!(interpreted == compiled);
}

/// Promise: a hart that is moved between its turns accesses its own CSRs in the new place.
#[test]
fn a_hart_can_be_moved_between_turns() {
    let count = |swapped: bool| {
        let rams = [0, 1].map(|_| Ram::new(RAM, 1 << 20).expect("RAM"));
        for (step, ram) in (1..).zip(&rams) {
            let mut start = Asm::new(RAM);
            enter_with(&mut start, 1 << 11, PROGRAM, HANDLER);
            put(ram, RAM, &start);
            let program = repeat(PROGRAM, 2000, RESULTS, |a| {
                a.w(trapless_asm::csrr(A0, csr::SSCRATCH));
                a.addi(A0, A0, step).csrw(csr::SSCRATCH, A0);
                a.sd(A0, S0, 0).addi(S0, S0, 8);
            });
            put(ram, PROGRAM, &program);
        }
        let (mut harts, mut codes): (Vec<_>, Vec<_>) =
            rams.iter().map(|ram| hart(ram, swapped)).unzip();
        for turn in 1..100 {
            for (hart, code) in harts.iter_mut().zip(&mut codes) {
                hart.run(code, &mut Nothing, turn * 1000, None);
            }
            if swapped {
                harts.swap(0, 1);
                codes.swap(0, 1);
            }
        }
        if swapped {
            harts.swap(0, 1);
        }
        [0, 1].map(|i| results(&rams[i], &harts[i], RESULTS))
    };
    let interpreted = count(false);
    assert_eq!(interpreted[1].last(), Some(&4000));
    assert!(interpreted == count(true));
}
