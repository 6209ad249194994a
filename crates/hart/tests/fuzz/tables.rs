//! Page tables of a program, and where things are.

use std::collections::BTreeMap;

/// RAM.
pub const RAM: u64 = 0x8000_0000;
pub const PAGE: u64 = 4096;
/// Trap handler and the first instruction.
pub const HANDLER: u64 = RAM;
/// What the handler of each hart keeps, 1 KiB each.
pub const FRAMES: u64 = RAM + PAGE;
pub const CODE: u64 = RAM + 2 * PAGE;
pub const CODE_PAGES: u64 = 4;
pub const DATA: u64 = RAM + 6 * PAGE;
pub const DATA_PAGES: u64 = 8;
/// Root of the second stage, 16 KiB.
const STAGE2: u64 = RAM + 16 * PAGE;
const TABLES: u64 = RAM + 20 * PAGE;
/// Bytes of RAM.
pub const SIZE: u64 = 48 * PAGE;
/// The only device.
pub const DEVICE: u64 = 0x1000_0000;

/// Bits of a page-table entry.
pub mod pte {
    pub const V: u64 = 1;
    pub const R: u64 = 2;
    pub const W: u64 = 4;
    pub const X: u64 = 8;
    pub const U: u64 = 16;
    pub const A: u64 = 64;
    pub const D: u64 = 128;
}

/// Page tables under construction.
pub struct Tables {
    /// Physical address to contents.
    pub words: BTreeMap<u64, u64>,
    next: u64,
}

impl Tables {
    pub fn new() -> Self {
        Self {
            words: BTreeMap::new(),
            next: TABLES,
        }
    }

    /// A new root table, and what `satp` or `vsatp` needs for it.
    pub fn root(&mut self) -> (u64, u64) {
        let root = self.table();
        (root, 8 << 60 | 1 << 44 | root >> 12)
    }

    /// The root of the second stage, and what `hgatp` needs for it.
    pub fn stage2(&self) -> (u64, u64) {
        (STAGE2, 8 << 60 | 3 << 44 | STAGE2 >> 12)
    }

    fn table(&mut self) -> u64 {
        let table = self.next;
        self.next += PAGE;
        assert!(table < RAM + SIZE, "too many page tables");
        table
    }

    /// Maps `va` to `pa` with a leaf at `level` (0: 4 KiB). The second stage has two more bits at
    /// the top.
    pub fn map(&mut self, root: u64, va: u64, pa: u64, flags: u64, level: u32) {
        let mut table = root;
        for l in (0..3).rev() {
            let mask = if root == STAGE2 && l == 2 {
                0x7FF
            } else {
                0x1FF
            };
            let at = table + (va >> (12 + 9 * l) & mask) * 8;
            if l == level {
                self.words.insert(at, pa >> 12 << 10 | flags);
                return;
            }
            table = match self.words.get(&at) {
                Some(entry) => entry >> 10 << 12,
                None => {
                    let next = self.table();
                    self.words.insert(at, next >> 12 << 10 | pte::V);
                    next
                }
            };
        }
    }
}

/// Address of the entry of the second stage for a guest physical address that has a page table.
pub fn guest_entry(words: &BTreeMap<u64, u64>, gpa: u64) -> u64 {
    let place = |table: u64, level: u32| table + (gpa >> (12 + 9 * level) & 0x1FF) * 8;
    let next = |table, level| words[&place(table, level)] >> 10 << 12;
    place(next(next(STAGE2, 2), 1), 0)
}
