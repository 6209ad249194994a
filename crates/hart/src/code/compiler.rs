//! Decides which blocks are compiled, and when: those that ran often, in batches.

use std::sync::Arc;

use trapless_jit::{Code, Jit, Site, Source};

use super::block::Blocks;
use super::statistics::CodeStatistics;
use super::tables::CodeTables;
use crate::memory::address::PageIndex;
use crate::memory::huge;
use crate::observe::activity::{Activity, Meter};

/// When code is compiled. What a guest or a ledger can see does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiers {
    /// Executions of a block that are interpreted before it is compiled.
    pub hot: u32,
    /// Cycles that harts have run when they are seen in a block, at a limit, before the loops
    /// around that block are compiled once more, as a region; 0: as soon as they are compiled.
    /// `None`: never.
    pub region: Option<u64>,
}

impl Tiers {
    /// Everything at first sight.
    pub const EAGER: Self = Self {
        hot: 0,
        region: Some(0),
    };
}

impl Default for Tiers {
    /// What pays.
    fn default() -> Self {
        Self {
            hot: 6,
            region: Some(10_000_000),
        }
    }
}

/// Blocks of a batch.
const BATCH: usize = 64;

/// Compiled blocks of a machine.
pub(crate) struct Compiled {
    pub jit: Jit,
    /// By number of the block.
    blocks: Vec<State>,
    /// Code by page and offset.
    pub tables: Arc<CodeTables>,
    tiers: Tiers,
    /// How long harts had run that were seen in a block, by its number.
    seen: Vec<Seen>,
    /// Hot blocks that are queued for a batch.
    waiting: Vec<Waiting>,
    /// Blocks and regions compiled, bytes of code dropped, and resets.
    compiled: u64,
    regions: u64,
    dropped: u64,
    resets: u64,
}

/// A block that is to be compiled.
struct Waiting {
    index: u32,
    page: Option<PageIndex>,
    offset: u32,
}

/// How long harts had run that were seen in a block.
#[derive(Clone, Copy, Default)]
struct Seen {
    cycles: u64,
    /// A region is looked for at so many cycles.
    next: u64,
    /// The block is in a region.
    done: bool,
}

#[derive(Clone, Copy)]
enum State {
    /// Number of interpreted runs.
    Cold(u32),
    Hot(Code),
}

impl Compiled {
    /// Compiles with `jit` on a machine with `pages` pages of RAM, and reserves memory for `room`
    /// blocks.
    pub fn new(jit: Jit, tiers: Tiers, room: usize, pages: usize) -> Self {
        Self {
            jit,
            blocks: huge::reserve(room),
            tables: Arc::new(CodeTables::new(pages)),
            tiers,
            seen: Vec::new(),
            waiting: Vec::new(),
            compiled: 0,
            regions: 0,
            dropped: 0,
            resets: 0,
        }
    }

    /// Code of block `index`, which is at `offset` of its page, if it is compiled; else counts an
    /// execution. Hot blocks are compiled once there is a batch of them, or after as many
    /// executions again: writing code through the kernel takes as long as compiling a block.
    pub fn block(
        &mut self,
        decoded: &Blocks,
        index: u32,
        offset: u32,
        meter: &Meter,
    ) -> Option<Code> {
        let at = index as usize;
        if at >= self.blocks.len() {
            self.blocks.resize(at + 1024, State::Cold(0));
        }
        let runs = match &mut self.blocks[at] {
            State::Hot(code) => {
                let code = *code;
                self.note(decoded.page(index), offset, code);
                return Some(code);
            }
            State::Cold(runs) => {
                *runs += 1;
                *runs - 1
            }
        };
        if runs == self.tiers.hot {
            self.wait(decoded, index, offset);
        }
        if runs < self.tiers.hot || (runs < 2 * self.tiers.hot && self.waiting.len() < BATCH) {
            return None;
        }
        let before = meter.enter(Activity::Compile);
        if !self.compile_waiting(decoded) {
            self.reset();
            self.blocks.resize(at + 1024, State::Cold(0));
            self.wait(decoded, index, offset);
            self.compile_waiting(decoded);
        }
        meter.leave(before);
        match self.blocks[at] {
            State::Hot(code) => Some(code),
            State::Cold(_) => None,
        }
    }

    /// Enters code in the tables, for jumps from other pages.
    pub fn note(&self, page: Option<PageIndex>, offset: u32, code: Code) {
        if let Some(page) = page {
            self.tables.set(page, offset, self.jit.offset(code));
        }
    }

    fn wait(&mut self, decoded: &Blocks, index: u32, offset: u32) {
        let page = decoded.page(index);
        self.waiting.push(Waiting {
            index,
            page,
            offset,
        });
    }

