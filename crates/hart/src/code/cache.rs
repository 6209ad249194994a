//! Decoded and compiled blocks, shared by the harts and the engines of a machine.
//!
//! A block is keyed by the physical address of its first instruction and so survives every change
//! of translation. `fence.i` compares the blocks of pages that harts have written since the last
//! one ([`CodePages`](crate::memory::code_pages::CodePages)) with memory. If a device may have
//! written anything, the blocks of a page are compared before any of them runs again.

use std::sync::Arc;

use trapless_isa::Extensions;
use trapless_isa::inst::Inst;
use trapless_isa::page::{PAGE_SIZE, page_offset};
use trapless_jit::{Code, CodeListener, Jit, Site};

use super::block::{Block, Blocks};
use super::changes::{Change, Changes};
use super::compiler::{Compiled, Tiers};
use super::decoder::Decoder;
use super::excluded::Excluded;
use super::statistics::CodeStatistics;
use crate::config::CostModel;
use crate::memory::address::PageIndex;
use crate::memory::ram::Ram;
use crate::observe::Triggers;
use crate::observe::activity::{Activity, Meter};

/// Offset of a page's last parcel: a longer instruction there continues in the next page.
const LAST_PARCEL: u64 = PAGE_SIZE - 2;

/// Maximum number of instructions in one block.
pub const MAX_BLOCK: usize = 64;
/// Maximum number of crossings that are compiled; others are interpreted.
const CROSSINGS: usize = 1 << 16;

/// Capacity of a [`CodeCache`]. When it is full, everything is dropped and decoded or compiled
/// again on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeLimits {
    /// Decoded instructions, at least 64 (a block). Dropping them has the effect of a `fence.i`:
    /// runs in which devices write code and no hart executes one are comparable only at the same
    /// limit.
    pub instructions: usize,
    /// Bytes of compiled code. Blocks that do not fit even into an empty buffer are interpreted.
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

/// Cache of decoded and compiled blocks.
pub struct CodeCache {
    blocks: Blocks,
    decoder: Decoder,
    cost: CostModel,
    /// Number of times that pages may have been written without notice.
    content: u32,
    epoch: u32,
    changes: Changes,
    compiled: Option<Compiled>,
    excluded: Excluded,
    limits: CodeLimits,
    counts: CodeStatistics,
    meter: Meter,
}

impl CodeCache {
    /// An empty cache for a machine with this RAM, whose harts all have these extensions.
    pub fn new(ram: &Ram, extensions: Extensions, cost: CostModel) -> Self {
        let pages = (ram.size() / PAGE_SIZE) as usize;
        Self {
            blocks: Blocks::new(pages, CodeLimits::default().instructions),
            decoder: Decoder::new(extensions),
            cost,
            content: 0,
            epoch: 1,
            changes: Changes::default(),
            compiled: None,
            excluded: Excluded::default(),
            limits: CodeLimits::default(),
            counts: CodeStatistics::default(),
            meter: Meter::default(),
        }
    }

    /// Sets the capacity. To be called before `compile` and before any hart runs.
    pub fn set_limits(&mut self, limits: CodeLimits) {
        self.limits = CodeLimits {
            instructions: limits.instructions.max(MAX_BLOCK),
            ..limits
        };
    }

    /// Reports activity to `meter`.
    pub fn set_meter(&mut self, meter: &Meter) {
        self.meter = meter.clone();
    }

    /// Price list.
    pub(crate) fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Enables compilation at the times that `tiers` says, by the compiler that `jit` makes for a
    /// capacity in bytes. Returns whether it made one.
    pub(crate) fn set_compiler(
        &mut self,
        tiers: Tiers,
        jit: impl FnOnce(usize) -> Option<Jit>,
    ) -> bool {
        // Without C, jumps must check for misaligned targets, which compiled code does not.
        if self.decoder.compressed() {
            let (room, pages) = (self.blocks.room(), self.blocks.pages());
            let jit = jit(self.limits.compiled);
            self.compiled = jit.map(|jit| Compiled::new(jit, tiers, room, pages));
        }
        self.compiled.is_some()
    }

    /// Sends a listing of each block compiled from now on to `listener`: guest instructions by
    /// physical address, and host code. It is the same in every run of a program. `false`: there is
    /// no compiler.
    pub fn list_code(&mut self, ram: &Ram, listener: CodeListener) -> bool {
        match &mut self.compiled {
            Some(compiled) => {
                compiled.jit.list(listener, ram.base());
                true
            }
            None => false,
        }
    }

