//! Two domains in memory, and what a host does with them.

use trapless_isa::xtrapless::{
    csr, domain, file, hgenvsi, hgrant, hifmap, hnotify, hnqbase, htlcfg, hvtablebase, op, source,
    state, vhart, vsenable,
};

use super::{Amo, Script};
use crate::layout;

/// Domains 1 and 2 exist in a table of 2^[`TABLE_SIZE`] entries.
pub const DOMAINS: [u64; 2] = [1, 2];
/// log2 of the entries of the domain table.
pub const TABLE_SIZE: u64 = 2;
/// Vharts of each domain; the last has no valid entry.
pub const VHARTS: u64 = 5;
/// Highest source of each domain: a second word of pending bits, partly used.
pub const SOURCES: u64 = 70;
/// log2 of the entries of a queue.
pub const QUEUE_SIZE: u64 = 2;

/// Bytes between line levels and outstanding resamples.
const RESAMPLES: u64 = 128;

/// An entry of the source table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Vhart that it interrupts.
    pub vhart: u64,
    /// Priority, 0 to 7.
    pub priority: u64,
    /// Level-sensitive.
    pub level: bool,
    /// `RESAMPLE`.
    pub resample: bool,
}

/// Edge-sensitive, priority 1, for vhart 0.
pub const EDGE: Source = Source {
    vhart: 0,
    priority: 1,
    level: false,
    resample: false,
};
/// Level-sensitive.
pub const LEVEL: Source = Source {
    level: true,
    ..EDGE
};
/// Level-sensitive, with `RESAMPLE`.
pub const RESAMPLE: Source = Source {
    resample: true,
    ..LEVEL
};

impl Source {
    /// The same for another vhart.
    pub const fn vhart(self, vhart: u64) -> Self {
        Self { vhart, ..self }
    }

    /// The same with another priority.
    pub const fn priority(self, priority: u64) -> Self {
        Self { priority, ..self }
    }

    /// The word of the table.
    pub fn entry(self) -> u64 {
        let flag = |on, bit| if on { bit } else { 0 };
        source::ENTRY_V
            | flag(self.level, source::ENTRY_LEVEL)
            | flag(self.resample, source::ENTRY_RESAMPLE)
            | self.priority << source::ENTRY_PRIO_SHIFT
            | self.vhart
    }
}

/// Operand of `hifmap` that attaches.
pub fn slot(domain: u64, vhart: u64) -> u64 {
    hifmap::V | domain << hifmap::DOM_SHIFT | vhart
}

/// Operand of `hgenvsi`.
pub fn command(op: u64, domain: u64, id: u64) -> u64 {
    op << hgenvsi::OP_SHIFT | domain << hgenvsi::DOM_SHIFT | id
}

/// A notification as `hnotify` returns it.
pub fn notification(kind: u64, domain: u64, id: u64) -> u64 {
    hnotify::V | kind << hnotify::KIND_SHIFT | domain << hnotify::DOM_SHIFT | id
}

/// A value of `CTL`.
pub fn ctl(state: u64, hart: u64, bits: u64) -> u64 {
    state << file::CTL_STATE_SHIFT | hart << file::CTL_HART_SHIFT | bits
}

/// `CONFIG` of a domain.
pub fn config(vharts: u64, sources: u64) -> u64 {
    domain::CONFIG_V | sources << domain::CONFIG_SOURCES_SHIFT | vharts
}

/// A value of `hgrant`.
pub fn grant(domain: u64, first: u64, count: u64) -> u64 {
    hgrant::V | domain << hgrant::DOM_SHIFT | count << hgrant::COUNT_SHIFT | first
}

/// The bit of a source in its word.
pub fn bit(source: u64) -> u64 {
    1 << (source % 64)
}

