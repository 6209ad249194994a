//! Random traffic: hosts and guests that keep to the rules for software, in any order, and the
//! accesses that raise exceptions.

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{
    csr, domain, file, hgenvsi, hgrant, hifmap, hnqbase, htlcfg, hvtablebase, op, sgenipi, state,
    ugenvsei, vhart, vsenable,
};

use crate::access::{Access, STIMECMP, VSTIMECMP};
use crate::bench::{Bench, Pace};
use crate::layout::{
    self, BEYOND, DOMAINS, TABLE_SIZE, VHARTS, domain_entry, file_of, lines, queue, random_source,
    source_entry, vhart_entry,
};
use crate::memory::{Damage, RAM, Words};
use crate::random::Random;

/// Accesses between two moments at which nothing is under way.
const EPISODE: u64 = 150;

/// Drives circuit and model.
pub struct Driver {
    /// Both.
    pub bench: Bench,
    random: Random,
    /// One hart at a time.
    alone: bool,
    /// One in so many cycles a free hart begins an access.
    idle: u64,
    /// Memory is damaged.
    damaged: bool,
}

type Outcome = Result<(), String>;

impl Driver {
    /// Everything after reset, tables in memory.
    #[must_use]
    pub fn new(harts: usize, seed: u64) -> Self {
        let fill = |words: &mut Words| layout::fill(words, &mut Random::new(seed));
        Self {
            bench: Bench::new(harts, seed, fill),
            random: Random::new(seed ^ 0x5eed),
            alone: false,
            idle: 1,
            damaged: false,
        }
    }

    /// Makes so many accesses.
    ///
    /// # Errors
    /// What differs.
    pub fn run(&mut self, accesses: u64) -> Outcome {
        self.set_up()?;
        while self.bench.counts.accesses < accesses {
            self.episode()?;
        }
        self.settle()?;
        self.bench.same_memory()
    }

    fn episode(&mut self) -> Outcome {
        let end = self.bench.counts.accesses + EPISODE;
        self.alone = self.random.one_in(4);
        self.idle = self.random.of(&[1, 1, 4, 20]);
        self.bench.pace = Pace {
            latency: self.random.of(&[0, 0, 1, 2, 8]),
            withdraw: self.random.of(&[0, 0, 0, 3, 12, 60]),
        };
        while self.bench.counts.accesses < end {
            if self.bench.is_between_jobs() {
                self.between_jobs();
            }
            for hart in 0..self.bench.harts() {
                let may = self.bench.is_free(hart) && self.random.one_in(self.idle);
                if may && (!self.alone || self.bench.is_quiet()) {
                    let access = self.access(hart);
                    self.bench.begin(hart, access);
                }
            }
            self.bench.cycle()?;
        }
        self.settle()?;
        self.bench.same_memory()?;
        self.quiet_changes()
    }

    /// Waits until nothing is under way.
    fn settle(&mut self) -> Outcome {
        self.bench.cycle()?;
        while !self.bench.is_quiet() {
            self.bench.cycle()?;
        }
        Ok(())
    }

    /// One access alone.
    fn perform(&mut self, hart: usize, access: Access) -> Outcome {
        let withdraw = std::mem::take(&mut self.bench.pace.withdraw);
        self.bench.begin(hart, access);
        self.settle()?;
        self.bench.pace.withdraw = withdraw;
        Ok(())
    }

    fn hs(&mut self, hart: usize, csr: u16, value: u64) -> Outcome {
        self.perform(hart, Access::hs(csr, value))
    }

    fn set_up(&mut self) -> Outcome {
        for hart in 0..self.bench.harts() {
            self.set_up_hart(hart)?;
        }
        Ok(())
    }

    fn set_up_hart(&mut self, hart: usize) -> Outcome {
        self.hs(hart, csr::HVTABLEBASE, tables())?;
        self.hs(hart, csr::HTLCFG, htlcfg::EN)?;
        self.hs(hart, csr::HNQBASE, hnqbase::EN | queue(hart) | 2)
    }

