//! Decoded basic blocks, shared by the harts and the engines of a machine.
//!
//! A block is keyed by the physical address of its first instruction, so that it survives every
//! change of translation. `fence.i` compares the blocks of pages that harts have written since the last
//! one ([`crate::code_pages`]) with memory. If a device may have written anything, the blocks of a page are
//! compared before any of them runs again.

use std::collections::BTreeMap;

use trapless_isa::decode::decode;
use trapless_isa::inst::{CostClass, Ext, Format, Inst, Op};
use trapless_jit::{Code, PARCELS, Site, Source};

use crate::activity::{Activity, Meter};
use crate::compile::Compiled;
use crate::config::{CostModel, Extensions, HartConfig};
use crate::huge;
use crate::ram::Ram;
use crate::statistics::CodeStatistics;

/// Most instructions in one block.
pub const MAX_BLOCK: usize = 64;
/// Register number that stands for "no destination": a slot nobody reads.
pub(crate) const NO_REG: u8 = 32;
/// Instructions across pages that are compiled before the others are left to the interpreter.
const CROSSINGS: usize = 1 << 16;
/// Page of a block that is an instruction across pages, wherever it is.
pub(crate) const NO_PAGE: u32 = u32::MAX;
/// Changed pages that are remembered for harts to catch up with.
const CHANGES: usize = 64;
/// Blocks, and pages with code, for which there is room in one piece of memory; more are moved as they come.
const BLOCKS: usize = 1 << 20;
const TABLES: usize = 1 << 14;
/// Instructions and blocks for each page of RAM that there is room for: most pages hold no code.
const ROOM: usize = 64;
/// Instructions across pages that are kept decoded.
const SINGLES: usize = 1024;

/// A page whose blocks were dropped.
#[derive(Debug)]
pub(crate) struct Change {
    /// Its number in RAM.
    pub page: u32,
    /// Where in it blocks were, in bytes from its start.
    pub offsets: Vec<u16>,
}

/// A run of instructions that is entered at its start only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    first: u32,
    /// Instructions.
    pub len: u32,
    /// Static price in cycles.
    pub cost: u32,
    /// Page of RAM that it is in, or [`NO_PAGE`].
    page: u32,
}

impl Block {
    /// No instructions.
    pub const EMPTY: Self = Self {
        first: 0,
        len: 0,
        cost: 0,
        page: 0,
    };
}

fn insts_of<'a>(insts: &'a [Inst], crossings: &'a [Inst], block: &Block) -> &'a [Inst] {
    let insts = if block.page == NO_PAGE {
        crossings
    } else {
        insts
    };
    &insts[block.first as usize..][..block.len as usize]
}

/// What there is to compile.
pub(crate) struct Decoded<'a> {
    insts: &'a [Inst],
    crossing_insts: &'a [Inst],
    blocks: &'a [Block],
    pages: &'a [u32],
    tables: &'a [[u32; PARCELS]],
}

impl<'a> Decoded<'a> {
    /// Block `index`, which is at `offset` of its page.
    pub fn source(&self, index: u32, offset: u32) -> Source<'a> {
        let block = &self.blocks[index as usize];
        let insts = insts_of(self.insts, self.crossing_insts, block);
        Source {
            block: index,
            insts,
            cost: block.cost,
            page: block.page,
            offset,
            crossing: (block.page == NO_PAGE).then(|| insts[0].raw),
        }
    }

    /// Index of the block at an offset of a page.
    pub fn at(&self, page: u32, offset: u32) -> Option<u32> {
        let table = self.pages[page as usize].checked_sub(1)?;
        self.tables[table as usize][offset as usize / 2].checked_sub(1)
    }
}

/// How much a [`CodeCache`] holds. When there is no room for more, everything is dropped and made again as it
/// is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeLimits {
    /// Decoded instructions, at least [`MAX_BLOCK`]. Dropping them is like a `fence.i`: whoever compares runs
    /// of programs that patch themselves without one needs the same limit in both.
    pub instructions: usize,
    /// Bytes of compiled code. With few of them, blocks that are too long are interpreted.
    pub compiled: usize,
}

impl Default for CodeLimits {
    fn default() -> Self {
        Self {
            instructions: 4 << 20,
            compiled: 48 << 20,
        }
    }
}

