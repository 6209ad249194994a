//! Random page tables for one stage of translation.

use trapless_isa::csr;

use crate::layout;
use crate::program::Program;
use crate::rng::Rng;

/// Bits of a page-table entry.
#[allow(missing_docs)]
pub mod pte {
    pub const V: u64 = 1;
    pub const R: u64 = 2;
    pub const W: u64 = 4;
    pub const X: u64 = 8;
    pub const U: u64 = 16;
    pub const G: u64 = 32;
    pub const A: u64 = 64;
    pub const D: u64 = 128;
    pub const N: u64 = 1 << 63;
}

use pte::{A, D, G, N, R, U, V, W, X};

/// A gigabyte without memory and devices on any model, and not mapped by any G-stage.
pub const NOWHERE: u64 = 0xc_0000_0000;

/// A leaf, or another entry in its place, and how to reach it.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Input address of its first byte in the data area (or of its start).
    pub addr: u64,
    /// Physical address of its entry.
    pub entry: u64,
    /// Level of the entry: 0 = 4 KiB.
    pub level: u32,
    /// A fence for `addr` covers everything that a change of the entry may affect. Not so for
    /// pointers and for one entry of a NAPOT region.
    pub lone: bool,
}

/// One stage's tables.
pub struct Space {
    /// Value for the mode field of the `*atp` CSR.
    pub mode: u64,
    /// Physical address of the root.
    pub root: u64,
    /// Interesting addresses.
    pub spots: Vec<Spot>,
    /// Input addresses and physical addresses of pages that hold tables for the next stage.
    pub table_pages: Vec<(u64, u64)>,
    /// Physical pages of tables on which no handler depends.
    pub side_tables: Vec<u64>,
}

/// Allocates `n` zeroed table pages.
pub fn alloc(p: &mut Program, n: usize) -> u64 {
    let at = layout::TABLES + p.tables.len() as u64;
    p.tables.resize(p.tables.len() + 4096 * n, 0);
    at
}

/// Writes entry `index` of the table at `table`; returns the address of the entry.
pub fn put(p: &mut Program, table: u64, index: u64, value: u64) -> u64 {
    let at = table + 8 * index;
    let off = (at - layout::TABLES) as usize;
    p.tables[off..off + 8].copy_from_slice(&value.to_le_bytes());
    at
}

/// A pointer to the next table.
pub fn pointer(table: u64) -> u64 {
    table >> 12 << 10 | V
}

/// A leaf for `addr`.
pub fn leaf(addr: u64, bits: u64) -> u64 {
    addr >> 12 << 10 | bits | V
}

/// Kind of tables to build.
#[derive(Clone, Copy)]
pub struct Kind {
    /// 3, 4 or 5.
    pub levels: u32,
    /// G-stage: wider root, U on every leaf that is to work.
    pub g_stage: bool,
    /// Leave A and D clear now and then only if this is set (they fault without Svadu).
    pub clear_ad: bool,
    /// Reserved uses of N, which QEMU marks as accessed before it faults.
    pub exact: bool,
}

impl Kind {
    /// Mode field of the `*atp` CSR.
    pub fn mode(self) -> u64 {
        u64::from(self.levels) + 5
    }
}

/// Flags of a leaf: mostly valid, sometimes broken in various ways.
fn flags(rng: &Rng, kind: Kind) -> u64 {
    let mut f = match rng.below(12) {
        0 => R,
        1 => R | X,
        2 => X,
        3 => W,
        4 => W | X,
        5 => R | W,
        _ => R | W | X,
    };
    f |= if kind.g_stage {
        if rng.chance(9, 10) { U } else { 0 }
    } else {
        rng.below(2) * U
    };
    f |= match rng.below(if kind.clear_ad { 6 } else { 12 }) {
        0 => 0,
        1 => A,
        2 => D,
        _ => A | D,
    };
    f |= rng.below(2) * G;
    f |= rng.below(4) << 8;
    f
}

/// A leaf at `level` whose page shows the data area (or not, if it is broken).
fn random_leaf(rng: &Rng, kind: Kind, level: u32, page: u64) -> u64 {
    let size = 1u64 << (12 + 9 * level);
    let target = page & !(size - 1);
    let mut v = leaf(target, flags(rng, kind));
    match rng.below(24) {
        0 => v &= !V,
        1 if level > 0 => v |= 1 << (10 + rng.below(u64::from(9 * level))), // misaligned
        2 if level < 3 => v = leaf(NOWHERE, v & 0x3ff),
        3 => v |= 1 << rng.range(54, 60),    // reserved
        4 | 5 => v |= rng.range(1, 3) << 61, // PBMT
        6 if kind.exact => v |= N,           // a NAPOT encoding only at level 0
        7 => v = v & 0x3ff | (rng.next() & ((1 << 54) - 1)) & !0x3ff,
        _ => {}
    }
    v
}