    /// What the host may do to memory at any time, and changes of V.
    fn between_jobs(&mut self) {
        let hart = self.random.below(self.bench.harts() as u64) as usize;
        if self.random.one_in(8) && self.bench.is_free(hart) {
            // Most guests run where one is loaded.
            let loaded = self.bench.model.slot(hart).is_some();
            let v = if loaded {
                !self.random.one_in(4)
            } else {
                self.random.one_in(10)
            };
            self.bench.set_v(hart, v);
        }
        if self.random.one_in(20) {
            let bits = self.random.below(4) as u8;
            self.bench.clear_latches(hart, bits);
        }
        if self.random.one_in(30) {
            let delta = self.random.below(1000);
            self.bench.set_delta(hart, delta);
        }
        if self.random.one_in(6) {
            let (dom, vhart) = self.any_vhart();
            let ctl = file_of(dom, vhart) + file::CTL;
            // The answer to a notification, as it should be and as it also may be.
            let stop = !self.random.one_in(4);
            self.bench.host(ctl, |old| {
                let left = (old & file::CTL_STATE) >> file::CTL_STATE_SHIFT;
                let told = matches!(left, state::HALTED | state::PREEMPTED) && stop;
                let answered = old & !file::CTL_ON;
                if told {
                    answered & !file::CTL_STATE
                } else {
                    answered
                }
            });
        }
        if self.random.one_in(10) {
            let (dom, sources) = self.any_domain();
            let number = self.any_source(sources);
            let resample = lines(dom) + 128 + u64::from(number / 64) * 8;
            self.bench.host(resample, |old| old & !(1 << (number % 64)));
        }
    }

    /// What the host only does when nothing is under way, and then has evaluated.
    fn quiet_changes(&mut self) -> Outcome {
        if self.damaged {
            self.bench.damage(Words::repair);
            self.damaged = false;
        }
        for hart in 0..self.bench.harts() {
            if self.random.one_in(40) {
                self.bench.reset(hart);
                self.settle()?;
                self.set_up_hart(hart)?;
                // Until the host answers, nobody hears of what is posted (ACC-5).
                if self.random.one_in(2) {
                    self.answer_reset(hart);
                }
            }
        }
        for _ in 0..self.random.below(12) {
            self.change_tables();
        }
        for _ in 0..self.random.below(4) {
            self.change_file();
        }
        for hart in 0..self.bench.harts() {
            self.bench.set_v(hart, false);
            self.hs(hart, csr::HVTABLEBASE, tables())?;
            let any = if self.random.one_in(4) {
                htlcfg::ANY
            } else {
                0
            };
            let enable = htlcfg::EN | any;
            self.hs(hart, csr::HTLCFG, enable)?;
        }
        self.bench.cleared_faults();
        if self.random.one_in(8) {
            let hart = self.random.below(self.bench.harts() as u64) as usize;
            self.keep_fault(hart)?;
        }
        if self.random.one_in(8) {
            self.damage();
        }
        self.evaluate_all()
    }

    /// FLT stays until 0 is written to it, and does not come by writing 1.
    fn keep_fault(&mut self, hart: usize) -> Outcome {
        let (dom, _) = DOMAINS[0];
        self.bench
            .damage(|words| words.damage(domain_entry(dom), Damage::Lost));
        let fails = self.random.one_in(2);
        if fails {
            self.hs(hart, csr::HGENVSI, command(op::SOFT, dom, 0))?;
        }
        self.bench.damage(Words::repair);
        for value in [htlcfg::FLT | htlcfg::EN, htlcfg::EN] {
            let op = CsrOp::Swap(value);
            let mode = Mode::HS;
            let csr = csr::HTLCFG;
            self.perform(hart, Access { csr, mode, op })?;
        }
        Ok(())
    }

    /// The host looks at all files after a change.
    fn evaluate_all(&mut self) -> Outcome {
        for hart in 0..self.bench.harts() {
            if let Some((dom, vhart)) = self.bench.model.slot(hart) {
                let value = command(op::EVAL, dom, vhart);
                self.hs(hart, csr::HGENVSI, value)?;
            }
        }
        Ok(())
    }

