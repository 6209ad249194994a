//! A guest that spins on a lock by WRS.NTO comes to the hypervisor, which may run the lock's
//! holder.

use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram};
use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::port::{CsrAccess, CsrFault, Lines};
use trapless_ledger::event::Event;

const RAM: u64 = 0x8000_0000;
const PROGRAM: u64 = RAM + 0x1000;
const LOCK: u64 = RAM + 0x1800;
const TRAP: u64 = RAM + 0x2000;
const ILLEGAL: u64 = 2;
const VIRTUAL: u64 = 22;

struct Nothing;

impl Platform for Nothing {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn csr(&mut self, _: &CsrAccess) -> Result<u64, CsrFault> {
        Err(CsrFault::Illegal)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        Lines::default()
    }

    fn lines_changed(&self, _: usize) -> bool {
        false
    }

    fn record(&mut self, _: &Event) {}
}

/// Spins in `mode` on a word that is never written, in turns of `turn` cycles, for 200 000 cycles.
/// Returns the cause of the trap and when it came, if it did.
fn spin(mode: Mode, wrs: u64, status: u64, hstatus: u64, turn: u64) -> Option<(u64, u64)> {
    let ram = Ram::new(RAM, 0x10000).unwrap();
    let config = HartConfig {
        reset_pc: RAM,
        ..HartConfig::default()
    };
    let mut code = CodeCache::new(&ram, config.extensions, config.cost);
    let mut hart = Hart::new(0, config, ram.clone());
    let mret = 0x3020_0073;
    // csrr a0, mscratch; mret
    ram.store(RAM, 4, 0x3400_2573).unwrap();
    ram.store(RAM + 4, 4, mret).unwrap();
    // 1: lr.d a1, (a0); wrs; j 1b
    let program = [0x1005_35af, wrs, 0xff9f_f06f];
    for (at, inst) in (PROGRAM..).step_by(4).zip(program) {
        ram.store(at, 4, inst).unwrap();
    }
    ram.store(TRAP, 4, 0x0000_006f).unwrap();
    let privilege = match mode {
        Mode::U | Mode::VU => 0,
        Mode::M => status::MPP,
        _ => status::MPP & 1 << 11,
    };
    let v = if mode.v() { status::MPV } else { 0 };
    for (addr, value) in [
        (csr::PMPADDR0, u64::MAX >> 10),
        (csr::PMPCFG0, 0x1f),
        (csr::MEPC, PROGRAM),
        (csr::MTVEC, TRAP),
        (csr::MSCRATCH, LOCK),
        (csr::HSTATUS, hstatus::SPVP | hstatus),
        (csr::MSTATUS, privilege | v | status),
    ] {
        assert!(hart.poke_csr(addr, value, &mut Nothing), "{addr:#x}");
    }
    for end in (0..=200_000).step_by(turn as usize) {
        hart.run(&mut code, &mut Nothing, end, None);
        if hart.pc() == TRAP {
            return Some((hart.peek_csr_as_m(csr::MCAUSE).unwrap(), end));
        }
    }
    assert_eq!(hart.mode(), mode);
    None
}

#[test]
fn wrs_nto_traps_after_a_while_where_it_is_asked_to() {
    let (nto, sto) = (0x00d0_0073, 0x01d0_0073);
    for turn in [100, 1_000, 200_000] {
        for mode in [Mode::VS, Mode::VU] {
            assert_eq!(spin(mode, nto, 0, 0, turn), None);
            assert_eq!(spin(mode, sto, 0, hstatus::VTW, turn), None);
            let (cause, at) = spin(mode, nto, 0, hstatus::VTW, turn).unwrap();
            assert_eq!(cause, VIRTUAL);
            assert!(at >= 100_000, "{mode:?} waited until {at} only");
            assert!(
                turn == 200_000 || at < 130_000,
                "{mode:?} waited until {at}"
            );
            let (cause, _) = spin(mode, nto, status::TW, hstatus::VTW, turn).unwrap();
            assert_eq!(cause, ILLEGAL);
        }
        assert_eq!(spin(Mode::HS, nto, 0, hstatus::VTW, turn), None);
        assert_eq!(spin(Mode::M, nto, status::TW, hstatus::VTW, turn), None);
        let (cause, _) = spin(Mode::HS, nto, status::TW, 0, turn).unwrap();
        assert_eq!(cause, ILLEGAL);
    }
}
