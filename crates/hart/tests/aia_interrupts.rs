//! Smaia and Ssaia: which interrupt is taken, where it comes from, and who may say so. (Their
//! registers are compared with QEMU by `trapless-difftest`, families `aia-*`.)

use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{AiaConfig, CodeCache, CostModel, Hart, HartConfig, Ram};
use trapless_isa::csr::{self, hstatus, hvictl, status};
use trapless_isa::port::{FileAccess, FileId, FileRegister, Lines, NoFile};
use trapless_isa::{Mode, Priv};
use trapless_ledger::event::Event;

const RAM: u64 = 0x8000_0000;
const LOOP: u64 = RAM + 0x1000;
const MTVEC: u64 = RAM + 0x4000;
const STVEC: u64 = RAM + 0x2000;
const VSTVEC: u64 = RAM + 0x3000;
/// Writes `hvip` and enters the guest.
const INJECT: u64 = RAM + 0x5000;
/// Instructions of VS-mode, which raise an interrupt of its own.
const RAISE: u64 = RAM + 0x6000;
/// Instructions of M-mode, which write `menvcfg` and return.
const SWITCH: u64 = RAM + 0x7000;

const SSI: u64 = 1;
const STI: u64 = 5;
const SEI: u64 = 9;
const VSEI: u64 = 10;
const INTERRUPT: u64 = 1 << 63;

/// Interrupt files that report one identity each.
#[derive(Default)]
struct Files {
    lines: Lines,
    /// Those that the hart has seen.
    reported: Lines,
    supervisor: u64,
    guest: u64,
    selected: Vec<u8>,
}

impl Platform for Files {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn interrupt_file(&mut self, access: &FileAccess) -> Result<u64, NoFile> {
        let identity = match (access.file, access.register) {
            (FileId::Supervisor, FileRegister::Top) => self.supervisor,
            (FileId::Guest(_), FileRegister::Top) => self.guest,
            _ => return Err(NoFile),
        };
        Ok(identity << 16 | identity)
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        self.reported = self.lines;
        self.lines
    }

    fn lines_changed(&self, _: usize) -> bool {
        self.lines != self.reported
    }

    fn record(&mut self, event: &Event) {
        if let Event::Virtual(step) = event {
            if let trapless_isa::port::StepKind::FileSelected { file } = step.kind {
                self.selected.push(file);
            }
        }
    }
}

struct Bench {
    hart: Hart,
    code: CodeCache,
    files: Files,
}

impl Bench {
    /// A hart in an endless loop in `mode`, interrupts of its level on.
    fn new(mode: Mode) -> Self {
        let ram = Ram::new(RAM, 0x10000).unwrap();
        ram.store(RAM, 4, 0x3020_0073).unwrap();
        for at in [LOOP, MTVEC, STVEC, VSTVEC] {
            ram.store(at, 4, 0x0000_006f).unwrap();
        }
        // csrw hvip, a0; sret
        ram.store(INJECT, 8, 0x1020_0073_6455_1073).unwrap();
        // csrs sip, a0; j .
        ram.store(RAISE, 8, 0x0000_006f_1445_2073).unwrap();
        // csrw menvcfg, a0; mret
        ram.store(SWITCH, 8, 0x3020_0073_30a5_1073).unwrap();
        let config = HartConfig {
            reset_pc: RAM,
            cost: CostModel {
                trap: 1,
                ..CostModel::default()
            },
            aia: Some(AiaConfig { guests: 7 }),
            ..HartConfig::default()
        };
        let code = CodeCache::new(&ram, config.extensions, config.cost);
        let mut bench = Self {
            hart: Hart::new(0, config, ram),
            code,
            files: Files::default(),
        };
        let previous = match mode.privilege() {
            Priv::U => 0,
            _ => status::MPP & 1 << 11,
        };
        let v = if mode.v() { status::MPV } else { 0 };
        for (addr, value) in [
            (csr::PMPADDR0, u64::MAX >> 10),
            (csr::PMPCFG0, 0x1f),
            (csr::MEPC, LOOP),
            (csr::MTVEC, MTVEC),
            (csr::STVEC, STVEC),
            (csr::VSTVEC, VSTVEC),
            (csr::MIDELEG, 1 << SSI | 1 << STI | 1 << SEI),
            (csr::HIDELEG, 0x444),
            (csr::VSSTATUS, status::SIE),
            (csr::HSTATUS, hstatus::SPVP),
            (csr::MSTATUS, previous | v | status::SIE),
        ] {
            bench.poke(addr, value);
        }
        bench.run(3);
        assert_eq!((bench.hart.mode(), bench.hart.pc()), (mode, LOOP));
        bench
    }