    /// What a host does for vharts that were loaded on a hart that was reset (ACC-5).
    fn answer_reset(&mut self, hart: usize) {
        for (dom, _) in DOMAINS {
            for vhart in 0..VHARTS {
                self.bench.host(file_of(dom, vhart) + file::CTL, |old| {
                    let loaded = (old & file::CTL_STATE) >> file::CTL_STATE_SHIFT == state::LOADED;
                    let there = (old & file::CTL_HART) >> file::CTL_HART_SHIFT == hart as u64;
                    if loaded && there {
                        old & !file::CTL_STATE
                    } else {
                        old
                    }
                });
            }
        }
    }

    fn is_loaded(&mut self, dom: u16, vhart: u16) -> bool {
        (0..self.bench.harts()).any(|hart| self.bench.model.slot(hart) == Some((dom, vhart)))
    }

    fn change_tables(&mut self) {
        match self.random.below(12) {
            0 => {
                // The last domain comes and goes.
                let (dom, _) = DOMAINS[DOMAINS.len() - 1];
                if !(0..VHARTS).any(|vhart| self.is_loaded(dom, vhart)) {
                    let config = domain_entry(dom) + domain::CONFIG;
                    self.bench.host(config, |old| old ^ domain::CONFIG_V);
                }
            }
            1 => {
                let (dom, vhart) = self.any_vhart();
                if !self.is_loaded(dom, vhart) {
                    self.bench
                        .host(vhart_entry(dom, vhart), |old| old ^ vhart::ENTRY_V);
                }
            }
            2 => {
                let (dom, _) = self.any_domain();
                if !(0..VHARTS).any(|vhart| self.is_loaded(dom, vhart)) {
                    let most = self.random.of(&[0, 1, 63, 64, 65, 127, 500, 1023, 5000]);
                    let vharts = self.random.of(&[0, 1, 3, 6, 6, 6, 6]);
                    self.bench.host(domain_entry(dom) + domain::CONFIG, |old| {
                        old & domain::CONFIG_V | most << domain::CONFIG_SOURCES_SHIFT | vharts
                    });
                }
            }
            _ => {
                let (dom, sources) = self.any_domain();
                let number = self.any_source(sources);
                let entry = random_source(&mut self.random);
                self.bench.host(source_entry(dom, number), |_| entry);
            }
        }
    }

    fn change_file(&mut self) {
        let (dom, vhart) = self.any_vhart();
        let (_, sources) = self.any_domain();
        let bit = 1 << self.random.below(64);
        let base = file_of(dom, vhart);
        let word = u64::from(self.any_source(sources) / 64);
        match self.random.below(6) {
            0 => self
                .bench
                .host(base + file::CTL, |old| old ^ file::CTL_SOFT),
            1 => self.bench.host(base + file::THRESHOLD, |old| old ^ bit),
            2 => {
                let enable = base + file::ENABLE + word * file::ENABLE_STRIDE;
                let many = self.random.bits() & self.random.bits();
                self.bench.host(enable, |old| old ^ many);
            }
            _ => {
                let pending = base + file::PENDING + word * file::PENDING_STRIDE;
                self.bench.host(pending, |old| old ^ bit);
            }
        }
    }

    /// Memory with errors. What cannot be lost of a loaded file is its `CTL`: the circuit looks a
    /// vhart up there, the model in slots.
    fn damage(&mut self) {
        for _ in 0..=self.random.below(3) {
            let (dom, vhart) = self.any_vhart();
            let (_, sources) = self.any_domain();
            let number = self.any_source(sources);
            let word = u64::from(number / 64);
            let base = file_of(dom, vhart);
            let hart = self.random.below(self.bench.harts() as u64) as usize;
            let of_entry = self.random.below(4) * 8;
            let choices = [
                base + file::CTL,
                base + file::THRESHOLD,
                base + file::PENDING + word * file::PENDING_STRIDE,
                base + file::ENABLE + word * file::ENABLE_STRIDE,
                domain_entry(dom) + of_entry,
                vhart_entry(dom, vhart),
                source_entry(dom, number),
                lines(dom) + word * 8,
                lines(dom) + 128 + word * 8,
                queue(hart) + of_entry,
            ];
            let addr = self.random.of(&choices);
            let damage = self.random.of(&[Damage::Lost, Damage::ReadOnly]);
            let ctl = addr == base + file::CTL && damage == Damage::Lost;
            if ctl && self.is_loaded(dom, vhart) {
                continue;
            }
            self.bench.damage(|words| words.damage(addr, damage));
        }
        self.damaged = true;
    }

