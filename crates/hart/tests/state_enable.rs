//! Smstateen's bit C keeps modes from custom CSRs, level by level.

use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram};
use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus, stateen0, status};
use trapless_isa::port::{CsrAccess, CsrFault, Lines};
use trapless_ledger::event::Event;

const RAM: u64 = 0x8000_0000;
const PROGRAM: u64 = RAM + 0x1000;
const TRAP: u64 = RAM + 0x2000;
/// Custom CSRs: of user mode, supervisor mode and the hypervisor.
const CUSTOM: [u16; 3] = [0x800, 0x5C0, 0x6C0];
const ILLEGAL: u64 = 2;
const VIRTUAL: u64 = 22;

/// Has all custom CSRs, and lets everybody have them whom the hart lets pass.
struct Open;

impl Platform for Open {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn csr(&mut self, _: &CsrAccess) -> Result<u64, CsrFault> {
        Ok(0)
    }

    fn has_csr(&self, csr: u16) -> bool {
        CUSTOM.contains(&csr)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        Lines::default()
    }

    fn lines_changed(&self, _: usize) -> bool {
        false
    }

    fn record(&mut self, _: &Event) {}
}

fn hart(custom_csrs: bool) -> (Hart, CodeCache, Ram) {
    let ram = Ram::new(RAM, 0x10000).unwrap();
    let config = HartConfig {
        reset_pc: RAM,
        custom_csrs,
        ..HartConfig::default()
    };
    let code = CodeCache::new(&ram, config.extensions, config.cost);
    let mret = 0x3020_0073;
    let spin = 0x0000_006f;
    ram.store(RAM, 4, mret).unwrap();
    ram.store(PROGRAM + 4, 4, spin).unwrap();
    ram.store(TRAP, 4, spin).unwrap();
    (Hart::new(0, config, ram.clone()), code, ram)
}

/// Cause of the exception that a write of `number` from `mode` raises, if it does. `open`: whether
/// `mstateen0`, `hstateen0` and `sstateen0` have bit C.
fn write(mode: Mode, number: u16, open: [bool; 3]) -> Option<u64> {
    let (mut hart, mut code, ram) = hart(true);
    // csrw number, zero
    let inst = u64::from(number) << 20 | 1 << 12 | 0x73;
    ram.store(PROGRAM, 4, inst).unwrap();
    let privilege = match mode {
        Mode::U | Mode::VU => 0,
        Mode::M => status::MPP,
        _ => status::MPP & 1 << 11,
    };
    let v = if mode.v() { status::MPV } else { 0 };
    let enables = [csr::MSTATEEN0, csr::HSTATEEN0, csr::SSTATEEN0];
    // Lower registers first: they take bits only while those above have them.
    let lower = enables.into_iter().zip(open).rev();
    let lower = lower.map(|(csr, open)| (csr, if open { stateen0::C } else { 0 }));
    let settings = [
        (csr::PMPADDR0, u64::MAX >> 10),
        (csr::PMPCFG0, 0x1f),
        (csr::MEPC, PROGRAM),
        (csr::MTVEC, TRAP),
        (csr::HSTATUS, hstatus::SPVP),
        (csr::MSTATUS, privilege | v),
    ];
    for (addr, value) in settings.into_iter().chain(lower) {
        assert!(hart.poke_csr(addr, value, &mut Open), "{addr:#x}");
    }
    hart.run(&mut code, &mut Open, 40, None);
    let cause = hart.peek_csr_as_m(csr::MCAUSE).unwrap();
    match hart.pc() {
        TRAP => Some(cause),
        at => {
            assert_eq!((at, hart.mode()), (PROGRAM + 4, mode));
            None
        }
    }
}

#[test]
fn each_level_closes_custom_csrs_to_those_below_it() {
    let [user, supervisor, hypervisor] = CUSTOM;
    let all = [true; 3];
    let (machine, host, program) = (
        [false, true, true],
        [true, false, true],
        [true, true, false],
    );
    for number in CUSTOM {
        assert_eq!(write(Mode::M, number, [false; 3]), None);
        assert_eq!(write(Mode::HS, number, machine), Some(ILLEGAL));
        assert_eq!(write(Mode::VS, number, machine), Some(ILLEGAL));
        // Bits of lower levels are not for HS-mode.
        assert_eq!(write(Mode::HS, number, [true, false, false]), None);
    }
    assert_eq!(write(Mode::VS, supervisor, all), None);
    assert_eq!(write(Mode::VS, supervisor, host), Some(VIRTUAL));
    assert_eq!(write(Mode::VS, supervisor, program), None);
    assert_eq!(write(Mode::VS, hypervisor, all), Some(VIRTUAL));
    assert_eq!(write(Mode::U, user, all), None);
    assert_eq!(write(Mode::U, user, machine), Some(ILLEGAL));
    assert_eq!(write(Mode::U, user, program), Some(ILLEGAL));
    assert_eq!(write(Mode::VU, user, host), Some(VIRTUAL));
}

#[test]
fn bit_c_exists_where_custom_csrs_do_and_firmware_finds_it_set() {
    for exists in [false, true] {
        let (mut hart, ..) = hart(exists);
        let c = u64::from(exists);
        let read = |hart: &Hart, csr| hart.peek_csr_as_m(csr).unwrap() & stateen0::C;
        assert_eq!(read(&hart, csr::MSTATEEN0), c);
        for csr in [csr::HSTATEEN0, csr::SSTATEEN0] {
            assert_eq!(read(&hart, csr), 0);
            hart.poke_csr(csr, u64::MAX, &mut Open);
            assert_eq!(read(&hart, csr), c);
        }
        // A bit that is clear above reads as zero below.
        hart.poke_csr(csr::MSTATEEN0, 0, &mut Open);
        assert_eq!(read(&hart, csr::HSTATEEN0), 0);
        assert_eq!(read(&hart, csr::SSTATEEN0), 0);
    }
}