/// Offset of the data area from the start of a superpage of `level` that covers it.
fn data_offset(level: u32, page: u64) -> u64 {
    page & ((1u64 << (12 + 9 * level)) - 1) & !0xfff
}

/// Builds tables: RAM mapped onto itself, its alias for U-mode, and random entries elsewhere.
///
/// `next_stage` are physical pages with other tables; some get an extra input address.
pub fn build(rng: &Rng, p: &mut Program, kind: Kind, next_stage: &[u64]) -> Space {
    let mut tables = Tables::new(rng, p, kind);
    let giga = tables.upper();
    tables.identity(giga);
    tables.gigapages(giga);
    let (mega, base) = tables.subtree(giga);
    for i in 3..5 {
        let small = alloc(tables.p, 1);
        tables.space.side_tables.push(small);
        put(tables.p, mega, i, pointer(small));
        let base = base | i << 21;
        tables.small_pages(small, base);
        tables.region(small, base);
        tables.other_stage(small, base, next_stage);
    }
    tables.space
}

/// Tables under construction.
struct Tables<'a> {
    rng: &'a Rng,
    p: &'a mut Program,
    kind: Kind,
    space: Space,
}

impl<'a> Tables<'a> {
    fn new(rng: &'a Rng, p: &'a mut Program, kind: Kind) -> Self {
        let root = if kind.g_stage {
            // G-stage roots are 16 KiB large and aligned.
            while p.tables.len() % 0x4000 != 0 {
                alloc(p, 1);
            }
            alloc(p, 4)
        } else {
            alloc(p, 1)
        };
        let space = Space {
            mode: kind.mode(),
            root,
            spots: Vec::new(),
            table_pages: Vec::new(),
            side_tables: Vec::new(),
        };
        Self {
            rng,
            p,
            kind,
            space,
        }
    }

    /// Writes a random leaf for a page of the data area, and records where it is visible: in the
    /// region that begins at `addr`. Returns the address.
    fn spot(&mut self, table: u64, index: u64, level: u32, addr: u64) -> u64 {
        let page = data_page(self.rng);
        let leaf = random_leaf(self.rng, self.kind, level, page);
        let entry = put(self.p, table, index, leaf);
        let addr = addr | data_offset(level, page);
        self.space.spots.push(Spot {
            addr,
            entry,
            level,
            lone: true,
        });
        addr
    }

    /// Tables down to that of gigabyte pages, which is returned.
    fn upper(&mut self) -> u64 {
        let kind = self.kind;
        let mut giga = self.space.root;
        for level in (3..kind.levels).rev() {
            let next = alloc(self.p, 1);
            put(self.p, giga, 0, pointer(next));
            // Entries beside the path, for large pages and far addresses.
            let top = level == kind.levels - 1;
            let n = if kind.g_stage && top { 2048 } else { 512 };
            for _ in 0..2 {
                let index = self.rng.pick(&[1, 2, 255, 256, 511, n - 1]) % n;
                let mut addr = index << (12 + 9 * level);
                if !kind.g_stage && top {
                    addr = sign_extend(addr, kind.levels);
                }
                self.spot(giga, index, level, addr);
            }
            giga = next;
        }
        giga
    }

    /// RAM at its address, and its alias for U-mode.
    fn identity(&mut self, giga: u64) {
        let user = if self.kind.g_stage { U } else { 0 };
        let own = leaf(layout::RAM, R | W | X | A | D | user);
        put(self.p, giga, 2, own);
        put(self.p, giga, 1, leaf(layout::RAM, R | W | X | A | D | U));
    }

    /// Random gigabyte pages.
    fn gigapages(&mut self, giga: u64) {
        for index in [3, 4] {
            self.spot(giga, index, 2, index << 30);
        }
    }

