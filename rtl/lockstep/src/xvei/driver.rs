//! Random traffic: hosts and guests that access whatever they may, and what they may not, with
//! pages and tables that change.

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::haiov::{bell, csr, event, hveiq, hveitab};

use super::bench::{Act, Bench, Pace};
use crate::memory::{Damage, RAM};
use crate::random::Random;

/// Accesses between two moments at which nothing is under way.
const EPISODE: u64 = 120;

/// Doorbell pages, of which the last has as many doorbells as one can have.
const PAGES: u64 = 4;
const SHADOWS: u64 = RAM + 0x4000;
/// An event table for each two harts, at addresses that are aligned for the largest.
const TABLES: u64 = RAM + 0x8000;
/// Events that tables have, most of the time.
const EVENTS: u64 = 8;

/// Drives circuit and model.
pub struct Driver {
    /// Both.
    pub bench: Bench,
    random: Random,
    /// Words cannot be used.
    damaged: bool,
}

/// Where doorbell `slot` of a page is.
pub fn doorbell(page: u64, slot: u64) -> u64 {
    RAM + page * 0x1000 + bell::MATCH + slot * bell::MATCH_STRIDE
}

fn table(hart: usize) -> u64 {
    TABLES + (hart as u64 / 2 % 2) * 0x4000
}

fn queue(hart: usize) -> u64 {
    RAM + 0x1_0000 + hart as u64 * 0x1000
}

impl Driver {
    /// Everything after reset, pages and tables in memory.
    #[must_use]
    pub fn new(harts: usize, seed: u64) -> Self {
        let mut driver = Self {
            bench: Bench::new(harts, seed),
            random: Random::new(seed),
            damaged: false,
        };
        driver.fill();
        driver
    }

    /// Makes so many accesses.
    ///
    /// # Errors
    /// What differs.
    pub fn run(&mut self, accesses: u64) -> Result<(), String> {
        while self.bench.counts.accesses < accesses {
            self.episode()?;
        }
        Ok(())
    }

    fn episode(&mut self) -> Result<(), String> {
        self.bench.pace = Pace {
            latency: self.random.of(&[0, 0, 1, 5]),
            withdraw: self.random.of(&[0, 0, 20, 200]),
        };
        let idle = self.random.of(&[1, 1, 4, 20]);
        self.bench.loose = self.bench.pace.withdraw != 0;
        if self.random.one_in(8) {
            self.damage();
        }
        if self.random.one_in(10) {
            let hart = self.any_hart();
            self.bench.reset(hart);
        }
        let end = self.bench.counts.accesses + EPISODE;
        while self.bench.counts.accesses < end {
            for hart in 0..self.bench.harts() {
                if self.bench.is_free(hart) && self.random.one_in(idle) {
                    let act = self.any_act(hart);
                    self.bench.begin(hart, act);
                }
            }
            if self.bench.is_between_jobs() && self.random.one_in(5) {
                self.software();
            }
            self.bench.cycle()?;
        }
        while !self.bench.is_quiet() {
            self.bench.cycle()?;
        }
        self.bench.cycle()?;
        self.bench.same_memory()?;
        self.repair()
    }

    /// Words that are used become unusable.
    fn damage(&mut self) {
        self.damaged = true;
        for _ in 0..self.random.below(4) + 1 {
            let page = self.random.below(PAGES);
            let any = self.random.below(12);
            let hart = self.any_hart();
            let addr = match self.random.below(7) {
                0 => RAM + page * 0x1000 + bell::HEADER,
                1 => RAM + page * 0x1000 + bell::SHADOW,
                2 => RAM + page * 0x1000 + bell::LOADS,
                3 => doorbell(page, any) + self.random.of(&[0, 8]),
                4 => SHADOWS + self.random.of(&[0x50, 0x60, 0x7f8]),
                5 => queue(hart) + any % 4 * 8,
                _ => table(hart) + any * event::SIZE,
            };
            self.bench.loose |= addr >= queue(0);
            let how = self.random.of(&[Damage::Lost, Damage::ReadOnly]);
            self.bench.damage(|words| words.damage(addr, how));
        }
    }

    /// Everything can be used again, and FLT says the same on both sides.
    fn repair(&mut self) -> Result<(), String> {
        if !self.damaged && !self.bench.loose {
            return Ok(());
        }
        self.bench.damage(crate::memory::Words::repair);
        self.bench.pace.withdraw = 0;
        for hart in 0..self.bench.harts() {
            let act = Act::Csr {
                csr: csr::HVEIQ,
                mode: Mode::HS,
                op: CsrOp::Clear(hveiq::FLT),
            };
            self.bench.begin(hart, act);
            while !self.bench.is_free(hart) {
                self.bench.cycle()?;
            }
        }
        self.bench.loose = false;
        self.damaged = false;
        Ok(())
    }

