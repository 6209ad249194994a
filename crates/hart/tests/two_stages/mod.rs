//! A guest on a hart, whose page at [`DEVICE`] has a G-stage leaf of a test's choice.

#![allow(dead_code, reason = "each test file uses a part")]

use trapless_asm as asm;
use trapless_hart::platform::{BusFault, Platform};
use trapless_hart::{CodeCache, Hart, HartConfig, Ram, Tiers};
use trapless_isa::Extensions;
use trapless_isa::cause::exception;
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::port::{
    ContextAccess, CsrAccess, CsrFault, DoorbellAccess, DoorbellFault, Exchanged, Lines,
};
use trapless_isa::{Mode, Priv};
use trapless_ledger::event::Event;

pub const RAM: u64 = 0x8000_0000;
/// The guest's program, the handler in U-mode, and that of HS-mode.
pub const GUEST: u64 = RAM;
pub const HANDLER: u64 = RAM + 0x1000;
pub const HOST: u64 = RAM + 0x2000;
/// M-mode enters the guest here.
pub const ENTRY: u64 = RAM + 0x3000;
/// G-stage: root, level 1 and level 0 of the page.
pub const ROOT: u64 = RAM + 0x4000;
pub const LEVEL1: u64 = RAM + 0x8000;
pub const LEVEL0: u64 = RAM + 0x9000;
/// S-stage of the host process: RAM for U-mode at its own address, and for HS-mode above.
pub const PROCESS: u64 = RAM + 0xA000;
pub const KERNEL: u64 = 0x4000_0000;
pub const DEVICE: u64 = 0x1000_0000;
pub const POINTER: u64 = 1;
pub const V: u64 = 1;
pub const R: u64 = 2;
pub const W: u64 = 4;
pub const X: u64 = 8;
pub const U: u64 = 16;
pub const AD: u64 = 0xC0;
pub const MMIO: u64 = 1 << 57;
/// A custom CSR of the platform.
pub const CUSTOM: u16 = 0x800;
pub const SPIN: u32 = asm::jal(0, 0);
pub const URET: u32 = 0x8C00_0073;

/// A platform with a custom CSR, and a doorbell page for whose accesses there is an answer.
pub struct Custom {
    /// What it answers.
    pub answer: Result<u64, DoorbellFault>,
    /// Accesses to doorbell pages.
    pub rung: Vec<DoorbellAccess>,
    /// What it drives.
    pub lines: Lines,
    /// Those that the hart has seen.
    pub reported: Lines,
    /// The handler of a user context that interrupts the guest once: its registers.
    pub context: Option<Exchanged>,
    /// What it interrupts.
    pub kept: Option<Exchanged>,
}

/// Bits of `PENDING` that a handler of a user context is notified of.
pub const PENDING: u64 = 0x8001;

impl Platform for Custom {
    fn load(&mut self, _: usize, _: u64, _: u64, _: u8, _: Mode) -> Result<u64, BusFault> {
        Err(BusFault)
    }

    fn store(&mut self, _: usize, _: u64, _: u64, _: u8, _: u64, _: Mode) -> Result<(), BusFault> {
        Err(BusFault)
    }

    fn csr(&mut self, access: &CsrAccess) -> Result<u64, CsrFault> {
        let known = access.csr == CUSTOM;
        known.then_some(0).ok_or(CsrFault::Illegal)
    }

    fn doorbell(&mut self, access: &DoorbellAccess) -> Result<u64, DoorbellFault> {
        self.rung.push(*access);
        self.answer
    }

    fn enter_context(&mut self, _: &ContextAccess, registers: &mut Exchanged) -> Option<u64> {
        self.lines.context = false;
        let handler = self.context.take()?;
        self.kept = Some(std::mem::replace(registers, handler));
        Some(PENDING)
    }

    fn leave_context(&mut self, _: &ContextAccess, registers: &mut Exchanged) -> bool {
        let Some(kept) = self.kept.take() else {
            return false;
        };
        *registers = kept;
        self.lines = Lines::default();
        true
    }

    fn lines(&mut self, _: usize, _: u64) -> Lines {
        self.reported = self.lines;
        self.lines
    }

    fn lines_changed(&self, _: usize) -> bool {
        self.lines != self.reported
    }

    fn record(&mut self, _: &Event) {}
}

pub struct Bench {
    pub hart: Hart,
    pub code: CodeCache,
    pub ram: Ram,
    pub platform: Custom,
}

pub fn program(ram: &Ram, at: u64, words: &[u32]) {
    for (i, word) in words.iter().chain(&[SPIN]).enumerate() {
        ram.store(at + 4 * i as u64, 4, u64::from(*word)).unwrap();
    }
}