    /// A table of 2 MiB pages with some, and the address it begins at.
    fn subtree(&mut self, giga: u64) -> (u64, u64) {
        let top = self.kind.levels == 3;
        let index = if !self.kind.g_stage && top {
            self.rng.pick(&[5, 255, 256, 511])
        } else {
            5
        };
        let mega = alloc(self.p, 1);
        self.space.side_tables.push(mega);
        let mut ptr = pointer(mega);
        if self.rng.chance(1, 16) {
            ptr |= self.rng.pick(&[A, D, U, N, 1 << 61, 1 << 54]); // reserved in a pointer
        }
        let entry = put(self.p, giga, index, ptr);
        let base = index << 30;
        let base = if self.kind.g_stage || !top {
            base
        } else {
            sign_extend(base, 3)
        };
        for i in 0..3 {
            let addr = self.spot(mega, i, 1, base | i << 21);
            if i == 0 {
                // Reached through the pointer, which may be broken.
                let pointer = Spot {
                    addr,
                    entry,
                    level: 2,
                    lone: false,
                };
                let last = self.space.spots.len() - 1;
                self.space.spots.insert(last, pointer);
            }
        }
        (mega, base)
    }

    /// Random small pages.
    fn small_pages(&mut self, small: u64, base: u64) {
        for n in 0..8 {
            let index = n * 17 % 512;
            self.spot(small, index, 0, base | index << 12);
        }
    }

    /// A naturally aligned 64 KiB region: all sixteen entries alike.
    fn region(&mut self, small: u64, base: u64) {
        let mut v = leaf(layout::DATA, flags(self.rng, self.kind)) | N;
        v |= match self.rng.below(6) {
            0 if self.kind.exact => self.rng.below(16) << 10, // mostly a reserved size
            _ => 8 << 10,
        };
        for n in 0..16 {
            let entry = put(self.p, small, 160 + n, v);
            if n % 5 == 0 {
                self.space.spots.push(Spot {
                    addr: base | (160 + n) << 12,
                    entry,
                    level: 0,
                    lone: false,
                });
            }
        }
    }

    /// Tables of the other stage under another address.
    fn other_stage(&mut self, small: u64, base: u64, pages: &[u64]) {
        for (n, page) in pages.iter().enumerate().take(64) {
            let mut bits = flags(self.rng, self.kind) | R | W;
            if self.rng.chance(1, 5) {
                // QEMU lets MXR make an execute-only page readable even for walks.
                bits &= !self.rng.pick(if self.kind.exact {
                    &[R | W, W, U, V]
                } else {
                    &[W, W, U, V]
                });
            }
            let mut entry = leaf(*page, bits);
            if bits & V == 0 && self.rng.chance(1, 12) {
                entry ^= V;
            }
            let index = 256 + n as u64;
            put(self.p, small, index, entry);
            // Not a spot: stores there would change tables without a fence.
            self.space.table_pages.push((base | index << 12, *page));
        }
    }
}

/// The page of the data area that a leaf shows.
pub fn data_page(rng: &Rng) -> u64 {
    layout::DATA + (rng.below(layout::DATA_SIZE >> 12) << 12)
}

/// Makes an address of `levels` levels canonical.
pub fn sign_extend(addr: u64, levels: u32) -> u64 {
    let shift = 64 - (12 + 9 * levels);
    ((addr << shift) as i64 >> shift) as u64
}

impl Space {
    /// Value of `satp` or `vsatp`.
    pub fn satp(&self, asid: u64) -> u64 {
        self.mode << 60 | asid << 44 | self.root >> 12
    }

    /// Value of `hgatp`.
    pub fn hgatp(&self, vmid: u64) -> u64 {
        self.mode << 60 | vmid << 44 | self.root >> 12
    }

    /// An entry that may be changed: its own address is all that it affects, and a leaf in its
    /// place shows the data area.
    pub fn changeable(&self, rng: &Rng) -> Spot {
        let spots: Vec<Spot> = self.spots.iter().filter(|s| s.lone).copied().collect();
        rng.pick(&spots)
    }

    /// An input address worth probing; `offset` within its page.
    pub fn probe(&self, rng: &Rng, offset: u64) -> u64 {
        let s = rng.pick(&self.spots);
        let addr = s.addr | offset;
        match rng.below(40) {
            0 => addr ^ 1 << rng.range(57, 63), // not canonical
            1 => addr ^ 1 << rng.range(12, 15), // another page of the data area
            _ => addr,
        }
    }
}

/// Bits of `menvcfg` that the page-table families enable.
pub fn envcfg(rng: &Rng, adue: bool) -> u64 {
    let pbmte = if rng.chance(2, 3) {
        csr::envcfg::PBMTE
    } else {
        0
    };
    pbmte | if adue { csr::envcfg::ADUE } else { 0 }
}