    /// The host changes tables and pages, a device its shadow, while no job is under way.
    fn software(&mut self) {
        let page = self.random.below(PAGES);
        match self.random.below(8) {
            0 => self.renew_page(page),
            1 => {
                let (word, value) = self.any_doorbell();
                let slot = self.random.below(12);
                self.bench.set(doorbell(page, slot), word);
                self.bench.set(doorbell(page, slot) + 8, value);
            }
            2 => {
                let bits = self.random.bits();
                let word = self.random.of(&[0x50, 0x60, 0x7f8, 0xff8]);
                self.bench.set(SHADOWS + page % 2 * 0x1000 + word, bits);
            }
            choice => {
                let number = self.random.of(&[0, 1, 2, 3, 4, 5, 6, 7, 255, 1023]);
                let at = table(self.random.below(4) as usize) + number * event::SIZE;
                let value = if choice == 3 {
                    self.any_entry()
                } else {
                    self.bench.word(at) & !event::CTL_P
                };
                self.bench.set(at, value);
            }
        }
    }

    fn any_act(&mut self, hart: usize) -> Act {
        if self.random.one_in(2) {
            let page = match self.random.below(40) {
                0 => 0x1000,
                1 => bell::SHADOW_PPN,
                _ => RAM + self.random.below(PAGES) * 0x1000,
            };
            let stored = self.any_value();
            return Act::Page {
                page,
                offset: self.any_offset(),
                width: self.any_width(),
                stored: (!self.random.one_in(3)).then_some(stored),
            };
        }
        let any = [Mode::M, Mode::HS, Mode::U, Mode::VS, Mode::VU];
        let (csr, value) = match self.random.below(20) {
            0..6 => (csr::SGENVEI, self.any_request() | self.random.bits() << 16),
            6..12 => (csr::HVEICLAIM, 1),
            12..14 => {
                let size = self.random.of(&[0, 1, 2, 2, 9, 12, 15]);
                let en = if self.random.one_in(6) { 0 } else { hveiq::EN };
                // FLT among them, which software cannot set.
                let junk = self.random.bits() & 0x7f00_0000_0000_0ff0;
                (csr::HVEIQ, en | queue(hart) | size | junk)
            }
            14..16 => {
                let size = self.random.of(&[0, 3, 3, 3, 3, 8, 9, 10, 15]);
                let v = if self.random.one_in(8) { 0 } else { hveitab::V };
                // Bits below the size of a large table are not kept.
                let low = self.random.below(4) << 12;
                let at = if size > 8 {
                    table(hart) | low
                } else {
                    table(hart)
                };
                (csr::HVEITAB, v | at | size)
            }
            _ => {
                let entry = table(self.random.below(4) as usize) + self.any_request() * event::SIZE;
                let nowhere = self.random.of(&[0, 0x1000, 0x00ff_ffff_ffff_fff0]);
                let low = self.random.below(16) | self.random.bits() << 56;
                let entry = self.random.of(&[entry, entry, entry, nowhere]);
                (csr::HGENVEI, entry | low)
            }
        };
        let op = match csr {
            csr::HVEIQ | csr::HVEITAB if !self.random.one_in(6) => {
                self.random.of(&[CsrOp::Write(value), CsrOp::Swap(value)])
            }
            // Bits that are set or cleared could name memory of others.
            csr::HVEIQ => self
                .random
                .of(&[CsrOp::Read, CsrOp::Clear(hveiq::EN), CsrOp::Set(0)]),
            csr::HVEITAB => self.random.of(&[CsrOp::Read, CsrOp::Clear(hveitab::V)]),
            csr::HVEICLAIM => self.random.of(&[
                CsrOp::Read,
                CsrOp::Read,
                CsrOp::Swap(value),
                CsrOp::Write(value),
                CsrOp::Set(value),
                CsrOp::Clear(value),
            ]),
            _ if self.random.one_in(8) => {
                self.random
                    .of(&[CsrOp::Read, CsrOp::Set(value), CsrOp::Clear(value)])
            }
            _ => self.random.of(&[CsrOp::Write(value), CsrOp::Swap(value)]),
        };
        let usual = if csr == csr::SGENVEI {
            Mode::VS
        } else {
            Mode::HS
        };
        let mode = if self.random.one_in(12) {
            self.random.of(&any)
        } else {
            usual
        };
        Act::Csr { csr, mode, op }
    }