    /// Compiles the waiting blocks; `false` if there is no room.
    fn compile_waiting(&mut self, decoded: &Blocks) -> bool {
        let source = |waiting: &Waiting| decoded.source(waiting.index, waiting.offset);
        let mut sources: Vec<Source<'_>> = self.waiting.iter().map(source).collect();
        sources.sort_by_key(|source| (source.page, source.offset));
        let blocks = &self.blocks;
        let known = |page, offset| {
            let index = decoded.at(PageIndex::new(page as usize), offset)?;
            code(blocks, index)
        };
        let Some(codes) = self.jit.compile(&sources, &known) else {
            return false;
        };
        self.compiled += sources.len() as u64;
        for (source, code) in sources.iter().zip(codes) {
            self.blocks[source.block as usize] = State::Hot(code);
            self.note(decoded.page(source.block), source.offset, code);
        }
        self.waiting.clear();
        if self.tiers.region == Some(0) {
            for source in &sources {
                if let Some(page) = decoded.page(source.block) {
                    self.compile_region(decoded, page, source.offset);
                }
            }
        }
        true
    }

    /// Notes that a hart, after `cycles` cycles, reached its limit before the block at `offset` of
    /// a page. If harts were seen there for long, the loops around the block become a region.
    pub fn see(
        &mut self,
        decoded: &Blocks,
        (page, offset): (PageIndex, u32),
        cycles: u64,
        meter: &Meter,
    ) {
        let (Some(long), Some(index)) = (self.tiers.region, decoded.at(page, offset)) else {
            return;
        };
        let at = index as usize;
        if at >= self.seen.len() {
            self.seen.resize(at + 1024, Seen::default());
        }
        let seen = &mut self.seen[at];
        seen.cycles = seen.cycles.saturating_add(cycles);
        if !seen.done && seen.cycles >= seen.next.max(long) {
            // Later, more of the loops may be compiled.
            seen.next = seen.cycles.saturating_mul(2);
            let before = meter.enter(Activity::Compile);
            self.compile_region(decoded, page, offset);
            meter.leave(before);
        }
    }

    /// Compiles the loops around a block as a region, if they can be one.
    fn compile_region(&mut self, decoded: &Blocks, page: PageIndex, offset: u32) {
        let (blocks, seen) = (&self.blocks, &self.seen);
        let compiled = |offset| {
            let index = decoded.at(page, offset)?;
            Some((decoded.source(index, offset), code(blocks, index)?))
        };
        let weight = |index: u32| 1 + seen.get(index as usize).map_or(0, |seen| seen.cycles >> 20);
        let Some(region) = self.jit.compile_region(offset, &compiled, &weight) else {
            return;
        };
        self.regions += 1;
        for index in region.blocks {
            let at = index as usize;
            if at >= self.seen.len() {
                self.seen.resize(at + 1024, Seen::default());
            }
            self.seen[at].done = true;
        }
        for head in region.heads {
            self.blocks[head.block as usize] = State::Hot(head.code);
            // A page whose table is empty has to be validated first.
            if self.tables.get(page, head.offset).is_some() {
                self.note(Some(page), head.offset, head.code);
            }
        }
    }

    /// Links a jump of compiled code to its target.
    pub fn link(&mut self, site: Site, target: Code) {
        self.jit.link(site, target);
    }

    /// Drops the code of `blocks`, which are all blocks of `page`. Hot ones will soon be compiled
    /// again.
    pub fn drop_page(&mut self, page: PageIndex, blocks: impl Iterator<Item = u32>) {
        for index in blocks {
            if let Some(state) = self.blocks.get_mut(index as usize) {
                *state = State::Cold(0);
            }
            if let Some(seen) = self.seen.get_mut(index as usize) {
                *seen = Seen::default();
            }
        }
        self.waiting.retain(|waiting| waiting.page != Some(page));
        self.tables.forget(page);
    }

    /// Empties the tables, so that pages are validated before any of their blocks runs again.
    pub fn forget_places(&mut self) {
        for waiting in self.waiting.drain(..) {
            self.blocks[waiting.index as usize] = State::Cold(0);
        }
        self.tables.forget_all();
    }

    /// Fills in the compiler's part of the statistics.
    pub fn count(&self, statistics: &mut CodeStatistics) {
        let held = self.jit.size() as u64;
        statistics.blocks_compiled = self.compiled;
        statistics.regions_compiled = self.regions;
        statistics.code_bytes = self.dropped + held;
        statistics.code_held = held;
        statistics.code_capacity = self.jit.capacity() as u64;
        statistics.code_resets = self.resets;
    }

    /// Drops all code.
    pub fn reset(&mut self) {
        self.resets += 1;
        self.dropped += self.jit.size() as u64;
        self.jit.reset();
        self.blocks.clear();
        self.seen.clear();
        self.waiting.clear();
        self.tables.forget_all();
    }
}

/// Code of a block, if it is compiled.
fn code(blocks: &[State], index: u32) -> Option<Code> {
    match blocks.get(index as usize)? {
        State::Hot(code) => Some(*code),
        State::Cold(_) => None,
    }
}
