//! Caches of one hart of the machine's code, and how they are updated after changes.

use std::sync::Arc;

use trapless_jit::Code;

use super::cache::CodeCache;
use super::jump_cache::JumpCache;
use super::tables::{CodeTables, no_code};
use crate::memory::address::{HostAddr, PageIndex};
use crate::memory::ram::Ram;
use crate::memory::tlb::Tlb;

/// Jump cache and code tables of one hart, with the versions they are up to date with.
pub(crate) struct CodeView {
    /// Blocks by virtual program counter.
    pub jumps: JumpCache,
    /// [`CodePages::version`](crate::memory::code_pages::CodePages::version) that the TLB is up to
    /// date with.
    stores: u32,
    /// [`CodeCache::changes`] that the jump cache is up to date with.
    changes: u64,
    /// The tables that entries of the fetch TLB point to, and their version.
    tables: Option<Arc<CodeTables>>,
    tables_version: u32,
    /// See [`keep`](Self::keep).
    kept: Option<(Code, usize)>,
}

impl CodeView {
    /// An empty view.
    pub fn new() -> Self {
        Self {
            jumps: JumpCache::new(),
            stores: 0,
            changes: 0,
            tables: None,
            tables_version: 0,
            kept: None,
        }
    }

    /// Keeps the code at which a turn of the hart at address `hart` ends.
    #[inline]
    pub fn keep(&mut self, target: Code, hart: usize) {
        self.kept = Some((target, hart));
    }

    /// The hart does not go on there.
    #[inline]
    pub fn forget_kept(&mut self) {
        self.kept = None;
    }

    /// The code at which the last turn ended, unless it was dropped since, or the hart was moved.
    /// Returns it once.
    #[inline]
    pub fn take_kept(&mut self, hart: usize) -> Option<Code> {
        let (target, at) = self.kept.take()?;
        (at == hart).then_some(target)
    }

    /// Address of the table of code for a page of RAM.
    pub fn table(&self, page: PageIndex) -> usize {
        let tables = self.tables.as_ref();
        tables.map_or_else(no_code, |tables| tables.address(page))
    }

    /// [`CodeTables::version`] of the tables that entries of the fetch TLB point to.
    pub fn tables_version(&self) -> u32 {
        self.tables_version
    }

    /// If tables were assigned to other pages, points all entries of the fetch TLB to the empty
    /// table and returns the base address of compiled code.
    #[inline]
    pub fn renew_tables(&mut self, code: &CodeCache, tlb: &mut Tlb) -> Option<u64> {
        let compiled = code.compiled()?;
        let (tables, version) = (&compiled.tables, compiled.tables.version());
        let known = self.tables.as_ref();
        let same = known.is_some_and(|known| Arc::ptr_eq(known, tables));
        if same && self.tables_version == version {
            return None;
        }
        self.tables = Some(tables.clone());
        self.tables_version = version;
        // It may have been dropped, or be of another compiler.
        self.kept = None;
        tlb.set_all_tables(no_code());
        Some(compiled.jit.base())
    }

    /// Forgets blocks in pages whose code was dropped since the last call.
    #[inline]
    pub fn forget_changed(&mut self, code: &CodeCache, ram: &Ram) {
        if code.changes() != self.changes {
            self.kept = None;
            self.forget_pages(code, ram);
            self.changes = code.changes();
        }
    }

    #[cold]
    fn forget_pages(&mut self, code: &CodeCache, ram: &Ram) {
        let Some(changes) = code.changed_since(self.changes) else {
            self.jumps.forget_all();
            return;
        };
        for change in changes {
            let page = ram.host(ram.address_of(change.page));
            self.jumps.forget(&change.offsets, page);
        }
    }

    /// Makes stores to pages that have contained code, or have been watched, since the last call
    /// take the slow path.
    #[inline]
    pub fn note_stores(&mut self, ram: &Ram, tlb: &mut Tlb) {
        let version = ram.code_pages().version();
        if version != self.stores {
            let pages = ram.code_pages().added_since(self.stores);
            self.stores = version;
            let noted = |page: PageIndex| ram.code_pages().stores_noted(page);
            let noted_at = |host: HostAddr| ram.holds(host) && noted(ram.page_of(host));
            tlb.note_stores(pages.as_deref(), noted, noted_at);
        }
    }
}