/// Cache of decoded blocks.
pub struct CodeCache {
    insts: Vec<Inst>,
    blocks: Vec<Block>,
    /// Per RAM page: 1 + index into `tables`, or 0.
    pages: Vec<u32>,
    /// Per page and parcel: 1 + index into `blocks`, or 0.
    tables: Vec<[u32; PARCELS]>,
    /// Per table: [`content`](Self::content) when the page was last compared with memory.
    validated: Vec<u32>,
    /// Counts the times that any page may have been written.
    content: u32,
    epoch: u32,
    /// Pages whose blocks were dropped lately, and how many there were ever.
    changed: Vec<Change>,
    changes: u64,
    /// Instructions that no block holds, as decoded last, by a hash of their bits.
    singles: Vec<Inst>,
    /// Blocks of instructions across pages, by their bits.
    crossings: BTreeMap<u32, u32>,
    /// Their instructions, apart from the others: an engine that has no such blocks must run out of room at
    /// the same time.
    crossing_insts: Vec<Inst>,
    extensions: Extensions,
    cost: CostModel,
    compiled: Option<Compiled>,
    limits: CodeLimits,
    pub(crate) counts: CodeStatistics,
    meter: Meter,
}

impl CodeCache {
    /// An empty cache for a machine with this RAM, whose harts all have these extensions.
    pub fn new(ram: &Ram, extensions: Extensions, cost: CostModel) -> Self {
        let pages = (ram.size() / 4096) as usize;
        let room = |most: usize| most.min(pages * ROOM);
        Self {
            insts: huge::reserve(room(CodeLimits::default().instructions)),
            blocks: huge::reserve(room(BLOCKS)),
            pages: vec![0; pages],
            tables: huge::reserve(pages.min(TABLES)),
            validated: Vec::new(),
            content: 0,
            epoch: 1,
            changed: Vec::new(),
            changes: 0,
            singles: Vec::new(),
            crossings: BTreeMap::new(),
            crossing_insts: Vec::new(),
            extensions,
            cost,
            compiled: None,
            limits: CodeLimits::default(),
            counts: CodeStatistics::default(),
            meter: Meter::default(),
        }
    }

    /// Sets how much it holds. To be called before [`compile`](Self::compile) and before any hart runs.
    pub fn set_limits(&mut self, limits: CodeLimits) {
        self.limits = CodeLimits {
            instructions: limits.instructions.max(MAX_BLOCK),
            ..limits
        };
    }

    /// Lets the cache tell `meter` what it does.
    pub fn set_meter(&mut self, meter: &Meter) {
        self.meter = meter.clone();
    }

    /// Code of the instruction across pages with these bits, if it is worth compiling by now.
    pub(crate) fn compiled_crossing(&mut self, raw: u32) -> Option<Code> {
        self.compiled.as_ref()?;
        let index = match self.crossings.get(&raw) {
            Some(&index) => index,
            None => {
                if self.crossing_insts.len() == CROSSINGS {
                    return None;
                }
                let inst = self.prepare(raw);
                let index = self.blocks.len() as u32;
                self.blocks.push(Block {
                    first: self.crossing_insts.len() as u32,
                    len: 1,
                    cost: self.cost.of(inst.op),
                    page: NO_PAGE,
                });
                self.crossing_insts.push(inst);
                self.crossings.insert(raw, index);
                index
            }
        };
        self.compiled_block(index, 0xFFE)
    }

    /// Decodes an instruction that no block holds.
    pub(crate) fn single(&mut self, raw: u32) -> Inst {
        if self.singles.is_empty() {
            self.singles = vec![self.prepare(0); SINGLES];
        }
        let slot = (raw ^ raw >> 12) as usize % SINGLES;
        if self.singles[slot].raw != raw {
            self.singles[slot] = self.prepare(raw);
        }
        self.singles[slot]
    }

    /// Lets blocks be compiled to machine code after they ran `hot` times (0: at first sight), for harts
    /// that are like `config`.
    /// Returns whether this host can do it; results are the same either way.
    pub fn compile(&mut self, hot: u32, config: &HartConfig) -> bool {
        // Without C, jumps have to be checked for misaligned targets, which compiled code does not do.
        if self.extensions.c {
            let room = self.blocks.capacity();
            let pages = self.pages.len();
            self.compiled = Compiled::new(hot, self.limits.compiled, room, pages, config);
        }
        self.compiled.is_some()
    }

