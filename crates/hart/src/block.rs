//! Decoded basic blocks, shared by the harts and the engines of a machine.
//!
//! A block is keyed by the physical address of its first instruction, so that it survives every
//! change of translation. `fence.i` compares the blocks of pages that harts have written since the last
//! one ([`crate::code_pages`]) with memory. If a device may have written anything, a block is compared
//! before it runs again.

use trapless_isa::decode::decode;
use trapless_isa::inst::{CostClass, Ext, Format, Inst, Op};
use trapless_jit::{Code, Site, Source};

use crate::compiled::Compiled;
use crate::config::{CostModel, Extensions};
use crate::ram::Ram;

/// Most instructions in one block.
pub const MAX_BLOCK: usize = 64;
/// Register number that stands for "no destination": a slot nobody reads.
pub(crate) const NO_REG: u8 = 32;
/// Decoded instructions kept before everything is dropped and rebuilt.
const ARENA: usize = 4 << 20;
const PARCELS: usize = 2048;

/// A run of instructions that is entered at its start only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    first: u32,
    /// Instructions.
    pub len: u32,
    /// Static price in cycles.
    pub cost: u32,
    /// [`CodeCache::content`] when it was last compared with memory.
    content: u32,
}

impl Block {
    /// No instructions.
    pub const EMPTY: Self = Self {
        first: 0,
        len: 0,
        cost: 0,
        content: 0,
    };
}

/// Cache of decoded blocks.
pub struct CodeCache {
    insts: Vec<Inst>,
    blocks: Vec<Block>,
    /// Per RAM page: 1 + index into `tables`, or 0.
    pages: Vec<u32>,
    /// Per page and parcel: 1 + index into `blocks`, or 0.
    tables: Vec<Box<[u32; PARCELS]>>,
    epoch: u32,
    /// Counts the times that any page may have been written.
    content: u32,
    extensions: Extensions,
    cost: CostModel,
    compiled: Option<Compiled>,
    /// Writing `hstatus` has effects: the harts have AIA.
    aia: bool,
}

impl CodeCache {
    /// An empty cache for a machine with this RAM, whose harts all have these extensions.
    pub fn new(ram: &Ram, extensions: Extensions, cost: CostModel) -> Self {
        Self {
            insts: Vec::new(),
            blocks: Vec::new(),
            pages: vec![0; (ram.size() / 4096) as usize],
            tables: Vec::new(),
            epoch: 1,
            content: 1,
            extensions,
            cost,
            compiled: None,
            aia: false,
        }
    }

    /// The harts have Smaia and Ssaia. To be said before [`compile`](Self::compile).
    #[must_use]
    pub fn with_aia(mut self) -> Self {
        self.aia = true;
        self
    }

    /// Lets blocks be compiled to machine code after they ran `hot` times (0: at first sight).
    /// Returns whether this host can do it; results are the same either way.
    pub fn compile(&mut self, hot: u32) -> bool {
        // Without C, jumps have to be checked for misaligned targets, which compiled code does not do.
        if self.extensions.c {
            self.compiled = Compiled::new(hot, self.aia);
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
        let compiled = self.compiled.as_mut()?;
        let block = &self.blocks[index as usize];
        let insts = &self.insts[block.first as usize..][..block.len as usize];
        let source = Source {
            block: index,
            insts,
            cost: block.cost,
            offset,
        };
        compiled.block(&source)
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
                let mut changed = false;
                for page in pages {
                    changed |= self.compare_page(ram, page as usize);
                }
                if !changed {
                    return;
                }
            }
            None => self.content = self.content.wrapping_add(1).max(1),
        }
        self.forget_places();
    }

    /// What is remembered of where blocks are does not hold any more.
    fn forget_places(&mut self) {
        if let Some(compiled) = &mut self.compiled {
            compiled.unlink_all();
        }
        self.epoch = self.epoch.wrapping_add(1).max(1);
    }

    /// Drops the blocks of a page that differ from memory. Returns whether there were any.
    fn compare_page(&mut self, ram: &Ram, page: usize) -> bool {
        let Some(table) = (self.pages[page] as usize).checked_sub(1) else {
            return false;
        };
        let (mut changed, mut kept) = (false, false);
        for parcel in 0..PARCELS {
            let Some(index) = self.tables[table][parcel].checked_sub(1) else {
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
        changed
    }

    fn reset(&mut self) {
        if let Some(compiled) = &mut self.compiled {
            compiled.reset();
        }
        self.insts.clear();
        self.blocks.clear();
        self.tables.clear();
        self.pages.fill(0);
        self.forget_places();
    }

    /// Price list.
    pub(crate) fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Current epoch; a remembered block is good while it stays the same.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The instructions of a block.
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
            let slot = self.tables[table as usize - 1][parcel];
            if slot != 0 {
                let index = slot - 1;
                let block = self.blocks[index as usize];
                if block.content == self.content || self.revalidate(ram, pa, index) {
                    return Some(index);
                }
            }
        }
        self.build(ram, pa, page, parcel)
    }

    /// Compares a block with memory; remembers if nothing changed.
    fn revalidate(&mut self, ram: &Ram, pa: u64, index: u32) -> bool {
        let same = self.same(ram, pa, &self.blocks[index as usize]);
        if same {
            self.blocks[index as usize].content = self.content;
        }
        same
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
        if self.insts.len() + MAX_BLOCK > ARENA {
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
        if len == 0 {
            return None;
        }
        let index = self.blocks.len() as u32;
        self.blocks.push(Block {
            first: first as u32,
            len,
            cost,
            content: self.content,
        });
        if self.pages[page] == 0 {
            self.tables.push(Box::new([0; PARCELS]));
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
