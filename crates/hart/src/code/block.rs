//! Decoded basic blocks of a machine, by physical address.

use std::collections::BTreeMap;

use trapless_isa::Inst;
use trapless_jit::{PARCELS, Source};

use crate::memory::address::PageIndex;
use crate::memory::huge::{self, Zero};

/// Blocks, and pages with code, for which memory is reserved; beyond that, vectors are reallocated.
const BLOCKS: usize = 1 << 20;
const TABLES: usize = 1 << 14;
/// Instructions and blocks reserved per page of RAM: most pages hold no code.
const ROOM: usize = 64;

/// A basic block: entered at its first instruction only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    first: u32,
    /// Instructions.
    pub len: u32,
    /// Static price in cycles.
    pub cost: u32,
    /// 1 + number of the page of RAM that it is in, or 0 for a crossing.
    page: u32,
}

// SAFETY: it consists of integers.
unsafe impl Zero for Block {}

impl Block {
    fn page(&self) -> Option<PageIndex> {
        let page = self.page.checked_sub(1)?;
        Some(PageIndex::new(page as usize))
    }
}

/// Blocks, by index, and their instructions.
pub(crate) struct Blocks {
    insts: Vec<Inst>,
    blocks: Vec<Block>,
    /// Per RAM page: 1 + index into `tables`, or 0.
    pages: Vec<u32>,
    /// Per page and parcel: 1 + index into `blocks`, or 0.
    tables: Vec<Table>,
    /// Blocks of crossings, by the bits of the instruction.
    crossings: BTreeMap<u32, u32>,
    /// Their instructions, counted separately: an engine without such blocks must run out of room
    /// at the same time.
    crossing_insts: Vec<Inst>,
}

/// Blocks of a page, by parcel.
struct Table {
    /// 1 + index of the block that begins there, or 0.
    blocks: [u32; PARCELS],
    /// [`CodeCache::content`](super::CodeCache) when the page was last compared with memory.
    validated: u32,
}

impl Blocks {
    /// No blocks, for RAM of `pages` pages and up to `instructions` instructions.
    pub fn new(pages: usize, instructions: usize) -> Self {
        let room = |most: usize| most.min(pages * ROOM);
        Self {
            insts: huge::reserve(room(instructions)),
            blocks: huge::reserve(room(BLOCKS)),
            pages: vec![0; pages],
            tables: huge::reserve(pages.min(TABLES)),
            crossings: BTreeMap::new(),
            crossing_insts: Vec::new(),
        }
    }

    /// Pages of RAM.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Number of blocks for which memory is reserved.
    pub fn room(&self) -> usize {
        self.blocks.capacity()
    }

    /// Instructions in all blocks but crossings.
    pub fn instructions(&self) -> usize {
        self.insts.len()
    }

    /// A block by index.
    #[inline(always)]
    pub fn block(&self, index: u32) -> Block {
        self.blocks[index as usize]
    }

    /// The instructions of a block other than a crossing.
    #[inline(always)]
    pub fn insts(&self, block: &Block) -> &[Inst] {
        &self.insts[block.first as usize..][..block.len as usize]
    }

    /// The instructions of a block, which may be a crossing.
    pub fn any_insts(&self, block: &Block) -> &[Inst] {
        match block.page() {
            Some(_) => self.insts(block),
            None => &self.crossing_insts[block.first as usize..][..1],
        }
    }

    fn table(&self, page: PageIndex) -> Option<&Table> {
        let table = self.pages[page.index()].checked_sub(1)?;
        Some(&self.tables[table as usize])
    }

    fn table_mut(&mut self, page: PageIndex) -> Option<&mut Table> {
        let table = self.pages[page.index()].checked_sub(1)?;
        Some(&mut self.tables[table as usize])
    }

    /// Index of the block at an offset of a page.
    pub fn at(&self, page: PageIndex, offset: u32) -> Option<u32> {
        self.table(page)?.blocks[offset as usize / 2].checked_sub(1)
    }