    /// Compiled blocks, if there is a compiler.
    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        self.compiled.as_ref()
    }

    /// Code of block `index`, whose first instruction is at `offset` of its page, if it is worth
    /// compiling by now. `None` if it is to be interpreted.
    pub(crate) fn compiled_block(&mut self, index: u32, offset: u32) -> Option<Code> {
        let decoded = Decoded {
            insts: &self.insts,
            crossing_insts: &self.crossing_insts,
            blocks: &self.blocks,
            pages: &self.pages,
            tables: &self.tables,
        };
        let compiled = self.compiled.as_mut()?;
        compiled.block(&decoded, index, offset, &self.meter)
    }

    /// Connects a jump of compiled code with its target.
    pub(crate) fn link(&mut self, site: Site, target: Code) {
        if let Some(compiled) = &mut self.compiled {
            compiled.link(site, target);
        }
    }

    /// A hart executed `fence.i`, or a debugger wrote memory.
    pub fn fence_i(&mut self, ram: &Ram) {
        match ram.code_pages().take_written() {
            Some(pages) => {
                for page in pages {
                    self.compare_page(ram, page as usize);
                }
            }
            None => {
                self.content = self.content.wrapping_add(1);
                self.forget_places();
            }
        }
    }

    /// What is remembered of where blocks are does not hold any more.
    fn forget_places(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if let Some(compiled) = &mut self.compiled {
            compiled.forget_places();
        }
    }

    /// How many times blocks of some page were dropped.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The pages that were dropped since there were `seen` changes; `None` if they are not remembered.
    pub(crate) fn changed_since(&self, seen: u64) -> Option<&[Change]> {
        let count = (self.changes - seen) as usize;
        let first = self.changed.len().checked_sub(count)?;
        Some(&self.changed[first..])
    }

    fn note_change(&mut self, page: usize, offsets: Vec<u16>) {
        if self.changed.len() == CHANGES {
            self.changed.clear();
        }
        self.changed.push(Change {
            page: page as u32,
            offsets,
        });
        self.changes += 1;
    }

    /// Drops the blocks of a page that differ from memory, and then all its compiled code, which may lead to
    /// them.
    fn compare_page(&mut self, ram: &Ram, page: usize) {
        let Some(table) = (self.pages[page] as usize).checked_sub(1) else {
            return;
        };
        let (mut changed, mut kept) = (false, false);
        let before = self.tables[table];
        for (parcel, index) in before.iter().enumerate() {
            let Some(index) = index.checked_sub(1) else {
                continue;
            };
            let pa = ram.base() + (page * 4096 + parcel * 2) as u64;
            if self.same(ram, pa, &self.blocks[index as usize]) {
                kept = true;
            } else {
                self.tables[table][parcel] = 0;
                changed = true;
            }
        }
        if !kept {
            ram.code_pages().remove(page);
        }
        if changed {
            if let Some(compiled) = &mut self.compiled {
                compiled.drop_page(page as u32, before.iter().filter_map(|i| i.checked_sub(1)));
            }
            let blocks = (0..PARCELS).filter(|&parcel| before[parcel] != 0);
            let offsets = blocks.map(|parcel| parcel as u16 * 2).collect();
            self.note_change(page, offsets);
        }
    }

    fn reset(&mut self) {
        if let Some(compiled) = &mut self.compiled {
            compiled.reset();
        }
        self.insts.clear();
        self.blocks.clear();
        self.tables.clear();
        self.crossings.clear();
        self.crossing_insts.clear();
        self.pages.fill(0);
        self.validated.clear();
        self.forget_places();
    }

    /// Price list.
    pub(crate) fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Current epoch; a remembered block is good while it stays the same and its page is not among
    /// [`changed_since`](Self::changed_since).
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The instructions of a block, or the one across pages that it is.
    pub(crate) fn any_insts(&self, block: &Block) -> &[Inst] {
        insts_of(&self.insts, &self.crossing_insts, block)
    }

    /// The instructions of a block that is in one page.
    #[inline(always)]
    pub(crate) fn insts(&self, block: &Block) -> &[Inst] {
        &self.insts[block.first as usize..][..block.len as usize]
    }

    /// A block by index.
    #[inline(always)]
    pub(crate) fn block(&self, index: u32) -> Block {
        self.blocks[index as usize]
    }

    /// Index of the block at physical address `pa`, decoded if necessary. `pa` is in RAM and its first
    /// instruction does not cross the page; `None` if it does.
    pub(crate) fn find(&mut self, ram: &Ram, pa: u64) -> Option<u32> {
        let page = ((pa - ram.base()) / 4096) as usize;
        let parcel = (pa as usize & 0xFFF) / 2;
        let table = self.pages[page];
        if table != 0 {
            // All of the page at once: its blocks are linked.
            if self.validated[table as usize - 1] != self.content {
                self.validated[table as usize - 1] = self.content;
                self.compare_page(ram, page);
            }
            let slot = self.tables[table as usize - 1][parcel];
            if slot != 0 {
                return Some(slot - 1);
            }
        }
        let before = self.meter.enter(Activity::Decode);
        let index = self.build(ram, pa, page, parcel);
        self.meter.leave(before);
        index
    }

    /// Whether memory at `pa` holds what was decoded for a block.
    fn same(&self, ram: &Ram, pa: u64, block: &Block) -> bool {
        let mut at = pa;
        self.insts(block).iter().all(|inst| {
            let word = ram.load(at, inst.len).map(|w| w as u32);
            at += u64::from(inst.len);
            word == Some(inst.raw)
        })
    }

    #[cold]
    fn build(&mut self, ram: &Ram, pa: u64, page: usize, parcel: usize) -> Option<u32> {
        if pa & 0xFFF == 0xFFE && ram.load(pa, 2)? & 3 == 3 {
            // Nothing is dropped for an instruction across pages: not every engine looks it up each time.
            return None;
        }
        if self.insts.len() + MAX_BLOCK > self.limits.instructions {
            self.counts.decoded_resets += 1;
            self.reset();
        }
        let first = self.insts.len();
        let mut at = pa;
        let mut cost = 0;
        loop {
            let low = ram.load(at, 2)? as u32;
            let raw = if low & 3 != 3 {
                low
            } else if at & 0xFFF == 0xFFE {
                break;
            } else {
                ram.load(at, 4)? as u32
            };
            let inst = self.prepare(raw);
            at += u64::from(inst.len);
            cost += self.cost.of(inst.op);
            self.insts.push(inst);
            let full = self.insts.len() - first == MAX_BLOCK;
            if inst.op.ends_block() || full || at & 0xFFF == 0 {
                break;
            }
        }
        let len = (self.insts.len() - first) as u32;
        self.counts.blocks_decoded += 1;
        self.counts.instructions_decoded += u64::from(len);
        let index = self.blocks.len() as u32;
        self.blocks.push(Block {
            first: first as u32,
            len,
            cost,
            page: page as u32,
        });
        if self.pages[page] == 0 {
            self.tables.push([0; PARCELS]);
            self.validated.push(self.content);
            self.pages[page] = self.tables.len() as u32;
        }
        if !ram.code_pages().holds_code(page) {
            ram.code_pages().add(page);
        }
        self.tables[self.pages[page] as usize - 1][parcel] = index + 1;
        Some(index)
    }

    /// Decodes for execution: absent extensions become illegal, `x0` as destination a scratch slot.
    pub(crate) fn prepare(&self, raw: u32) -> Inst {
        let mut inst = decode(raw);
        if !self.present(&inst) {
            inst.op = Op::Illegal;
        }
        let to_f = matches!(
            inst.op.format(),
            Format::FLoad
                | Format::F
                | Format::FRm
                | Format::F4Rm
                | Format::FUnaryRm
                | Format::XToF
                | Format::XToFRm
        );
        if inst.rd == 0 && !to_f {
            inst.rd = NO_REG;
        }
        inst
    }

    fn present(&self, inst: &Inst) -> bool {
        let e = &self.extensions;
        if inst.len == 2 && !e.c {
            return false;
        }
        match inst.op.extension() {
            Ext::F | Ext::D => e.fd,
            Ext::Zba | Ext::Zbb | Ext::Zbs => e.b,
            Ext::Zicbom | Ext::Zicboz => e.zicbo,
            Ext::Zicond => e.zicond,
            Ext::Zawrs => e.zawrs,
            Ext::Svinval => {
                e.svinval && (e.h || !matches!(inst.op, Op::HinvalVvma | Op::HinvalGvma))
            }
            Ext::H => e.h,
            _ => true,
        }
    }
}