    fn any_domain(&mut self) -> (u16, u16) {
        self.random.of(&DOMAINS)
    }

    /// One of two that is loaded, so that interrupts reach guests.
    fn any_vhart(&mut self) -> (u16, u16) {
        let hart = self.random.below(self.bench.harts() as u64) as usize;
        if self.random.one_in(2) {
            if let Some(slot) = self.bench.model.slot(hart) {
                return slot;
            }
        }
        let (dom, _) = self.any_domain();
        let few = if self.random.one_in(2) { 2 } else { VHARTS };
        (dom, self.random.below(u64::from(few)) as u16)
    }

    /// Mostly one of a few, so that they meet.
    fn any_source(&mut self, sources: u16) -> u16 {
        let some = [1, 2, 3, 63, 64, 65, sources, sources / 2];
        match self.random.below(8) {
            0 => self.random.below(u64::from(sources) + 3) as u16,
            _ => self.random.of(&some),
        }
    }

    /// What a hart does next.
    fn access(&mut self, hart: usize) -> Access {
        let v = self.bench.model.v[hart];
        let mode = match (v, self.random.below(12)) {
            (true, 0) => Mode::VU,
            (true, _) => Mode::VS,
            (false, 0) => Mode::U,
            (false, 1) => Mode::M,
            (false, _) => Mode::HS,
        };
        if self.random.one_in(25) {
            return self.stray(hart, mode);
        }
        match mode {
            Mode::VS | Mode::VU => self.guest(hart, mode),
            Mode::U => Access {
                csr: csr::UGENVSEI,
                mode,
                op: CsrOp::Write(self.injection()),
            },
            _ => self.host(hart, mode),
        }
    }

    fn guest(&mut self, hart: usize, mode: Mode) -> Access {
        let slot = self.bench.model.slot(hart);
        let dom = slot.map_or(1, |(dom, _)| dom);
        let sources = DOMAINS.iter().find(|d| d.0 == dom).map_or(70, |d| d.1);
        let number = u64::from(self.any_source(sources));
        let (csr, op) = match self.random.below(16) {
            0..3 => (csr::VSCLAIM, CsrOp::Read),
            3 => (csr::VSCLAIM, CsrOp::Write(number)),
            4..6 => (csr::VSCLAIM, CsrOp::Swap(number)),
            6..9 => {
                let on = if self.random.one_in(4) {
                    0
                } else {
                    vsenable::E
                };
                (csr::VSENABLE, CsrOp::Write(on | number))
            }
            9 => {
                let value = if self.random.one_in(3) {
                    0
                } else {
                    self.random.below(16)
                };
                (csr::VSTHRESHOLD, self.any_op(value))
            }
            10 => (csr::VSTHRESHOLD, CsrOp::Write(0)),
            11..14 => (csr::SGENIPI, CsrOp::Write(self.targets(6))),
            14 => {
                let bit = self.random.below(4);
                (
                    VSIP,
                    self.random.of(&[
                        CsrOp::Clear(bit),
                        CsrOp::Set(bit),
                        CsrOp::Write(bit),
                        CsrOp::Swap(bit),
                    ]),
                )
            }
            _ => {
                let deadline = self.bench.now() + self.random.below(400);
                (STIMECMP, self.any_op(deadline))
            }
        };
        Access { csr, mode, op }
    }

    /// An operand of `sgenipi` for `number` targets, sometimes with some that do not exist.
    fn targets(&mut self, number: u64) -> u64 {
        let base = self.random.of(&[0, 0, 0, 1, 3, 0xffff, 0xfff0, 0x100]);
        let wide = self.random.one_in(10);
        let mask = self.random.below(if wide { 1 << 32 } else { 1 << number });
        base << sgenipi::BASE_SHIFT | mask
    }

