//! A host with two domains in memory, and a vector as that memory.

use std::sync::Arc;

use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{
    csr, domain, file, hgenvsi, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, limits, source,
    vhart, vsenable,
};

use crate::aclint_plic;
pub use crate::fake_memory::{RAM, RAM_SIZE, Ram};
use crate::trapless::{Config, Trapless};
use crate::{
    CsrAccess, CsrFault, CsrOp, Effects, InterruptArchitecture, Lines, StepKind, VirtualStep,
};

pub const HARTS: usize = 3;
/// `htlcfg.VERSION` as it reads on each hart.
pub const VERSION: u64 = limits::VERSION << htlcfg::VERSION_SHIFT;
/// Domains 1 and 2 exist in a table of four.
pub const DOMAINS: [u16; 2] = [1, 2];
/// Vharts of each domain; one less has an entry, the last is not valid.
pub const VHARTS: u16 = 5;
/// Highest source of each domain: a second word of pending bits, partly used.
pub const SOURCES: u16 = 70;
/// Entries of a queue, as a power of two.
pub const QUEUE_SIZE: u64 = 2;

/// Software and external interrupt inputs of VS-mode.
pub const SOFT: u64 = 1 << 2;
pub const EXTERNAL: u64 = 1 << 10;
pub const NOTIFY: u64 = 1 << 24;

pub fn config(h: bool) -> Config {
    Config {
        aclint: aclint_plic::Config {
            harts: HARTS,
            cycles_per_tick: 100,
            sswi: true,
            edge_triggered: 0,
        },
        h,
    }
}

pub struct World {
    pub intc: Trapless,
    /// Of all accesses since a test last took them.
    pub effects: Effects,
    pub ram: Ram,
}

/// An entry of the source table.
#[derive(Clone, Copy)]
pub struct Routing {
    pub vhart: u16,
    pub priority: u64,
    pub level: bool,
    pub resample: bool,
}

/// Edge-triggered, priority 1, to vhart 0.
pub const EDGE: Routing = Routing {
    vhart: 0,
    priority: 1,
    level: false,
    resample: false,
};
pub const LEVEL: Routing = Routing {
    level: true,
    ..EDGE
};
pub const RESAMPLE: Routing = Routing {
    resample: true,
    ..LEVEL
};

impl World {
    /// All harts use the same domain table and have queues; nothing is attached, all files are
    /// empty and STOPPED, no source exists.
    pub fn new() -> Self {
        Self::around(Trapless::new(config(true)))
    }

    pub fn around(mut intc: Trapless) -> Self {
        let ram = Ram::new();
        for id in DOMAINS {
            let entry = domain_entry(id);
            let config = domain::CONFIG_V
                | u64::from(SOURCES) << domain::CONFIG_SOURCES_SHIFT
                | u64::from(VHARTS) << domain::CONFIG_VHARTS_SHIFT;
            ram.set(entry + domain::CONFIG, config);
            ram.set(entry + domain::VHART_TABLE, vhart_table(id));
            ram.set(entry + domain::SOURCE_TABLE, source_table(id));
            ram.set(entry + domain::LINES, lines_of(id));
            for number in 0..VHARTS - 1 {
                ram.set(
                    vhart_table(id) + u64::from(number) * vhart::SIZE,
                    vhart::ENTRY_V | file_of(id, number),
                );
            }
        }
        intc.attach_memory(Arc::new(ram.clone()));
        let mut world = Self {
            intc,
            effects: Effects::default(),
            ram,
        };
        for hart in 0..HARTS {
            world.hs(hart, csr::HVTABLEBASE, hvtablebase::V | RAM | 2);
            world.hs(hart, csr::HTLCFG, htlcfg::EN);
            world.hs(
                hart,
                csr::HNQBASE,
                hnqbase::EN | queue_of(hart) | QUEUE_SIZE,
            );
        }
        world.take_changed();
        world.effects.steps.record();
        world
    }

    pub fn access(
        &mut self,
        hart: usize,
        mode: Mode,
        csr: u16,
        op: CsrOp,
    ) -> Result<u64, CsrFault> {
        let access = CsrAccess {
            hart,
            csr,
            mode,
            vmid: 0,
            now: 0,
            op,
        };
        self.intc.csr(&access, &mut self.effects)
    }

    /// HS-mode writes a CSR it may write.
    pub fn hs(&mut self, hart: usize, csr: u16, value: u64) {
        self.access(hart, Mode::HS, csr, CsrOp::Write(value))
            .unwrap();
    }

    pub fn hs_read(&mut self, hart: usize, csr: u16) -> u64 {
        self.access(hart, Mode::HS, csr, CsrOp::Read).unwrap()
    }

    /// The guest on `hart` writes a CSR it may write.
    pub fn vs(&mut self, hart: usize, csr: u16, value: u64) {
        self.access(hart, Mode::VS, csr, CsrOp::Write(value))
            .unwrap();
    }

    pub fn claim(&mut self, hart: usize) -> u64 {
        self.access(hart, Mode::VS, csr::VSCLAIM, CsrOp::Read)
            .unwrap()
    }

    pub fn attach(&mut self, hart: usize, domain: u16, vhart: u16) {
        self.hs(hart, csr::HIFMAP, slot(domain, vhart));
        assert_eq!(self.hs_read(hart, csr::HIFMAP), slot(domain, vhart));
    }

