//! Which pages of RAM hold decoded code, and which of them were written since the last `fence.i`.
//!
//! TLB entries of such pages do not hit for stores: these take the slow path, which notes the page.
//! So `fence.i` costs nothing unless code was written, and then compares the written pages only.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::address::PageIndex;

/// Blocks of the page are in the code cache.
const CODE: u8 = 1;
/// The page was written since the last `fence.i`.
const WRITTEN: u8 = 2;
/// Some TLB may have an entry that hits for stores.
const WRITABLE: u8 = 4;

/// One machine's, shared by its harts; they take turns on one host thread.
pub(crate) struct CodePages {
    flags: Vec<AtomicU8>,
    written: Mutex<Vec<PageIndex>>,
    /// Anything may have been written, by a device.
    anything: AtomicBool,
    /// Number of pages that came to hold code while some TLB entry may have let stores hit.
    version: AtomicU32,
    /// The last of them.
    added: Mutex<Vec<PageIndex>>,
}

/// Most such pages that are remembered.
const ADDED: usize = 256;

impl CodePages {
    pub fn new(pages: usize) -> Self {
        Self {
            flags: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            written: Mutex::default(),
            anything: AtomicBool::new(false),
            version: AtomicU32::new(0),
            added: Mutex::default(),
        }
    }

    /// Changes when harts must search their TLBs for entries of pages that hold code now.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Relaxed)
    }

    /// Whether blocks of `page` are in the code cache.
    #[inline]
    pub fn holds_code(&self, page: PageIndex) -> bool {
        self.flags[page.index()].load(Relaxed) & CODE != 0
    }

    /// A TLB is about to get an entry for stores to `page`. Returns whether it may hit.
    pub fn writable(&self, page: PageIndex) -> bool {
        let flags = self.flags[page.index()].load(Relaxed);
        if flags & CODE != 0 {
            return false;
        }
        self.flags[page.index()].store(flags | WRITABLE, Relaxed);
        true
    }

    /// Blocks of `page` are in the code cache from now on.
    pub fn add(&self, page: PageIndex) {
        let flags = self.flags[page.index()].load(Relaxed);
        self.flags[page.index()].store(flags & !WRITABLE | CODE, Relaxed);
        if flags & WRITABLE != 0 {
            self.version.fetch_add(1, Relaxed);
            let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
            if added.len() == ADDED {
                added.clear();
            }
            added.push(page);
        }
    }

    /// Pages that came to hold code since [`version`](Self::version) was `seen`; `None` if they are
    /// not all remembered.
    pub fn added_since(&self, seen: u32) -> Option<Vec<PageIndex>> {
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.version().wrapping_sub(seen) as usize;
        let first = added.len().checked_sub(count)?;
        Some(added[first..].to_vec())
    }

    /// No block of `page` is in the code cache any more. Harts that have not caught up leave their
    /// entries as they are.
    pub fn remove(&self, page: PageIndex) {
        let flags = self.flags[page.index()].load(Relaxed);
        self.flags[page.index()].store(flags & !CODE | WRITABLE, Relaxed);
    }

    /// Something was stored to `page`.
    #[inline]
    pub fn written(&self, page: PageIndex) {
        if self.flags[page.index()].load(Relaxed) & (CODE | WRITTEN) == CODE {
            self.note(page);
        }
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
        pages.add(PageIndex::new(3));
        let seen = pages.version();
        assert_ne!(seen, 0);
        // The code is gone before the first hart catches up: its entry still lets stores hit.
        pages.remove(PageIndex::new(3));
        assert_eq!(pages.version(), seen);
        pages.add(PageIndex::new(3));
        assert_ne!(pages.version(), seen);
        assert_eq!(pages.added_since(seen), Some(vec![PageIndex::new(3)]));
        assert_eq!(pages.added_since(pages.version()), Some(vec![]));
        for _ in 0..ADDED {
            pages.remove(PageIndex::new(2));
            pages.add(PageIndex::new(2));
        }
        assert_eq!(pages.added_since(seen), None);
    }
}
