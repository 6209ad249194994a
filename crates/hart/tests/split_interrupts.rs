//! With `Lines::split` (Xtrapless `htlcfg.EN`) guest and host have VS-level pending and enable bits
//! of their own; without it the hypervisor extension applies unchanged.

use trapless_asm as asm;
use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, CostModel, Hart, HartConfig, Ram};
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::port::{CsrAccess, CsrFault, CsrOp, Lines};
use trapless_isa::{Mode, Priv};
use trapless_ledger::event::Event;

const RAM: u64 = 0x8000_0000;
const LOOP: u64 = RAM + 0x1000;
const STVEC: u64 = RAM + 0x2000;
const VSTVEC: u64 = RAM + 0x3000;

const VSSIP: u64 = 1 << 2;
const VSTIP: u64 = 1 << 6;
const VSEIP: u64 = 1 << 10;
const VS: u64 = VSSIP | VSTIP | VSEIP;

/// Drives lines as requested and records accesses to `vsip`.
#[derive(Default)]
struct Controller {
    lines: Lines,
    /// Those that the hart has seen, but for what is reported once.
    reported: Lines,
    vsip: Vec<CsrOp>,
}

impl Platform for Controller {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        if access.csr != csr::VSIP {
            return Err(CsrFault::Illegal);
        }
        self.vsip.push(access.op);
        let old = (self.lines.level & VSSIP) >> 1;
        if let Some(new) = access.op.written(old) {
            self.lines.level = self.lines.level & !VSSIP | (new & 2) << 1;
        }
        Ok(old)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        let lines = self.lines;
        self.lines.arrived = 0;
        self.reported = self.lines;
        lines
    }

    fn lines_changed(&self, _: usize) -> bool {
        self.lines != self.reported
    }

    fn record(&mut self, _: &Event) {}
}

struct Bench {
    hart: Hart,
    ram: Ram,
    code: CodeCache,
    controller: Controller,
}

impl Bench {
    /// A hart in an endless loop in `mode`, all VS-level interrupts delegated and enabled by host
    /// and guest.
    fn new(mode: Mode, split: bool) -> Self {
        let ram = Ram::new(RAM, 0x10000).unwrap();
        let mret = 0x3020_0073;
        let spin = 0x0000_006f;
        ram.store(RAM, 4, mret).unwrap();
        for at in [LOOP, STVEC, VSTVEC] {
            ram.store(at, 4, spin).unwrap();
        }
        let config = HartConfig {
            reset_pc: LOOP,
            // A trap loop must not stop time.
            cost: CostModel {
                trap: 1,
                ..CostModel::default()
            },
            supervisor_interrupts: 1 << 24,
            cycles_per_tick: 1,
            ..HartConfig::default()
        };
        let code = CodeCache::new(&ram, config.extensions, config.cost);
        let mut bench = Self {
            hart: Hart::new(0, config, ram.clone()),
            ram,
            code,
            controller: Controller::default(),
        };
        bench.controller.lines.split = split;
        // The hart learns of `split` before the enables are written.
        bench.run(1);
        bench.hart.set_pc(RAM);
        let previous = match mode.privilege() {
            Priv::U => 0,
            _ => status::MPP & 1 << 11,
        };
        let v = if mode.v() { status::MPV } else { 0 };
        for (addr, value) in [
            (csr::PMPADDR0, u64::MAX >> 10),
            (csr::PMPCFG0, 0x1f),
            (csr::MEPC, LOOP),
            (csr::STVEC, STVEC),
            (csr::VSTVEC, VSTVEC),
            (csr::HIDELEG, VS),
            (csr::HIE, VS),
            (csr::VSIE, VS >> 1),
            (csr::MENVCFG, u64::MAX),
            (csr::HENVCFG, u64::MAX),
            (csr::VSSTATUS, status::SIE),
            (csr::HSTATUS, hstatus::SPVP),
            (csr::MSTATUS, previous | v | status::SIE),
        ] {
            bench.poke(addr, value);
        }
        bench.run(10);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (mode, LOOP));
        bench
    }

    fn poke(&mut self, addr: u16, value: u64) {
        assert!(self.hart.poke_csr(addr, value, &mut self.controller));
    }

    fn peek(&self, addr: u16) -> u64 {
        self.hart.peek_csr_as_m(addr).unwrap()
    }

    fn run(&mut self, cycles: u64) {
        let until = self.hart.now() + cycles;
        self.hart
            .run(&mut self.code, &mut self.controller, until, None);
    }

    fn arrive(&mut self, bits: u64) {
        self.controller.lines.level |= bits;
        self.controller.lines.arrived |= bits;
        self.run(20);
    }
}

#[test]
fn running_guest_takes_its_interrupt_and_the_host_does_not_notice() {
    let mut bench = Bench::new(Mode::VS, true);
    bench.arrive(VSSIP);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::VS, VSTVEC));
    assert_eq!(bench.peek(csr::VSCAUSE), 1 << 63 | 1);
    assert_eq!(bench.peek(csr::HIP) & VS, 0);
    assert_eq!(bench.peek(csr::VSIP), 2);
    // The guest clears its bit in the controller.
    bench.poke(csr::VSIP, 0);
    assert_eq!(bench.controller.vsip, [CsrOp::Write(0)]);
    bench.run(20);
    assert_eq!(bench.peek(csr::VSIP), 0);
}