    fn injection(&mut self) -> u64 {
        let operation = self.random.below(5).min(3);
        let number = self.random.below(8);
        operation << ugenvsei::OP_SHIFT | number
    }

    fn host(&mut self, hart: usize, mode: Mode) -> Access {
        let (mut dom, vhart) = self.any_vhart();
        if self.random.one_in(60) {
            dom = BEYOND;
        }
        let loaded = self.bench.model.slot(hart);
        if !self.bench.model.seen[hart].split && !self.random.one_in(4) {
            let op = CsrOp::Set(htlcfg::EN);
            return Access {
                csr: csr::HTLCFG,
                mode,
                op,
            };
        }
        if loaded.is_none() && self.random.one_in(2) {
            return self.attach(hart, mode, dom, vhart);
        }
        let (csr, op) = match self.random.below(30) {
            0..3 => (csr::HGENVSI, CsrOp::Write(command(op::SOFT, dom, vhart))),
            3..9 => {
                let sources = DOMAINS.iter().find(|d| d.0 == dom).map_or(70, |d| d.1);
                let number = self.any_source(sources);
                let operation = self.random.of(&[op::EDGE, op::ASSERT, op::DEASSERT]);
                let value = command(operation, dom, number);
                (
                    csr::HGENVSI,
                    self.random.of(&[CsrOp::Write(value), CsrOp::Swap(value)]),
                )
            }
            9 => (csr::HGENVSI, CsrOp::Write(command(op::EVAL, dom, vhart))),
            10 => {
                let operation = self.random.of(&[op::SYNC, op::SYNC, 6, 15]);
                (csr::HGENVSI, CsrOp::Write(command(operation, dom, vhart)))
            }
            11 | 12 => return self.attach(hart, mode, dom, vhart),
            13..15 => {
                let left = self.random.below(4) << hifmap::STATE_SHIFT;
                (csr::HIFMAP, CsrOp::Write(left | u64::from(vhart)))
            }
            15..20 => {
                let op = [
                    CsrOp::Read,
                    CsrOp::Read,
                    CsrOp::Write(1),
                    CsrOp::Swap(1),
                    CsrOp::Set(1),
                ];
                (csr::HNOTIFY, self.random.of(&op))
            }
            20 | 21 => (csr::HGRANT, CsrOp::Write(self.grant(dom))),
            22..24 => (csr::UGENVSEI, CsrOp::Write(self.injection())),
            24 | 25 => {
                let base = self.random.of(&[0, 0, 1, 0xffff]);
                let mask = self.random.below(1 << 9);
                (
                    csr::SGENIPI,
                    CsrOp::Write(base << sgenipi::BASE_SHIFT | mask),
                )
            }
            26 => return self.configure(hart, mode),
            _ => {
                let number = self.random.below(8) as u16;
                (csr::HGENVSI, CsrOp::Write(command(op::ASSERT, dom, number)))
            }
        };
        Access { csr, mode, op }
    }

    fn grant(&mut self, dom: u16) -> u64 {
        let v = if self.random.one_in(8) { 0 } else { hgrant::V };
        let count = self.random.of(&[0, 1, 3, 5, 8, 0xffff]);
        let first = self.random.of(&[0, 1, 2, 5, 0xffff]);
        v | u64::from(dom) << hgrant::DOM_SHIFT | count << hgrant::COUNT_SHIFT | first
    }

    fn attach(&mut self, hart: usize, mode: Mode, dom: u16, vhart: u16) -> Access {
        // SLOT-9: a vhart is on one hart.
        let value = slot(dom, vhart);
        let taken = (0..self.bench.harts())
            .filter(|&other| other != hart)
            .any(|other| self.bench.model.slot(other) == Some((dom, vhart)));
        let being_taken = self
            .bench
            .attaching()
            .any(|a| a.value() & !hifmap::STATE == value);
        let value = if taken || being_taken { 0 } else { value };
        Access {
            csr: csr::HIFMAP,
            mode,
            op: self.random.of(&[CsrOp::Write(value), CsrOp::Swap(value)]),
        }
    }

