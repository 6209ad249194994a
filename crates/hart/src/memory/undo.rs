//! The way back to what RAM held at a moment: pages are copied before they are first written.
//!
//! Stores to a page without a copy take the slow path, as those to code do. What devices write is
//! not seen: after that there is no way back.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::address::PageIndex;
use super::ram::Ram;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Pages, and what they held.
#[derive(Default)]
struct Copies {
    copies: Vec<(PageIndex, Box<[u8; PAGE]>)>,
    /// Memory for further ones: to ask the host for it takes longer than to copy a page.
    spare: Vec<Box<[u8; PAGE]>>,
}

impl Copies {
    /// Forgets the copies; returns what they are of.
    fn forget(&mut self) -> Vec<PageIndex> {
        let (pages, spare): (_, Vec<_>) = self.copies.drain(..).unzip();
        self.spare.extend(spare);
        pages
    }
}

/// One machine's.
#[derive(Default)]
pub(super) struct Undo {
    copies: Mutex<Copies>,
    /// Copies are made.
    active: AtomicBool,
    /// Something was written without a copy.
    lost: AtomicBool,
}

impl Undo {
    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Anything may have been written.
    pub fn lose(&self) {
        self.lost.store(true, Relaxed);
    }
}

impl Ram {
    /// Makes this the moment that [`undo`](Self::undo) goes back to. Harts must not be running.
    /// From now on the first stores to a page are slower.
    pub fn begin_undo(&self) {
        let undo = self.undo_log();
        let active = undo.active.swap(true, Relaxed);
        let lost = undo.lost.swap(false, Relaxed);
        let copied = undo.copies().forget();
        if active && !lost {
            let pages = copied.into_iter();
            pages.for_each(|page| self.code_pages().watch(page));
        } else {
            self.code_pages().watch_all();
        }
    }

    /// Puts back what RAM held at the moment of [`begin_undo`](Self::begin_undo), which stays the
    /// one to go back to. Harts must not be running, and what their TLBs hold is to be replaced.
    /// `false`: there is no way back, and nothing has changed.
    #[must_use]
    pub fn undo(&self) -> bool {
        let undo = self.undo_log();
        if !undo.active.load(Relaxed) || undo.lost.load(Relaxed) {
            return false;
        }
        let mut copies = undo.copies();
        for (page, then) in &copies.copies {
            let page = *page;
            let host = self.host(self.address_of(page)).as_ptr::<[u8; PAGE]>();
            // SAFETY: the page is in the mapping, which lives as long as `self`; no hart and no
            // device accesses it now.
            let now = unsafe { &mut *host };
            if *now != **then {
                self.code_pages().written(page, 0, PAGE);
                *now = **then;
            }
            self.code_pages().watch(page);
        }
        copies.forget();
        true
    }

    /// `len` bytes at `offset` of `page` are about to be stored to. Returns whether there is code
    /// among them.
    #[inline]
    pub(crate) fn will_store(&self, page: PageIndex, offset: usize, len: usize) -> bool {
        if self.code_pages().watched(page) {
            self.copy(page);
        }
        self.code_pages().written(page, offset, len)
    }

    #[cold]
    fn copy(&self, page: PageIndex) {
        let host = self.host(self.address_of(page)).as_ptr::<[u8; PAGE]>();
        let mut copies = self.undo_log().copies();
        let spare = copies.spare.pop();
        let mut copy = spare.unwrap_or_else(|| Box::new([0; PAGE]));
        // SAFETY: the page is in the mapping, which lives as long as `self`; harts take turns, and
        // this one does not write now.
        copy.copy_from_slice(unsafe { &*host });
        copies.copies.push((page, copy));
        self.code_pages().unwatch(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    fn words(ram: &Ram) -> [u64; 4] {
        std::array::from_fn(|page| ram.load(BASE + (page * PAGE) as u64, 8).unwrap())
    }

    fn write(ram: &Ram, page: usize, word: u64) {
        ram.store(BASE + (page * PAGE) as u64, 8, word).unwrap();
    }

    /// Promise: `undo` brings back what was there at the moment chosen last, as often as one likes.
    #[test]
    fn the_last_moment_comes_back() {
        let ram = Ram::new(BASE, 4 << 20).unwrap();
        assert!(!ram.undo(), "no moment was chosen");
        write(&ram, 0, 1);
        ram.begin_undo();
        for word in 2..4 {
            write(&ram, 0, word);
            write(&ram, 1, word);
            assert!(ram.undo());
            assert_eq!(words(&ram), [1, 0, 0, 0]);
        }
        write(&ram, 1, 5);
        ram.begin_undo();
        write(&ram, 1, 6);
        write(&ram, 2, 6);
        assert!(ram.undo());
        assert_eq!(words(&ram), [1, 5, 0, 0]);
    }

    #[test]
    fn what_a_device_may_have_written_does_not_come_back() {
        let ram = Ram::new(BASE, 4 << 20).unwrap();
        ram.begin_undo();
        write(&ram, 0, 1);
        ram.written_by_device();
        assert!(!ram.undo());
        assert_eq!(words(&ram), [1, 0, 0, 0]);
        ram.begin_undo();
        write(&ram, 0, 2);
        assert!(ram.undo());
        assert_eq!(words(&ram), [1, 0, 0, 0]);
    }
}