    pub fn detach(&mut self, hart: usize, state: u64) {
        self.hs(hart, csr::HIFMAP, state << hifmap::STATE_SHIFT);
        assert_eq!(self.hs_read(hart, csr::HIFMAP), 0);
    }

    /// `hgenvsi` on a hart.
    pub fn generate(&mut self, hart: usize, op: u64, domain: u16, id: u16) {
        self.hs(hart, csr::HGENVSI, command(op, domain, id));
    }

    /// What `hnotify` of a hart reads.
    pub fn fetch(&mut self, hart: usize) -> u64 {
        self.hs_read(hart, csr::HNOTIFY)
    }

    pub fn lines(&mut self, hart: usize) -> Lines {
        self.intc.lines(hart, 0)
    }

    /// Inputs that come from the extension.
    pub fn level(&mut self, hart: usize) -> u64 {
        self.lines(hart).level
    }

    pub fn write_ssip(&mut self, hart: usize, value: u64) {
        self.access(hart, Mode::VS, VSIP, CsrOp::Write(value))
            .unwrap();
    }

    /// Enters a source of a domain and enables it in the file of its vhart.
    pub fn route(&mut self, domain: u16, number: u16, routing: Routing) {
        self.route_only(domain, number, routing);
        let word = word(domain, routing.vhart, file::ENABLE, number);
        self.ram.set(word, self.ram.get(word) | 1 << (number % 64));
    }

    pub fn route_only(&mut self, domain: u16, number: u16, routing: Routing) {
        let flag = |on, flag| if on { flag } else { 0 };
        self.ram.set(
            source_table(domain) + u64::from(number) * source::SIZE,
            source::ENTRY_V
                | flag(routing.level, source::ENTRY_LEVEL)
                | flag(routing.resample, source::ENTRY_RESAMPLE)
                | routing.priority << source::ENTRY_PRIO_SHIFT
                | u64::from(routing.vhart) << source::ENTRY_VHART_SHIFT,
        );
    }

    pub fn pending(&self, domain: u16, vhart: u16, number: u16) -> bool {
        let word = self.ram.get(word(domain, vhart, file::PENDING, number));
        word >> (number % 64) & 1 != 0
    }

    /// Level of a source's line.
    pub fn line(&self, domain: u16, number: u16) -> bool {
        let word = self.ram.get(lines_of(domain) + u64::from(number / 64) * 8);
        word >> (number % 64) & 1 != 0
    }

    pub fn ctl(&self, domain: u16, vhart: u16) -> u64 {
        self.ram.get(file_of(domain, vhart) + file::CTL)
    }

    pub fn set_ctl(&self, domain: u16, vhart: u16, value: u64) {
        self.ram.set(file_of(domain, vhart) + file::CTL, value);
    }

    pub fn take_steps(&mut self) -> Vec<VirtualStep> {
        self.effects.steps.drain().collect()
    }

    /// The same without who and when.
    pub fn steps(&mut self) -> Vec<StepKind> {
        self.effects.steps.drain().map(|step| step.kind).collect()
    }

    pub fn take_changed(&mut self) -> u64 {
        std::mem::take(&mut self.effects.changed)
    }

    pub fn take_switched(&mut self) -> u64 {
        std::mem::take(&mut self.effects.switched)
    }
}

pub fn slot(domain: u16, vhart: u16) -> u64 {
    hifmap::V | u64::from(domain) << hifmap::DOM_SHIFT | u64::from(vhart)
}

pub fn ctl(state: u64, hart: u64, bits: u64) -> u64 {
    state << file::CTL_STATE_SHIFT | hart << file::CTL_HART_SHIFT | bits
}

pub fn command(op: u64, domain: u16, id: u16) -> u64 {
    op << hgenvsi::OP_SHIFT | u64::from(domain) << hgenvsi::DOM_SHIFT | u64::from(id)
}

pub fn notification(kind: u64, domain: u16, id: u16) -> u64 {
    hnotify::V
        | kind << hnotify::KIND_SHIFT
        | u64::from(domain) << hnotify::DOM_SHIFT
        | u64::from(id)
}

pub fn enable(number: u16, on: bool) -> u64 {
    u64::from(number) | if on { vsenable::E } else { 0 }
}

/// Entry of a domain in the table at the beginning of RAM.
pub fn domain_entry(id: u16) -> u64 {
    RAM + u64::from(id) * domain::SIZE
}

pub fn vhart_table(id: u16) -> u64 {
    RAM + 0x1000 + u64::from(id) * 0x100
}

pub fn source_table(id: u16) -> u64 {
    RAM + 0x2000 + u64::from(id) * 0x400
}

pub fn lines_of(id: u16) -> u64 {
    RAM + 0x3000 + u64::from(id) * 0x100
}

pub fn file_of(id: u16, vhart: u16) -> u64 {
    RAM + 0x4000 + u64::from(id * VHARTS + vhart) * file::SIZE
}

pub fn queue_of(hart: usize) -> u64 {
    RAM + 0x1_0000 + hart as u64 * 0x1000
}

/// Address of the pending or enable word of a source.
pub fn word(domain: u16, vhart: u16, part: u64, number: u16) -> u64 {
    file_of(domain, vhart) + part + u64::from(number / 64) * file::PENDING_STRIDE
}