    /// Compiled blocks, if there is a compiler.
    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        self.compiled.as_ref()
    }

    /// Code of block `index`, whose first instruction is at `offset` of its page; compiled now if
    /// it is hot. `None`: it is to be interpreted.
    pub(crate) fn compiled_block(&mut self, index: u32, offset: u32) -> Option<Code> {
        if !self.excluded.is_empty() {
            if let Some(page) = self.blocks.page(index) {
                if self.excludes(page, offset, self.blocks.bytes(index)) {
                    return None;
                }
            }
        }
        let compiled = self.compiled.as_mut()?;
        compiled.block(&self.blocks, index, offset, &self.meter)
    }

    /// Code of the crossing with these bits; compiled now if it is hot.
    pub(crate) fn compiled_crossing(&mut self, raw: u32) -> Option<Code> {
        self.compiled.as_ref()?;
        let index = match self.blocks.crossing(raw) {
            Some(index) => index,
            None if self.blocks.crossings() == CROSSINGS => return None,
            None => {
                let inst = self.decoder.decode(raw);
                self.blocks.push_crossing(inst, self.cost.of(inst.op))
            }
        };
        self.compiled_block(index, 0xFFE)
    }

    /// Excludes only addresses of these triggers from compilation from now on: those of others may
    /// be compiled. The returned number changes with the triggers.
    pub(crate) fn exclude_for(&mut self, triggers: Option<&Arc<Triggers>>) -> u32 {
        self.excluded.belong_to(triggers)
    }

    /// Never compiles blocks with the instruction at `offset` of a page, and drops compiled code of
    /// the page.
    pub(crate) fn exclude(&mut self, page: PageIndex, offset: u16) {
        if self.excluded.insert(page, offset) {
            if let Some(compiled) = &mut self.compiled {
                let blocks = self.blocks.of_page(page);
                compiled.drop_page(page, blocks.map(|(_, index)| index));
            }
        }
    }

    /// Whether one of the `len` bytes at `offset` of a page is excluded from compilation.
    pub(crate) fn excludes(&self, page: PageIndex, offset: u32, len: u32) -> bool {
        self.excluded.meets(page, offset, len)
    }

    /// Notes that a hart, after `cycles` cycles, reached its limit before `offset` of a page.
    pub(crate) fn see(&mut self, page: PageIndex, offset: u32, cycles: u64) {
        if let Some(compiled) = &mut self.compiled {
            compiled.see(&self.blocks, (page, offset), cycles, &self.meter);
        }
    }

    /// Links a jump of compiled code to its target.
    pub(crate) fn link(&mut self, site: Site, target: Code) {
        if let Some(compiled) = &mut self.compiled {
            compiled.link(site, target);
        }
    }

    /// Drops blocks that differ from memory: a hart executed `fence.i` or stored to code, or a
    /// debugger wrote memory.
    pub fn compare(&mut self, ram: &Ram) {
        match ram.code_pages().take_written() {
            Some(pages) => {
                for page in pages {
                    self.compare_page(ram, page);
                }
            }
            None => {
                self.content = self.content.wrapping_add(1);
                self.forget_places();
            }
        }
    }

    /// Invalidates addresses of blocks cached by harts and tables.
    fn forget_places(&mut self) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if let Some(compiled) = &mut self.compiled {
            compiled.forget_places();
        }
    }

    /// Number of changes: times that blocks of some page were dropped.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Changes after the first `seen`; `None` if some of them were dropped from the log.
    pub(crate) fn changed_since(&self, seen: u64) -> Option<&[Change]> {
        self.changes.since(seen)
    }

    /// Drops the blocks of a page that differ from memory; if there are any, also all compiled code
    /// of the page, since blocks of a page are linked.
    fn compare_page(&mut self, ram: &Ram, page: PageIndex) {
        if !self.blocks.has_table(page) {
            ram.code_pages().remove(page);
            return;
        }
        let before: Vec<(u16, u32)> = self.blocks.of_page(page).collect();
        let start = ram.address_of(page);
        let differs = |(offset, index): (u16, u32)| {
            let block = self.blocks.block(index);
            (!self.same(ram, start + u64::from(offset), &block)).then_some(offset)
        };
        let changed: Vec<u16> = before.iter().copied().filter_map(differs).collect();
        if changed.is_empty() {
            return;
        }
        for offset in changed {
            self.blocks.drop_at(page, offset);
        }
        ram.code_pages().keep(page, self.blocks.extents(page));
        if let Some(compiled) = &mut self.compiled {
            compiled.drop_page(page, before.iter().map(|&(_, index)| index));
        }
        let offsets = before.into_iter().map(|(offset, _)| offset).collect();
        self.changes.note(page, offsets);
    }

    fn reset(&mut self) {
        if let Some(compiled) = &mut self.compiled {
            compiled.reset();
        }
        self.blocks.clear();
        self.forget_places();
    }

    /// Current epoch. A block that a hart has cached is valid while the epoch stays the same and
    /// its page is not among [`changed_since`](Self::changed_since).
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The instructions of a block, which may be a crossing.
    pub(crate) fn any_insts(&self, block: &Block) -> &[Inst] {
        self.blocks.any_insts(block)
    }

    /// The instructions of a block other than a crossing.
    #[inline(always)]
    pub(crate) fn insts(&self, block: &Block) -> &[Inst] {
        self.blocks.insts(block)
    }

    /// A block by index.
    #[inline(always)]
    pub(crate) fn block(&self, index: u32) -> Block {
        self.blocks.block(index)
    }

    /// Length in bytes of a block.
    pub(crate) fn bytes(&self, index: u32) -> u32 {
        self.blocks.bytes(index)
    }

    /// Decodes an instruction outside blocks.
    pub(crate) fn single(&mut self, raw: u32) -> Inst {
        self.decoder.single(raw)
    }

    /// Index of the block at physical address `pa` in RAM, decoded if necessary; `None` if its
    /// first instruction is a crossing.
    pub(crate) fn find(&mut self, ram: &Ram, pa: u64) -> Option<u32> {
        let page = ram.page_at(pa);
        // All blocks of the page are compared, because they are linked.
        if self.blocks.outdated(page, self.content) {
            self.compare_page(ram, page);
        }
        if let Some(index) = self.blocks.at(page, page_offset(pa) as u32) {
            return Some(index);
        }
        let before = self.meter.enter(Activity::Decode);
        let index = self.build(ram, pa, page);
        self.meter.leave(before);
        index
    }

    /// Whether memory at `pa` still has the bytes from which a block was decoded.
    fn same(&self, ram: &Ram, pa: u64, block: &Block) -> bool {
        let mut at = pa;
        self.blocks.insts(block).iter().all(|inst| {
            let word = ram.load(at, inst.len).map(|w| w as u32);
            at += u64::from(inst.len);
            word == Some(inst.raw)
        })
    }

    #[cold]
    fn build(&mut self, ram: &Ram, pa: u64, page: PageIndex) -> Option<u32> {
        if page_offset(pa) == LAST_PARCEL && ram.load(pa, 2)? & 3 == 3 {
            // A crossing must not drop anything: not every engine looks it up each time.
            return None;
        }
        if self.blocks.instructions() + MAX_BLOCK > self.limits.instructions {
            self.counts.decoded_resets += 1;
            self.reset();
        }
        let first = self.blocks.instructions();
        let mut at = pa;
        let mut cost = 0;
        let len = loop {
            let len = self.blocks.instructions() - first;
            let low = ram.load(at, 2)? as u32;
            let raw = if low & 3 != 3 {
                low
            } else if page_offset(at) == LAST_PARCEL {
                break len;
            } else {
                ram.load(at, 4)? as u32
            };
            let inst = self.decoder.decode(raw);
            at += u64::from(inst.len);
            cost += self.cost.of(inst.op);
            self.blocks.push_inst(inst);
            if inst.op.ends_block() || len + 1 == MAX_BLOCK || page_offset(at) == 0 {
                break len + 1;
            }
        };
        self.counts.blocks_decoded += 1;
        self.counts.instructions_decoded += len as u64;
        let offset = page_offset(pa) as u32;
        let index = self.blocks.push(first, cost, page, offset, self.content);
        ram.code_pages()
            .add(page, offset as usize, (at - pa) as usize);
        Some(index)
    }

    /// Statistics of this cache.
    #[must_use]
    pub fn statistics(&self) -> CodeStatistics {
        let mut statistics = self.counts;
        if let Some(compiled) = self.compiled() {
            compiled.count(&mut statistics);
        }
        statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HartConfig;

    const RAM: u64 = 0x8000_0000;

    /// An engine that has compiled a crossing does not look it up, but must run out of room at the
    /// same time as one that does.
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