    fn poke(&mut self, addr: u16, value: u64) {
        assert!(
            self.hart.poke_csr(addr, value, &mut self.files),
            "{addr:#x}"
        );
    }

    fn peek(&self, addr: u16) -> u64 {
        self.hart.peek_csr_as_m(addr).unwrap()
    }

    fn run(&mut self, cycles: u64) {
        let until = self.hart.now() + cycles;
        self.hart.run(&mut self.code, &mut self.files, until, None);
    }

    /// Continues the hart; returns its pc and the cause.
    fn taken(&mut self) -> (Mode, u64) {
        self.run(10);
        let cause = match self.hart.pc() {
            MTVEC => self.peek(csr::MCAUSE),
            STVEC => self.peek(csr::SCAUSE),
            VSTVEC => self.peek(csr::VSCAUSE),
            _ => 0,
        };
        (self.hart.mode(), cause)
    }
}

/// Promise: who writes `mip` back from outside, with a bit more, makes nothing else pending: what
/// the interrupt file signals ends with its signal.
#[test]
fn a_debugger_does_not_make_a_signal_software_s() {
    let mut bench = Bench::new(Mode::HS);
    bench.files.lines.level = 1 << SEI;
    bench.run(10);
    let mip = bench.peek(csr::MIP);
    assert_eq!(mip & 1 << SEI, 1 << SEI);
    bench.poke(csr::MIP, mip | 1 << SSI);
    bench.files.lines.level = 0;
    bench.run(10);
    assert_eq!(bench.peek(csr::MIP) & (1 << SEI | 1 << SSI), 1 << SSI);
    bench.poke(csr::MIP, 1 << SEI);
    assert_eq!(bench.peek(csr::MIP) & 1 << SEI, 1 << SEI, "set by software");
}

/// The guest external interrupt that `hstatus.VGEIN` selects is the guest's VSEIP, the others are
/// the host's SGEIP.
#[test]
fn guest_external_interrupt_reaches_the_vcpu_it_is_selected_for() {
    let mut bench = Bench::new(Mode::VS);
    bench.poke(csr::HSTATUS, 3 << 12);
    bench.poke(csr::HIE, 1 << VSEI);
    bench.files.lines.hgeip = 1 << 2;
    assert_eq!(bench.taken(), (Mode::VS, 0), "another vCPU's");
    bench.files.lines.hgeip = 1 << 3;
    assert_eq!(bench.taken(), (Mode::VS, INTERRUPT | SEI));
    let mut bench = Bench::new(Mode::VS);
    bench.poke(csr::HSTATUS, 3 << 12);
    bench.poke(csr::HIE, 1 << 12);
    bench.poke(csr::HGEIE, u64::MAX);
    assert_eq!(bench.peek(csr::HGEIE), 0xFE, "seven files");
    bench.files.lines.hgeip = 1 << 2;
    assert_eq!(bench.taken(), (Mode::HS, INTERRUPT | 12));
}

/// A host that waits is woken by the file of a vCPU that it has put.
#[test]
fn guest_external_interrupt_ends_the_wait_of_the_host() {
    let mut bench = Bench::new(Mode::HS);
    bench.poke(csr::HIE, 1 << 12);
    bench.poke(csr::HGEIE, 1 << 4);
    bench.files.lines.hgeip = 1 << 5;
    assert_eq!(bench.taken(), (Mode::HS, 0));
    bench.files.lines.hgeip = 1 << 4;
    assert_eq!(bench.taken(), (Mode::HS, INTERRUPT | 12));
}