/// BIT-4: what the hart has read of SSIP may be out of date, so that setting and clearing other
/// bits of `sip` must not write it back, as a driver of performance counters does with bit 13.
#[test]
fn only_the_bits_that_an_instruction_names_are_written() {
    let (clear, set) = (3, 2);
    for (funct3, operand, expected) in [
        (clear, 1 << 13, None),
        (set, 1 << 13, None),
        (clear, 1 << 13 | 2, Some(CsrOp::Clear(2))),
        (set, 2, Some(CsrOp::Set(2))),
        (1, 1 << 13, Some(CsrOp::Write(0))),
    ] {
        let mut bench = Bench::new(Mode::VS, true);
        bench.poke(csr::VSSTATUS, 0);
        bench.arrive(VSSIP);
        let access = asm::i(0x73, funct3, 0, 5, csr::SIP.into());
        bench.ram.store(LOOP, 4, access.into()).unwrap();
        bench.code.compare(&bench.ram);
        bench.hart.set_x(5, operand);
        bench.controller.vsip.clear();
        bench.hart.set_pc(LOOP);
        bench.run(1);
        assert_eq!(bench.controller.vsip, Vec::from_iter(expected));
        let injected = bench.peek(csr::HVIP) & VSSIP != 0;
        assert_eq!(injected, expected == Some(CsrOp::Set(2)), "{operand:#x}");
    }
}

#[test]
fn arrival_at_v0_interrupts_the_host_once_and_stays_pending_for_the_guest() {
    for mode in [Mode::HS, Mode::U] {
        let mut bench = Bench::new(mode, true);
        bench.arrive(VSEIP);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::HS, STVEC));
        assert_eq!(bench.peek(csr::SCAUSE), 1 << 63 | 10);
        assert_eq!(bench.peek(csr::HIP) & VS, VSEIP);
        let hip = bench.peek(csr::HIP);
        bench.poke(csr::HIP, hip & !VSEIP);
        bench.run(20);
        assert_eq!(bench.peek(csr::HIP) & VS, 0);
        assert_eq!(bench.peek(csr::VSIP), VSEIP >> 1);
    }
}

#[test]
fn entering_the_guest_hands_the_interrupt_over() {
    let mut bench = Bench::new(Mode::HS, true);
    bench.poke(csr::HIE, 0);
    bench.arrive(VSSIP);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::HS, LOOP));
    assert_eq!(bench.peek(csr::HIP) & VS, VSSIP);
    // mret to VS.
    bench.poke(csr::HIE, VS);
    let mut guest = Bench::new(Mode::VS, true);
    guest.controller.lines.level = VSSIP;
    guest.run(20);
    assert_eq!(guest.hart.pc(), VSTVEC);
    assert_eq!(guest.peek(csr::HIP) & VS, 0);
}

#[test]
fn timer_is_one_level_with_two_enables() {
    let mut bench = Bench::new(Mode::VS, true);
    bench.poke(csr::VSTIMECMP, 0);
    bench.run(20);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::VS, VSTVEC));
    assert_eq!(bench.peek(csr::HIP) & VS, VSTIP);
    let mut host = Bench::new(Mode::HS, true);
    host.poke(csr::VSTIMECMP, 0);
    host.run(20);
    assert_eq!(host.peek(csr::SCAUSE), 1 << 63 | 6);
    let mut masked = Bench::new(Mode::HS, true);
    masked.poke(csr::HIE, VSSIP | VSEIP);
    masked.poke(csr::VSTIMECMP, 0);
    masked.run(20);
    assert_eq!(masked.hart.pc(), LOOP);
    assert_eq!(masked.peek(csr::VSIE), VS >> 1, "hie is no alias of vsie");
}

#[test]
fn host_injection_through_hvip_reaches_the_guest_only() {
    let mut bench = Bench::new(Mode::HS, true);
    bench.poke(csr::HVIP, VS);
    bench.run(20);
    assert_eq!(bench.hart.pc(), LOOP);
    assert_eq!(bench.peek(csr::VSIP), VS >> 1);
    let mut bench = Bench::new(Mode::VS, true);
    bench.poke(csr::HVIP, VSEIP);
    bench.run(20);
    assert_eq!(bench.peek(csr::VSCAUSE), 1 << 63 | 9);
}

#[test]
fn without_opt_in_delegated_interrupts_wait_for_v1() {
    let mut bench = Bench::new(Mode::HS, false);
    bench.arrive(VS);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::HS, LOOP));
    assert_eq!(bench.peek(csr::HIP) & VS, VS);
    bench.poke(csr::VSIE, 0);
    assert_eq!(bench.peek(csr::HIE) & VS, 0, "vsie is an alias of hie");
}

#[test]
fn notification_interrupt_needs_no_delegation() {
    let mut bench = Bench::new(Mode::VS, true);
    assert_eq!(bench.peek(csr::MIDELEG) >> 24 & 1, 1);
    bench.poke(csr::SIE, 1 << 24);
    bench.controller.lines.level = 1 << 24;
    bench.run(20);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::HS, STVEC));
    assert_eq!(bench.peek(csr::SCAUSE), 1 << 63 | 24);
}

/// Also if it comes within the cycles that the first one's trap costs.
#[test]
fn the_hosts_timer_is_not_late_behind_the_guests() {
    const STIP: u64 = 1 << 5;
    for later in 0..4 {
        let mut bench = Bench::new(Mode::VS, false);
        bench.poke(csr::MIDELEG, STIP);
        bench.poke(csr::SIE, STIP);
        let due = bench.hart.now() + 20;
        bench.poke(csr::VSTIMECMP, due);
        bench.poke(csr::STIMECMP, due + later);
        bench.run(100);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::HS, STVEC));
        assert_eq!(bench.peek(csr::SCAUSE), 1 << 63 | 5);
        // At once, the guest's is still to be taken.
        let guests = if later == 0 { 0 } else { 1 << 63 | 5 };
        assert_eq!(bench.peek(csr::VSCAUSE), guests, "{later}");
    }
}