impl Script<'_> {
    /// The entry of a domain.
    pub fn domain(&self, domain: u64) -> u64 {
        self.at(layout::TABLES) + domain * domain::SIZE
    }

    /// The entry of a vhart.
    pub fn vhart(&self, domain: u64, vhart: u64) -> u64 {
        self.at(layout::TABLES + 0x1000) + domain * 0x800 + vhart * vhart::SIZE
    }

    /// The entry of a source.
    pub fn source(&self, domain: u64, source: u64) -> u64 {
        self.at(layout::TABLES + 0x4000) + domain * 0x2000 + source * source::SIZE
    }

    /// The word with the line of a source.
    pub fn line(&self, domain: u64, source: u64) -> u64 {
        self.at(layout::TABLES + 0x1_0000) + domain * 0x100 + source / 64 * 8
    }

    /// The word with the outstanding resample of a source, or with the pending bit of one of the
    /// host.
    pub fn resample(&self, domain: u64, source: u64) -> u64 {
        self.line(domain, source) + RESAMPLES
    }

    /// The window table.
    pub fn window_table(&self) -> u64 {
        self.at(layout::TABLES + 0x1_1000)
    }

    /// The file of a vhart.
    pub fn file(&self, domain: u64, vhart: u64) -> u64 {
        self.at(layout::TABLES + 0x2_0000) + (domain * 16 + vhart) * file::SIZE
    }

    /// `CTL` of a vhart.
    pub fn ctl(&self, domain: u64, vhart: u64) -> u64 {
        self.file(domain, vhart) + file::CTL
    }

    /// The word with the pending bit of a source.
    pub fn pending(&self, domain: u64, vhart: u64, source: u64) -> u64 {
        self.file(domain, vhart) + file::PENDING + source / 64 * file::PENDING_STRIDE
    }

    /// The word with the enable bit of a source.
    pub fn enable(&self, domain: u64, vhart: u64, source: u64) -> u64 {
        self.file(domain, vhart) + file::ENABLE + source / 64 * file::ENABLE_STRIDE
    }

    /// `hvtablebase` for the domains.
    pub fn tables(&self) -> u64 {
        hvtablebase::V | self.at(layout::TABLES) | TABLE_SIZE
    }

    /// Memory of the queue of a hart.
    pub fn queue(&self, hart: usize) -> u64 {
        self.at(layout::QUEUES) + 0x1000 * hart as u64
    }

    /// `hnqbase` that opens the queue of a hart.
    pub fn queue_base(&self, hart: usize) -> u64 {
        hnqbase::EN | self.queue(hart) | QUEUE_SIZE
    }

    /// The domains are in memory when the program begins; their files are empty and `STOPPED`.
    pub fn tables_in_memory(&mut self) {
        for domain in DOMAINS {
            let entry = self.domain(domain);
            self.init(entry + domain::CONFIG, config(VHARTS, SOURCES));
            self.init(entry + domain::VHART_TABLE, self.vhart(domain, 0));
            self.init(entry + domain::SOURCE_TABLE, self.source(domain, 0));
            self.init(entry + domain::LINES, self.line(domain, 0));
            for vhart in 0..VHARTS - 1 {
                let value = vhart::ENTRY_V | self.file(domain, vhart);
                self.init(self.vhart(domain, vhart), value);
            }
        }
    }

    /// [`tables_in_memory`](Self::tables_in_memory), and all harts of the program use them, with
    /// `EN`=1 and an open queue.
    pub fn world(&mut self) {
        self.tables_in_memory();
        for hart in 0..self.harts() {
            let (tables, queue) = (self.tables(), self.queue_base(hart));
            self.on(hart, |s| {
                s.write(csr::HVTABLEBASE, tables);
                s.write(csr::HNQBASE, queue);
                s.write(csr::HTLCFG, htlcfg::EN);
            });
        }
    }

    /// A source exists when the program begins, and is enabled in the file of its vhart.
    pub fn route(&mut self, domain: u64, number: u64, source: Source) {
        self.route_only(domain, number, source);
        let word = self.enable(domain, source.vhart, number);
        self.init_bits(word, bit(number));
    }

    /// The same, without being enabled.
    pub fn route_only(&mut self, domain: u64, number: u64, source: Source) {
        let at = self.source(domain, number);
        self.init(at, source.entry());
    }

    /// Attaches a vhart on this hart.
    pub fn attach(&mut self, domain: u64, vhart: u64) {
        self.write(csr::HIFMAP, slot(domain, vhart));
    }

    /// Detaches the vhart of this hart.
    pub fn detach(&mut self, state: u64) {
        self.write(csr::HIFMAP, state << hifmap::STATE_SHIFT);
    }

    /// `hgenvsi`.
    pub fn generate(&mut self, op: u64, domain: u64, id: u64) {
        self.write(csr::HGENVSI, command(op, domain, id));
    }

    /// `hgenvsi` with `SYNC`.
    pub fn sync(&mut self) {
        self.generate(op::SYNC, 0, 0);
    }

    /// Leaves a vhart in a state, as if it had last run on this hart.
    pub fn leave(&mut self, domain: u64, vhart: u64, state: u64) {
        self.attach(domain, vhart);
        self.detach(state);
    }

    /// Handles a notification of a vhart: clears `ON`, and makes the vhart `STOPPED`. The old `CTL`
    /// is in `a0`.
    pub fn answer(&mut self, domain: u64, vhart: u64) {
        let at = self.ctl(domain, vhart);
        self.amo(Amo::And, at, !(file::CTL_ON | file::CTL_STATE));
        const { assert!(state::STOPPED == 0) };
    }

    /// The guest enables or disables a source (in VS-mode).
    pub fn guest_enables(&mut self, source: u64, on: bool) {
        self.write(csr::VSENABLE, source | if on { vsenable::E } else { 0 });
    }

    /// A claim (in VS-mode) must return `source`.
    pub fn expect_claim(&mut self, source: u64, text: &str) {
        self.expect(csr::VSCLAIM, source, text);
    }
}