impl CostModel {
    /// Static price of an operation.
    pub(crate) fn of(&self, op: Op) -> u32 {
        match op.class() {
            CostClass::Simple => self.simple,
            CostClass::Mul => self.mul,
            CostClass::Div => self.div,
            CostClass::Fp => self.fp,
            CostClass::FpDiv => self.fp_div,
            CostClass::Load => self.load,
            CostClass::Store => self.store,
            CostClass::Amo => self.amo,
            CostClass::Branch => self.branch,
            CostClass::Jump => self.jump,
            CostClass::Csr => self.csr,
            CostClass::System => self.system,
            CostClass::Fence => self.fence,
            CostClass::Cbo => self.cbo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: u64 = 0x8000_0000;

    /// An engine that has compiled such an instruction does not look it up, and has to run out of room at the same
    /// time as one that does.
    #[test]
    fn an_instruction_across_pages_needs_no_room() {
        let ram = Ram::new(RAM, 1 << 20).unwrap();
        // addi a0, a0, 0
        for at in (RAM..RAM + 0x3000).step_by(2) {
            ram.store(at, 2, 0x0513).unwrap();
        }
        let config = HartConfig::default();
        let mut code = CodeCache::new(&ram, config.extensions, config.cost);
        code.set_limits(CodeLimits {
            instructions: MAX_BLOCK,
            ..CodeLimits::default()
        });
        let block = code.find(&ram, RAM).unwrap();
        assert_eq!(code.find(&ram, RAM + 0xFFE), None);
        assert_eq!(code.find(&ram, RAM), Some(block));
        assert_eq!(code.counts.decoded_resets, 0);
        assert!(code.find(&ram, RAM + 0x2000).is_some());
        assert_eq!(code.counts.decoded_resets, 1, "no room for two blocks");
    }
}