    /// Offsets and indices of the blocks of a page.
    pub fn of_page(&self, page: PageIndex) -> impl Iterator<Item = (u16, u32)> {
        let blocks = self.table(page).map(|table| &table.blocks[..]);
        let numbered = blocks.unwrap_or_default().iter().enumerate();
        numbered.filter_map(|(parcel, index)| Some((parcel as u16 * 2, index.checked_sub(1)?)))
    }

    /// Length in bytes of a block.
    pub fn bytes(&self, index: u32) -> u32 {
        let insts = self.any_insts(&self.block(index));
        insts.iter().map(|inst| u32::from(inst.len)).sum()
    }

    /// Offsets and lengths in bytes of the blocks of a page.
    pub fn extents(&self, page: PageIndex) -> impl Iterator<Item = (usize, usize)> {
        self.of_page(page)
            .map(|(offset, index)| (usize::from(offset), self.bytes(index) as usize))
    }

    /// Whether a page has, or had, blocks.
    pub fn has_table(&self, page: PageIndex) -> bool {
        self.pages[page.index()] != 0
    }

    /// Whether a page has, or had, blocks that were last compared with memory at another content
    /// number; marks them as compared at `content`.
    #[inline]
    pub fn outdated(&mut self, page: PageIndex, content: u32) -> bool {
        let Some(table) = self.table_mut(page) else {
            return false;
        };
        std::mem::replace(&mut table.validated, content) != content
    }

    /// Forgets the block at an offset of a page.
    pub fn drop_at(&mut self, page: PageIndex, offset: u16) {
        if let Some(table) = self.table_mut(page) {
            table.blocks[usize::from(offset) / 2] = 0;
        }
    }

    /// Appends an instruction of the block that is being decoded.
    pub fn push_inst(&mut self, inst: Inst) {
        self.insts.push(inst);
    }

    /// Makes a block of the instructions from `first` on, which begins at an offset of a page and
    /// agrees with memory at `content`. Returns its index.
    pub fn push(
        &mut self,
        first: usize,
        cost: u32,
        page: PageIndex,
        offset: u32,
        content: u32,
    ) -> u32 {
        let index = self.blocks.len() as u32;
        self.blocks.push(Block {
            first: first as u32,
            len: (self.insts.len() - first) as u32,
            cost,
            page: page.number() + 1,
        });
        if self.pages[page.index()] == 0 {
            self.tables.push(Table {
                blocks: [0; PARCELS],
                validated: content,
            });
            self.pages[page.index()] = self.tables.len() as u32;
        }
        if let Some(table) = self.table_mut(page) {
            table.blocks[offset as usize / 2] = index + 1;
        }
        index
    }

    /// The crossing with these bits.
    pub fn crossing(&self, raw: u32) -> Option<u32> {
        self.crossings.get(&raw).copied()
    }

    /// Number of crossings.
    pub fn crossings(&self) -> usize {
        self.crossing_insts.len()
    }

    /// Makes a crossing. Returns its index.
    pub fn push_crossing(&mut self, inst: Inst, cost: u32) -> u32 {
        let index = self.blocks.len() as u32;
        self.blocks.push(Block {
            first: self.crossing_insts.len() as u32,
            len: 1,
            cost,
            page: 0,
        });
        self.crossing_insts.push(inst);
        self.crossings.insert(inst.raw, index);
        index
    }

    /// Page of a block; `None` for a crossing.
    pub fn page(&self, index: u32) -> Option<PageIndex> {
        self.block(index).page()
    }

    /// Block `index`, which is at `offset` of its page, for the compiler.
    pub fn source(&self, index: u32, offset: u32) -> Source<'_> {
        let block = &self.blocks[index as usize];
        let insts = self.any_insts(block);
        Source {
            block: index,
            insts,
            cost: block.cost,
            page: block.page().map_or(u32::MAX, PageIndex::number),
            offset,
            crossing: block.page().is_none().then(|| insts[0].raw),
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.insts.clear();
        self.blocks.clear();
        self.tables.clear();
        self.crossings.clear();
        self.crossing_insts.clear();
        self.pages.fill(0);
    }
}