    /// Pages, shadows and tables.
    fn fill(&mut self) {
        for page in 0..PAGES {
            for slot in 0..240 {
                let (mut word, value) = self.any_doorbell();
                if page == PAGES - 1 {
                    // Most stores search it to its end.
                    word = word & !bell::MATCH_OFFSET | 0x64 << bell::MATCH_OFFSET_SHIFT;
                }
                self.bench.set(doorbell(page, slot), word);
                self.bench.set(doorbell(page, slot) + 8, value);
            }
            for word in 0..16 {
                let bits = self.random.bits() | self.random.bits();
                self.bench
                    .set(RAM + page * 0x1000 + bell::LOADS + word * 8, bits);
            }
            self.renew_page(page);
        }
        for word in 0..0x400 {
            let bits = self.random.bits();
            self.bench.set(SHADOWS + word * 8, bits);
        }
        for first in [0, 2] {
            for number in 0..1024 {
                let entry = self.any_entry();
                self.bench.set(table(first) + number * event::SIZE, entry);
            }
        }
    }

    /// A doorbell and its value: few offsets, so that stores find some of them.
    fn any_doorbell(&mut self) -> (u64, u64) {
        let offset = self.any_offset();
        let mut word = u64::from(offset) << bell::MATCH_OFFSET_SHIFT
            | u64::from(self.any_width()) << bell::MATCH_WIDTH_SHIFT
            | self.any_request() << bell::MATCH_REQUEST_SHIFT
            | self.random.below(1024) << bell::MATCH_UNIT_SHIFT;
        for (bit, one_in) in [
            (bell::MATCH_V, 8),
            (bell::MATCH_ANY, 2),
            (bell::MATCH_DATA, 3),
            (bell::MATCH_POST, 4),
            (bell::MATCH_CLEAR, 3),
        ] {
            let rare = self.random.one_in(one_in);
            let mostly = bit == bell::MATCH_V || bit == bell::MATCH_POST;
            word |= if rare != mostly { bit } else { 0 };
        }
        (word, self.any_value())
    }

    fn any_offset(&mut self) -> u16 {
        let usual = [0x50, 0x50, 0x64, 0x64, 0x54, 0x0, 0x7f8, 0xffc, 0xff8, 0x51];
        if self.random.one_in(12) {
            self.random.below(0x1000) as u16
        } else {
            self.random.of(&usual)
        }
    }

    fn any_width(&mut self) -> u8 {
        self.random.of(&[0, 1, 2, 2, 2, 2, 2, 3])
    }

    fn any_value(&mut self) -> u64 {
        let few = self.random.below(3);
        let high = self.random.bits() << 32;
        self.random
            .of(&[few, few, few, few, few | high, self.random.clone().bits()])
    }

    fn any_request(&mut self) -> u64 {
        let usual = self.random.below(EVENTS);
        self.random
            .of(&[usual, usual, usual, EVENTS, 255, 256, 1023, 1024, 0xffff])
    }

    /// The control word of an entry.
    fn any_entry(&mut self) -> u64 {
        let hart = if self.random.one_in(12) {
            self.random
                .of(&[self.bench.harts() as u64, 63, 0x100, 0xffff])
        } else {
            self.random.below(self.bench.harts() as u64)
        };
        let mut entry = self.random.bits() << event::CTL_ID_SHIFT | hart << event::CTL_HART_SHIFT;
        entry |= if self.random.one_in(8) {
            0
        } else {
            event::CTL_V
        };
        entry |= if self.random.one_in(10) {
            event::CTL_M
        } else {
            0
        };
        entry |= if self.random.one_in(4) {
            event::CTL_P
        } else {
            0
        };
        let kind = if self.random.one_in(12) {
            self.random.below(4)
        } else {
            0
        };
        entry | kind << event::CTL_KIND_SHIFT | self.random.below(64) << event::CTL_VECTOR_SHIFT
    }

    /// Header and shadow of a page change.
    fn renew_page(&mut self, page: u64) {
        let few = 4 + self.random.below(24);
        let count = match page {
            3 => self.random.of(&[0, 1, 20, 240, 241, 255]),
            _ => few,
        };
        let mut header = count << bell::HEADER_COUNT_SHIFT;
        header |= if self.random.one_in(10) {
            0
        } else {
            bell::HEADER_V
        };
        header |= if self.random.one_in(2) {
            bell::HEADER_MMIO
        } else {
            0
        };
        let mut shadow = SHADOWS + page % 2 * 0x1000;
        if self.random.one_in(12) {
            // Nothing is there, or no such address exists.
            shadow = self.random.of(&[0x1000, bell::SHADOW_PPN]);
        }
        shadow |= if self.random.one_in(5) {
            0
        } else {
            bell::SHADOW_V
        };
        self.bench.set(RAM + page * 0x1000 + bell::HEADER, header);
        self.bench.set(RAM + page * 0x1000 + bell::SHADOW, shadow);
    }

    fn any_hart(&mut self) -> usize {
        self.random.below(self.bench.harts() as u64) as usize
    }
}
