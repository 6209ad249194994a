//! A program under construction: what the lead hart does in M-mode, one step after the other, with
//! blocks in other modes and on other harts.
//!
//! | file | subject |
//! |---|---|
//! | `runtime` | entry, handlers, waiting for blocks, end |
//! | `check` | comparisons; what is waited for, and what must not happen |
//! | `control` | blocks in other modes and on other harts, loops |
//! | `step` | accesses to CSRs and memory |
//! | `world` | two domains in memory, and what a host does with them |
//!
//! Steps use `t0` to `t2` and `a0` to `a2`; `tp` is the context of the hart, `t5` and `t6` belong
//! to the handlers. Programs may use `s0` to `s2` themselves.

mod check;
mod control;
mod runtime;
mod step;
pub mod world;

use std::collections::BTreeMap;

use trapless_asm::elf::{self, Segment};
use trapless_asm::{Asm, Label, Reg, i, r};

use crate::layout;
use crate::platform::{MOST_HARTS, Platform};

pub use check::ALL;
pub use control::Level;

/// Pointer to the context of a hart.
pub(crate) const TP: Reg = 4;
pub(crate) const A2: Reg = 12;

/// A program under construction.
pub struct Script<'a> {
    /// The code so far.
    pub a: Asm,
    platform: &'a Platform,
    harts: usize,
    /// Words that memory holds at the beginning, by address.
    words: BTreeMap<u64, u64>,
    checks: Vec<String>,
    depth: usize,
    fail: Label,
    done: Label,
}

/// A finished program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// The ELF file.
    pub elf: Vec<u8>,
    /// What its checks are about; the first has the number 1.
    pub checks: Vec<String>,
}

impl<'a> Script<'a> {
    /// The program of `write` for `harts` harts of a platform.
    pub(crate) fn build(platform: &'a Platform, harts: usize, write: fn(&mut Script<'_>)) -> Built {
        let mut a = Asm::new(platform.ram);
        let (fail, done) = (a.label(), a.label());
        let mut script = Self {
            a,
            platform,
            harts,
            words: BTreeMap::new(),
            checks: Vec::new(),
            depth: 0,
            fail,
            done,
        };
        script.begin();
        write(&mut script);
        script.end();
        script.finish()
    }

    /// The platform.
    pub fn platform(&self) -> &'a Platform {
        self.platform
    }

    /// Number of harts that the program uses.
    pub fn harts(&self) -> usize {
        self.harts
    }

    /// Hart ID of a hart, by its place in the platform's list.
    pub fn id(&self, hart: usize) -> u64 {
        self.platform.harts[hart]
    }

    /// Address of something at an offset of the layout.
    pub fn at(&self, offset: u64) -> u64 {
        self.platform.ram + offset
    }

    /// Address of the word `index` that the program uses as it likes.
    pub fn word(&self, index: u64) -> u64 {
        self.at(layout::WORDS + 64 * index)
    }

    /// Memory holds `value` at `addr` when the program begins.
    pub fn init(&mut self, addr: u64, value: u64) {
        self.words.insert(addr, value);
    }

    /// Sets bits of a word that memory holds when the program begins.
    pub fn init_bits(&mut self, addr: u64, bits: u64) {
        *self.words.entry(addr).or_default() |= bits;
    }

    fn context(&self, hart: usize) -> u64 {
        self.at(layout::CONTEXTS + layout::CONTEXT * hart as u64)
    }

    fn finish(self) -> Built {
        let code = self.a.finish();
        assert!(
            code.len() as u64 <= layout::CODE_SIZE,
            "a program fits below the contexts"
        );
        let begin = self.at(layout::TABLES);
        let end = self.words.last_key_value().map_or(begin, |(at, _)| at + 8);
        let mut tables = vec![0; (end - begin) as usize];
        for (addr, word) in &self.words {
            let at = (addr - begin) as usize;
            tables[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let zeroed = |addr, memsz| Segment {
            addr,
            data: &[],
            memsz,
        };
        let contexts = layout::CONTEXT * MOST_HARTS as u64;
        let segments = [
            Segment {
                addr: self.platform.ram,
                data: &code,
                memsz: code.len() as u64,
            },
            zeroed(self.at(layout::CONTEXTS), contexts),
            zeroed(self.at(layout::TOHOST), layout::TABLES - layout::TOHOST),
            Segment {
                addr: begin,
                data: &tables,
                memsz: layout::TABLES_SIZE,
            },
        ];
        let signature = self.at(layout::SIGNATURE);
        let symbols = [
            ("_start", self.platform.ram),
            ("tohost", self.at(layout::TOHOST)),
            ("fromhost", self.at(layout::FROMHOST)),
            ("begin_signature", signature),
            ("end_signature", signature + layout::SIGNATURE_SIZE),
        ];
        Built {
            elf: elf::write(self.platform.ram, &segments, &symbols),
            checks: self.checks,
        }
    }
}

/// `and rd, rs1, rs2`.
pub(crate) const fn and(rd: Reg, rs1: Reg, rs2: Reg) -> u32 {
    r(0x33, 7, 0, rd, rs1, rs2)
}

/// `xor rd, rs1, rs2`.
pub(crate) const fn xor(rd: Reg, rs1: Reg, rs2: Reg) -> u32 {
    r(0x33, 4, 0, rd, rs1, rs2)
}

/// `jr rs1`.
pub(crate) const fn jr(rs1: Reg) -> u32 {
    i(0x67, 0, 0, rs1, 0)
}

/// `fence iorw, iorw`.
pub(crate) const FENCE: u32 = 0x0ff0_000f;
/// `fence o, r`.
pub(crate) const FENCE_O_R: u32 = 0x0420_000f;
/// `fence o, w`.
pub(crate) const FENCE_O_W: u32 = 0x0410_000f;

/// Atomic operations on 64-bit words, with `aq` and `rl`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amo {
    /// `amoswap.d`.
    Swap = 0x01,
    /// `amoadd.d`.
    Add = 0x00,
    /// `amoor.d`.
    Or = 0x08,
    /// `amoand.d`.
    And = 0x0c,
}

impl Amo {
    const fn word(self, rd: Reg, rs2: Reg, rs1: Reg) -> u32 {
        r(0x2f, 3, (self as u32) << 2 | 3, rd, rs1, rs2)
    }
}
