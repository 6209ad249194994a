//! Who may access what, from the same data as the specification.

use serde::Deserialize;
use std::collections::BTreeMap;
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{csr, hgrant, htlcfg, isa, limits};

use super::world::*;
use crate::trapless::Trapless;
use crate::{CsrAccess, CsrFault, CsrOp, Effects, InterruptArchitecture};

#[derive(Deserialize)]
struct Data {
    csr: Vec<Csr>,
}

#[derive(Deserialize)]
struct Csr {
    name: String,
    address: u16,
    modes: BTreeMap<String, String>,
    reset: u64,
}

fn data() -> Vec<Csr> {
    let text = include_str!("../../../../../spec/registers.toml");
    toml::from_str::<Data>(text).unwrap().csr
}

const MODES: [(Mode, &str); 5] = [
    (Mode::M, "m"),
    (Mode::HS, "hs"),
    (Mode::U, "u"),
    (Mode::VS, "vs"),
    (Mode::VU, "vu"),
];

/// A grant of all sources of domain 1.
const GRANT: u64 = hgrant::V | 1 << hgrant::DOM_SHIFT | hgrant::COUNT;

#[test]
fn accesses_do_what_the_register_data_says() {
    let operations = [CsrOp::Read, CsrOp::Write(0), CsrOp::Swap(0)];
    for register in data() {
        for (mode, key) in MODES {
            for op in operations {
                for (loaded, granted) in [(false, false), (true, false), (false, true)] {
                    let mut w = World::new();
                    if loaded {
                        w.attach(0, 1, 0);
                    }
                    if granted {
                        w.hs(0, csr::HGRANT, GRANT);
                    }
                    let got = w.access(0, mode, register.address, op);
                    let ok = |fine, fault| if fine { Ok(()) } else { Err(fault) };
                    let right = register.modes[key].as_str();
                    let want = match right {
                        "rw" | "wo" => Ok(()),
                        "illegal" => Err(CsrFault::Illegal),
                        "virtual" => Err(CsrFault::Virtual),
                        "slot" | "slot-wo" => ok(loaded, CsrFault::Virtual),
                        "grant" => ok(granted, CsrFault::Illegal),
                        other => panic!("unknown right {other}"),
                    };
                    let name = &register.name;
                    assert_eq!(got.map(|_| ()), want, "{name} {mode:?} {op:?}");
                    if ["wo", "slot-wo", "grant"].contains(&right) {
                        assert_eq!(got.unwrap_or(0), 0, "{name} holds no value");
                        let bits = w.access(0, mode, register.address, CsrOp::Set(0));
                        assert!(bits.is_err(), "{name} has no bits to set");
                    }
                }
            }
        }
    }
}

#[test]
fn registers_have_their_reset_values() {
    let mut intc = Trapless::new(config(true));
    let mut read = |csr| {
        let access = CsrAccess {
            hart: 0,
            csr,
            mode: Mode::M,
            vmid: 0,
            now: 0,
            op: CsrOp::Read,
        };
        intc.csr(&access, &mut Effects::default())
    };
    for register in data() {
        if let Ok(value) = read(register.address) {
            assert_eq!(value, register.reset, "{}", register.name);
        }
    }
}

#[test]
fn while_off_guests_and_programs_reach_nothing() {
    for register in data() {
        let mut w = World::new();
        w.attach(0, 1, 0);
        w.hs(0, csr::HGRANT, GRANT);
        w.hs(0, csr::HTLCFG, 0);
        for (mode, fault) in [
            (Mode::U, CsrFault::Illegal),
            (Mode::VS, CsrFault::Virtual),
            (Mode::VU, CsrFault::Virtual),
        ] {
            for op in [CsrOp::Read, CsrOp::Write(0)] {
                let got = w.access(0, mode, register.address, op);
                assert_eq!(got, Err(fault), "{} {mode:?}", register.name);
            }
        }
        assert!(!w.lines(0).split);
    }
}

#[test]
fn without_h_only_host_ipis_remain() {
    let mut w = World::new();
    w.intc = Trapless::new(config(false));
    for register in data() {
        for mode in [Mode::M, Mode::HS, Mode::U] {
            let got = w.access(0, mode, register.address, CsrOp::Write(1));
            let sends = register.address == csr::SGENIPI && mode != Mode::U;
            let want = if sends { Ok(0) } else { Err(CsrFault::Illegal) };
            assert_eq!(got, want, "{} {mode:?}", register.name);
        }
    }
    let vsip = w.access(0, Mode::HS, VSIP, CsrOp::Write(2));
    assert_eq!(vsip, Err(CsrFault::Illegal));
    assert_eq!(w.lines(0).pulse, 1 << 1);
    assert_eq!(w.intc.describe().supervisor_interrupts, 0);
    assert_eq!(w.intc.describe().isa_extensions, [isa::XTRAPLESSVI]);
}

/// What a hart refuses a guest by the number alone: it asks the architecture whether HS-mode has
/// the register, and the exception is then one that the host can handle.
#[test]
fn the_hart_knows_which_registers_the_host_has() {
    let host = World::new().intc.describe().csrs;
    for register in data() {
        let refused_by_number = register.address >> 8 & 3 != 0;
        assert_eq!(
            host.contains(&register.address),
            refused_by_number,
            "{}",
            register.name
        );
    }
}

#[test]
fn other_csrs_and_harts_are_unknown() {
    let mut w = World::new();
    let known: Vec<_> = data().iter().map(|csr| csr.address).chain([VSIP]).collect();
    for addr in (0..0x1000).filter(|addr| !known.contains(addr)) {
        let got = w.access(0, Mode::M, addr, CsrOp::Write(!0));
        assert_eq!(got, Err(CsrFault::Illegal), "{addr:#x}");
    }
    let got = w.access(HARTS, Mode::M, csr::HTLCFG, CsrOp::Write(htlcfg::EN));
    assert_eq!(got, Err(CsrFault::Illegal));
}

#[test]
fn notifications_belong_to_supervisor_mode() {
    let w = World::new();
    assert_eq!(
        w.intc.describe().supervisor_interrupts,
        1 << limits::NOTIFY_IRQ
    );
}