/// A number in `iprio` puts a major interrupt between the identities of external ones.
#[test]
fn priority_numbers_order_major_and_external_interrupts() {
    for (number, identity, first) in [(0, 40, SEI), (39, 40, SSI), (41, 40, SEI), (1, 300, SSI)] {
        let mut bench = Bench::new(Mode::U);
        bench.poke(csr::SIE, 1 << SSI | 1 << SEI);
        bench.files.supervisor = identity;
        bench.hart.set_priority(1, SSI, number);
        bench.files.lines.level = 1 << SEI;
        bench.poke(csr::MIP, 1 << SSI);
        assert_eq!(
            bench.taken(),
            (Mode::HS, INTERRUPT | first),
            "{number} {identity}"
        );
    }
}

/// `mvien` lets M-mode hand on an interrupt that is not delegated: it takes SSI itself, and raises
/// another by `mvip`.
#[test]
fn filtered_interrupts_come_from_mvip() {
    let mut bench = Bench::new(Mode::HS);
    bench.poke(csr::MIDELEG, 0);
    bench.poke(csr::MVIEN, 1 << SSI | 1 << 13);
    bench.poke(csr::SIE, 1 << SSI | 1 << 13);
    assert_eq!(
        (bench.peek(csr::SIE), bench.peek(csr::MIE)),
        (1 << SSI | 1 << 13, 0)
    );
    bench.poke(csr::MIP, 1 << SSI);
    assert_eq!(bench.peek(csr::SIP), 0, "mip.SSIP is M-mode's");
    assert_eq!(bench.taken(), (Mode::HS, 0));
    bench.poke(csr::MVIP, 1 << 13);
    assert_eq!(bench.taken(), (Mode::HS, INTERRUPT | 13));
    assert_eq!(bench.peek(csr::MIP) >> 13 & 1, 0);
}

/// `hvien` and `hvip` give a guest local interrupts that no hardware has.
#[test]
fn virtual_local_interrupts_reach_the_guest() {
    let mut bench = Bench::new(Mode::VS);
    bench.poke(csr::HVIP, 1 << 13);
    bench.poke(csr::HVIEN, 1 << 13);
    assert_eq!(bench.taken(), (Mode::VS, 0), "vsie is zero");
    bench.poke(csr::VSIE, 1 << 13);
    assert_eq!(bench.taken(), (Mode::VS, INTERRUPT | 13));
    bench.poke(csr::VSIP, 0);
    assert_eq!(bench.peek(csr::HVIP), 0, "vsip is its alias");
}

/// What the host puts in `hvip` is taken as soon as the guest runs, not at the end of the hart's
/// slice.
#[test]
fn virtual_local_interrupt_is_taken_at_once() {
    let mut bench = Bench::new(Mode::HS);
    bench.poke(csr::HVIEN, 1 << 13);
    bench.poke(csr::VSIE, 1 << 13);
    bench.poke(csr::SEPC, LOOP);
    bench.poke(csr::HSTATUS, hstatus::SPVP | hstatus::SPV);
    bench.poke(csr::SSTATUS, status::SPP);
    bench.hart.set_x(10, 1 << 13);
    bench.run(10);
    bench.hart.set_pc(INJECT);
    bench.run(200);
    assert_eq!((bench.hart.mode(), bench.hart.pc()), (Mode::VS, VSTVEC));
}