impl Bench {
    /// A hart in VS-mode at [`GUEST`], with HUR and both MMIO faults delegated, where [`DEVICE`]
    /// has the G-stage leaf `leaf`.
    pub fn new(leaf: u64, xuer: bool, compiled: bool) -> Self {
        Self::with_extensions(leaf, xuer, true, compiled)
    }

    /// As [`new`](Self::new), with or without Xvei.
    pub fn with_extensions(leaf: u64, xuer: bool, xvei: bool, compiled: bool) -> Self {
        let ram = Ram::new(RAM, 0x20000).unwrap();
        let identity = RAM >> 12 << 10 | V | R | W | X | U | AD;
        for (table, level, entry) in [
            (ROOT, 2, LEVEL1 >> 12 << 10 | POINTER),
            (LEVEL1, 1, LEVEL0 >> 12 << 10 | POINTER),
            (LEVEL0, 0, leaf),
        ] {
            let place = table + (DEVICE >> (12 + 9 * level) & 0x1FF) * 8;
            ram.store(place, 8, entry).unwrap();
        }
        for (root, address, entry) in [
            (ROOT, RAM, identity),
            (PROCESS, RAM, identity),
            (PROCESS, RAM + KERNEL, identity & !U),
        ] {
            ram.store(root + (address >> 30) * 8, 8, entry).unwrap();
        }
        let config = HartConfig {
            reset_pc: GUEST,
            extensions: Extensions {
                xuer,
                xvei,
                xhcs: xuer && xvei,
                ..Extensions::default()
            },
            ..HartConfig::default()
        };
        let mut code = CodeCache::new(&ram, config.extensions, config.cost);
        if compiled && !code.compile(Tiers::EAGER, &config) {
            eprintln!("this host has no compiler");
        }
        let mut bench = Self {
            code,
            hart: Hart::new(0, config, ram.clone()),
            ram,
            platform: Custom {
                answer: Err(DoorbellFault { mmio: false }),
                rung: Vec::new(),
                lines: Lines::default(),
                reported: Lines::default(),
                context: None,
                kept: None,
            },
        };
        let guest_page = 1 << exception::LOAD_GUEST_PAGE
            | 1 << exception::STORE_GUEST_PAGE
            | 1 << exception::FETCH_GUEST_PAGE;
        let mmio = 1 << exception::LOAD_MMIO_PAGE | 1 << exception::STORE_MMIO_PAGE;
        for (addr, value) in [
            (csr::PMPADDR0, u64::MAX >> 10),
            (csr::PMPCFG0, 0x1f),
            (csr::MEDELEG, guest_page | 0xB1FF),
            (csr::STVEC, HOST + KERNEL),
            (csr::SATP, 8 << 60 | PROCESS >> 12),
            (csr::HGATP, 8 << 60 | ROOT >> 12),
            (csr::MSTATUS, status::FS),
            (csr::VSSTATUS, status::FS),
        ] {
            bench.poke(addr, value);
        }
        if xuer {
            bench.poke(csr::UTVEC, HANDLER);
            bench.poke(csr::HUEDELEG, mmio);
            bench.poke(csr::HSTATUS, hstatus::HUR);
        }
        bench
    }

    pub fn poke(&mut self, addr: u16, value: u64) {
        assert!(
            self.hart.poke_csr(addr, value, &mut self.platform),
            "{addr:#x}"
        );
    }

    pub fn csr(&self, addr: u16) -> u64 {
        self.hart.peek_csr(addr).unwrap()
    }

    /// Enters the guest at [`GUEST`] in VS- or VU-mode, from M-mode, and runs for a while.
    pub fn run(&mut self, privilege: Priv) {
        let spp = u64::from(privilege == Priv::S) * status::SPP;
        self.enter(true, spp);
    }

    /// Enters with V and SPP as given.
    pub fn enter(&mut self, v: bool, spp: u64) {
        let enter = [asm::csrw(csr::SEPC, 10), asm::SRET];
        program(&self.ram, ENTRY, &enter);
        self.code.compare(&self.ram);
        self.poke(csr::MSTATUS, self.csr(csr::MSTATUS) & !status::SPP | spp);
        let spv = u64::from(v) * hstatus::SPV;
        self.poke(csr::HSTATUS, self.csr(csr::HSTATUS) & !hstatus::SPV | spv);
        self.hart.set_x(10, GUEST);
        self.hart.set_pc(ENTRY);
        let until = self.hart.now() + 2000;
        self.hart
            .run(&mut self.code, &mut self.platform, until, None);
    }
}