    fn configure(&mut self, hart: usize, mode: Mode) -> Access {
        let (csr, op) = match self.random.below(8) {
            0 => {
                let value = self.random.bits() & (htlcfg::EN | htlcfg::ANY | htlcfg::FLT);
                (csr::HTLCFG, self.any_op(value))
            }
            1 => (csr::HTLCFG, CsrOp::Set(htlcfg::EN)),
            2 => (csr::HTLCFG, CsrOp::Read),
            3 => (csr::HIFMAP, CsrOp::Read),
            4 => {
                let size = self.random.of(&[0, 0, 1, 1, 2, 3, 9, 10, 11, 12, 13, 15]);
                let junk = self.random.bits() & 0x7f00_0000_0000_0ff0;
                (
                    csr::HNQBASE,
                    CsrOp::Swap(hnqbase::EN | queue(hart) | size | junk),
                )
            }
            5 => (
                csr::HNQBASE,
                self.random
                    .of(&[CsrOp::Write(0), CsrOp::Clear(hnqbase::EN)]),
            ),
            // The same table, with bits that are not kept; without a vhart also none.
            6 => {
                let junk = self.random.bits() & 0x7f00_0000_0000_0fe0;
                let empty = self.bench.model.slot(hart).is_none();
                let v = if empty && self.random.one_in(6) {
                    0
                } else {
                    hvtablebase::V
                };
                (csr::HVTABLEBASE, CsrOp::Swap(v | RAM | TABLE_SIZE | junk))
            }
            _ => (csr::HVTABLEBASE, CsrOp::Write(tables())),
        };
        Access { csr, mode, op }
    }

    fn any_op(&mut self, value: u64) -> CsrOp {
        self.random.of(&[
            CsrOp::Read,
            CsrOp::Write(value),
            CsrOp::Swap(value),
            CsrOp::Set(value),
            CsrOp::Clear(value),
        ])
    }

    /// Any register from any mode. What it writes there is harmless.
    fn stray(&mut self, hart: usize, mode: Mode) -> Access {
        let csr = self.random.of(&[
            csr::UGENVSEI,
            csr::SGENIPI,
            csr::VSCLAIM,
            csr::VSENABLE,
            csr::VSTHRESHOLD,
            csr::HIFMAP,
            csr::HTLCFG,
            csr::HGENVSI,
            csr::HNOTIFY,
            csr::HGRANT,
            csr::HNQBASE,
            csr::HVTABLEBASE,
            VSTIMECMP,
            0x5dc,
        ]);
        let value = match csr {
            csr::UGENVSEI => self.injection(),
            csr::HNQBASE => queue(hart) | 1,
            csr::HVTABLEBASE => RAM | TABLE_SIZE,
            csr::HIFMAP => 0,
            csr::HGENVSI => command(op::SYNC, 0, 0),
            VSTIMECMP => self.bench.now(),
            _ => self.random.below(64),
        };
        let op = match csr {
            // Setting bits could attach a vhart that is on another hart.
            csr::HIFMAP => self.random.of(&[
                CsrOp::Read,
                CsrOp::Write(0),
                CsrOp::Set(0),
                CsrOp::Clear(!0),
            ]),
            // Tables may be taken away, but not exchanged.
            csr::HVTABLEBASE => self.random.of(&[CsrOp::Read, CsrOp::Set(value)]),
            _ => self.any_op(value),
        };
        Access { csr, mode, op }
    }
}

/// `hvtablebase` of all harts.
pub fn tables() -> u64 {
    hvtablebase::V | RAM | TABLE_SIZE
}

/// A value of `hifmap` that attaches.
pub fn slot(dom: u16, vhart: u16) -> u64 {
    hifmap::V | u64::from(dom) << hifmap::DOM_SHIFT | u64::from(vhart)
}

/// A value of `hgenvsi`.
pub fn command(operation: u64, dom: u16, id: u16) -> u64 {
    operation << hgenvsi::OP_SHIFT | u64::from(dom) << hgenvsi::DOM_SHIFT | u64::from(id)
}