/// What a hart itself makes pending is taken although nothing else happens: no input changes, and
/// no debugger looks.
#[test]
fn interrupts_of_the_harts_own_making_are_taken() {
    let mut guest = Bench::new(Mode::VS);
    guest.poke(csr::HVIEN, 1 << 13);
    guest.poke(csr::VSIE, 1 << 13);
    guest.hart.set_x(10, 1 << 13);
    guest.hart.set_pc(RAISE);
    guest.run(4);
    assert_eq!(guest.taken(), (Mode::VS, INTERRUPT | 13), "csrs sip");

    // A software bit that the comparator hides until firmware switches that off.
    let mut host = Bench::new(Mode::HS);
    host.poke(csr::MIP, 1 << STI);
    host.poke(csr::MENVCFG, 1 << 63);
    host.poke(csr::SIE, 1 << STI);
    assert_eq!(host.taken(), (Mode::HS, 0), "hidden");
    // The hart comes to M-mode by a trap that it does not delegate, and back by `mret`.
    host.hart.set_pc(RAM + 0x8);
    host.run(4);
    assert_eq!(host.hart.mode(), Mode::M);
    host.poke(csr::MEPC, LOOP);
    host.hart.set_x(10, 0);
    host.hart.set_pc(SWITCH);
    host.run(3);
    assert_eq!(host.taken(), (Mode::HS, INTERRUPT | STI), "csrw menvcfg");
}

/// With `hvictl.VTI` the host says which interrupt the guest has; others but external ones wait.
#[test]
fn injected_interrupt_takes_the_place_of_pending_ones() {
    let vti = |identity: u64| hvictl::VTI | identity << 16;
    let mut bench = Bench::new(Mode::VS);
    bench.poke(csr::HIE, 0x444);
    bench.poke(csr::HVICTL, vti(SEI));
    bench.poke(csr::HVIP, 1 << 2);
    assert_eq!(bench.taken(), (Mode::VS, 0), "IID 9 stands for none");
    bench.poke(csr::HVICTL, vti(40));
    assert_eq!(bench.taken(), (Mode::VS, INTERRUPT | 40));
    let mut host = Bench::new(Mode::HS);
    host.poke(csr::HVICTL, vti(40));
    assert_eq!(host.taken(), (Mode::HS, 0), "it is the guest's");
}

/// A guest's external interrupt competes with `hvictl`'s by the identity in its file, or by default
/// order.
#[test]
fn injected_interrupt_competes_with_the_guests_file() {
    for (identity, control, first) in [
        (7, hvictl::DPR, SEI),
        (7, 0, 40),
        (7, hvictl::IPRIOM | 6, 40),
        (7, hvictl::IPRIOM | 8, SEI),
    ] {
        let mut bench = Bench::new(Mode::VS);
        bench.poke(csr::HSTATUS, 1 << 12);
        bench.files.guest = identity;
        bench.files.lines.hgeip = 1 << 1;
        bench.poke(csr::HVICTL, hvictl::VTI | 40 << 16 | control);
        bench.poke(csr::HIE, 1 << VSEI);
        assert_eq!(bench.taken(), (Mode::VS, INTERRUPT | first), "{control:#x}");
    }
}

/// `hviprio1` reorders a guest's major interrupts.
#[test]
fn guest_priorities_are_those_the_host_sets() {
    for (priorities, first) in [(0, SSI), (2 << 8 | 1 << 24, STI)] {
        let mut bench = Bench::new(Mode::VU);
        bench.poke(csr::HVIPRIO1, priorities);
        bench.poke(csr::HVIP, 1 << 2 | 1 << 6);
        bench.poke(csr::HIE, 0x444);
        assert_eq!(bench.taken(), (Mode::VS, INTERRUPT | first));
    }
}

/// The ledger gets an event when a guest is entered with another file.
#[test]
fn entry_with_another_file_is_one_event() {
    let mut bench = Bench::new(Mode::VS);
    assert_eq!(bench.files.selected, [0]);
    for file in [4, 4, 5] {
        bench.poke(csr::HSTATUS, file << 12 | hstatus::SPVP);
        bench.poke(csr::MIP, 0);
        bench.files.lines.level = 1 << 11;
        bench.poke(csr::MIE, 1 << 11);
        bench.run(5);
        assert_eq!(bench.hart.mode(), Mode::M);
        bench.files.lines.level = 0;
        bench.hart.set_pc(RAM);
        bench.run(5);
        assert_eq!(bench.hart.mode(), Mode::VS);
    }
    assert_eq!(bench.files.selected, [0, 4, 5]);
}
