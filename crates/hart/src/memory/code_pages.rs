//! Which words of RAM hold decoded code, and which pages of them were written since the blocks were
//! last compared with memory.
//!
//! TLB entries of such pages do not hit for stores: these take the slow path, which notes the page.
//! A store to decoded code is seen at the end of its block, as if a `fence.i` were executed there,
//! although the architecture does not require that: programs that run on QEMU rely on it. Writes of
//! devices take effect on code with the next `fence.i`, which compares the written pages only.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::address::PageIndex;

/// Blocks of the page are in the code cache.
const CODE: u8 = 1;
/// The page was written since it was last compared.
const WRITTEN: u8 = 2;
/// Some TLB may have an entry that hits for stores.
const WRITABLE: u8 = 4;
/// The page is to be copied before it is written.
const WATCHED: u8 = 8;

/// Code pages of one machine, shared by its harts, which take turns on one host thread.
pub(crate) struct CodePages {
    flags: Vec<AtomicU8>,
    /// Words with instructions of pages that hold code.
    words: Mutex<HashMap<PageIndex, Words>>,
    written: Mutex<Vec<PageIndex>>,
    /// Anything may have been written, by a device.
    anything: AtomicBool,
    /// Number of pages that were added while some TLB entry may have let stores hit.
    version: AtomicU32,
    /// The last of them.
    added: Mutex<Vec<PageIndex>>,
}

/// A set of the 32-bit words of a page.
#[derive(Clone, Copy, Default)]
struct Words([u64; 16]);

impl Words {
    /// The words that `len` bytes from `offset` on are in, as far as they are in the page.
    fn range(offset: usize, len: usize) -> std::ops::RangeInclusive<usize> {
        offset / 4..=(offset + len.max(1) - 1).min(0xFFF) / 4
    }

    fn insert(&mut self, offset: usize, len: usize) {
        for word in Self::range(offset, len) {
            self.0[word / 64] |= 1 << (word % 64);
        }
    }

    fn meet(&self, offset: usize, len: usize) -> bool {
        Self::range(offset, len).any(|word| self.0[word / 64] >> (word % 64) & 1 != 0)
    }
}

/// Maximum number of such pages in the list.
const ADDED: usize = 1024;

impl CodePages {
    pub fn new(pages: usize) -> Self {
        Self {
            flags: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            words: Mutex::default(),
            written: Mutex::default(),
            anything: AtomicBool::new(false),
            version: AtomicU32::new(0),
            added: Mutex::default(),
        }
    }

