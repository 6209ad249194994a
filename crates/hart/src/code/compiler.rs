//! Decides which blocks are compiled, and when: those that ran often, in batches.

use std::sync::Arc;

use trapless_jit::{Code, Jit, Site, Source};

use super::block::Blocks;
use super::statistics::CodeStatistics;
use super::tables::CodeTables;
use crate::memory::address::PageIndex;
use crate::memory::huge;
use crate::observe::activity::{Activity, Meter};

/// Default number of executions of a block before it is compiled.
pub const HOT: u32 = 8;

/// Blocks of a batch.
const BATCH: usize = 16;

/// Compiled blocks of a machine.
pub(crate) struct Compiled {
    pub jit: Jit,
    /// By number of the block.
    blocks: Vec<State>,
    /// Code by page and offset.
    pub tables: Arc<CodeTables>,
    /// Executions of a block that are interpreted before it is compiled.
    hot: u32,
    /// Hot blocks that are queued for a batch.
    waiting: Vec<Waiting>,
    /// Blocks compiled, bytes of code dropped, and resets.
    compiled: u64,
    dropped: u64,
    resets: u64,
}

/// A block that is to be compiled.
struct Waiting {
    index: u32,
    page: Option<PageIndex>,
    offset: u32,
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
    pub fn new(jit: Jit, hot: u32, room: usize, pages: usize) -> Self {
        Self {
            jit,
            blocks: huge::reserve(room),
            tables: Arc::new(CodeTables::new(pages)),
            hot,
            waiting: Vec::new(),
            compiled: 0,
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
        if runs == self.hot {
            self.wait(decoded, index, offset);
        }
        if runs < self.hot || (runs < 2 * self.hot && self.waiting.len() < BATCH) {
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
        let known = |page, offset| {
            let index = decoded.at(PageIndex::new(page as usize), offset)?;
            match self.blocks.get(index as usize)? {
                State::Hot(code) => Some(*code),
                State::Cold(_) => None,
            }
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
        true
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
        self.waiting.clear();
        self.tables.forget_all();
    }
}