    /// Changes when harts must search their TLBs for entries of pages whose stores take the slow
    /// path now.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Relaxed)
    }

    /// Whether blocks of `page` are in the code cache.
    #[inline]
    pub fn holds_code(&self, page: PageIndex) -> bool {
        self.flags[page.index()].load(Relaxed) & CODE != 0
    }

    /// Whether stores to `page` take the slow path.
    pub fn stores_noted(&self, page: PageIndex) -> bool {
        self.flags[page.index()].load(Relaxed) & (CODE | WATCHED) != 0
    }

    /// Called before a TLB gets an entry for stores to `page`. Returns whether stores may hit.
    pub fn writable(&self, page: PageIndex) -> bool {
        let flags = self.flags[page.index()].load(Relaxed);
        if flags & (CODE | WATCHED) != 0 {
            return false;
        }
        self.flags[page.index()].store(flags | WRITABLE, Relaxed);
        true
    }

    /// Adds a block of `page` that is in the code cache: `len` bytes from `offset` on.
    pub fn add(&self, page: PageIndex, offset: usize, len: usize) {
        self.words().entry(page).or_default().insert(offset, len);
        if !self.holds_code(page) {
            self.add_page(page, CODE);
        }
    }

    /// Marks `page` to be copied before it is written.
    pub fn watch(&self, page: PageIndex) {
        self.add_page(page, WATCHED);
    }

    /// Marks all pages.
    pub fn watch_all(&self) {
        for flags in &self.flags {
            flags.store(flags.load(Relaxed) & !WRITABLE | WATCHED, Relaxed);
        }
        self.added().clear();
        self.version.fetch_add(1, Relaxed);
    }

    /// Whether `page` is to be copied before it is written.
    #[inline]
    pub fn watched(&self, page: PageIndex) -> bool {
        self.flags[page.index()].load(Relaxed) & WATCHED != 0
    }

    /// Unmarks `page`, which has been copied.
    pub fn unwatch(&self, page: PageIndex) {
        self.flags[page.index()].fetch_and(!WATCHED, Relaxed);
    }

    fn words(&self) -> MutexGuard<'_, HashMap<PageIndex, Words>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn added(&self) -> MutexGuard<'_, Vec<PageIndex>> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes stores to `page` take the slow path from now on.
    fn add_page(&self, page: PageIndex, flag: u8) {
        let flags = self.flags[page.index()].load(Relaxed);
        self.flags[page.index()].store(flags & !WRITABLE | flag, Relaxed);
        if flags & WRITABLE != 0 {
            self.version.fetch_add(1, Relaxed);
            let mut added = self.added();
            if added.len() == ADDED {
                added.clear();
            }
            added.push(page);
        }
    }

    /// Pages whose stores take the slow path since after [`version`](Self::version) was `seen`;
    /// `None` if the list is incomplete.
    pub fn added_since(&self, seen: u32) -> Option<Vec<PageIndex>> {
        let added = self.added();
        let count = self.version().wrapping_sub(seen) as usize;
        let first = added.len().checked_sub(count)?;
        Some(added[first..].to_vec())
    }

    /// Keeps only blocks with these offsets and lengths of `page`.
    pub fn keep(&self, page: PageIndex, blocks: impl Iterator<Item = (usize, usize)>) {
        let mut blocks = blocks.peekable();
        if blocks.peek().is_none() {
            self.remove(page);
            return;
        }
        let mut words = Words::default();
        blocks.for_each(|(offset, len)| words.insert(offset, len));
        self.words().insert(page, words);
    }

    /// Removes all blocks of `page`. TLBs of harts keep their entries until they are updated.
    pub fn remove(&self, page: PageIndex) {
        self.words().remove(&page);
        let flags = self.flags[page.index()].load(Relaxed);
        self.flags[page.index()].store(flags & !CODE | WRITABLE, Relaxed);
    }

    /// Records a store to `len` bytes at `offset` of `page`. Returns whether they contain code.
    #[inline]
    pub fn written(&self, page: PageIndex, offset: usize, len: usize) -> bool {
        let flags = self.flags[page.index()].load(Relaxed);
        if flags & CODE == 0 {
            return false;
        }
        if flags & WRITTEN == 0 {
            self.note(page);
        }
        let words = self.words();
        words
            .get(&page)
            .is_some_and(|words| words.meet(offset, len))
    }

    #[cold]
    fn note(&self, page: PageIndex) {
        self.flags[page.index()].fetch_or(WRITTEN, Relaxed);
        let mut list = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(page);
    }

    pub fn anything_written(&self) {
        self.anything.store(true, Relaxed);
    }

    /// Takes the pages that were written; `None` if any page may have been.
    pub fn take_written(&self) -> Option<Vec<PageIndex>> {
        let mut list = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = std::mem::take(&mut *list);
        for &page in &pages {
            self.flags[page.index()].fetch_and(!WRITTEN, Relaxed);
        }
        (!self.anything.swap(false, Relaxed)).then_some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harts_look_again_at_a_page_that_got_code_back() {
        let pages = CodePages::new(4);
        // One hart can store to the page, then another one executes code in it.
        assert!(pages.writable(PageIndex::new(3)));
        pages.add(PageIndex::new(3), 0, 4);
        let seen = pages.version();
        assert_ne!(seen, 0);
        // The code is gone before the first hart catches up: its entry still lets stores hit.
        pages.remove(PageIndex::new(3));
        assert_eq!(pages.version(), seen);
        pages.add(PageIndex::new(3), 0, 4);
        assert_ne!(pages.version(), seen);
        assert_eq!(pages.added_since(seen), Some(vec![PageIndex::new(3)]));
        assert_eq!(pages.added_since(pages.version()), Some(vec![]));
        for _ in 0..ADDED {
            pages.remove(PageIndex::new(2));
            pages.add(PageIndex::new(2), 0, 4);
        }
        assert_eq!(pages.added_since(seen), None);
    }

    #[test]
    fn stores_beside_code_are_not_stores_to_code() {
        let (pages, page) = (CodePages::new(4), PageIndex::new(1));
        assert!(!pages.written(page, 0, 8), "no code yet");
        pages.add(page, 0x10, 6);
        pages.add(page, 0xFFE, 2);
        assert!(!pages.written(page, 0x8, 8));
        assert!(pages.written(page, 0xC, 8));
        assert!(pages.written(page, 0x14, 1));
        assert!(!pages.written(page, 0x18, 4));
        assert!(pages.written(page, 0xFFC, 4));
        assert_eq!(pages.take_written(), Some(vec![page]));
        pages.remove(page);
        assert!(!pages.written(page, 0x10, 4));
    }
}
