//! Undo log of RAM: pages are copied before they are first written after a marked moment.
//!
//! Stores to a page without a copy take the slow path, as those to code do. Writes of devices are
//! not seen: after one, the state cannot be restored.

use std::sync::{Mutex, MutexGuard, PoisonError};

use trapless_isa::page::PAGE_SIZE;

use super::address::PageIndex;

/// Bytes of a page.
pub(super) const PAGE: usize = PAGE_SIZE as usize;

/// Content of a page.
pub(super) type Page = [u8; PAGE];

/// Undo log of one machine.
#[derive(Default)]
pub(super) struct Undo(Mutex<Copies>);

#[derive(Default)]
struct Copies {
    /// Number of the marked moment; 0 if there is none.
    moment: u64,
    /// Whether a page has been written since without a copy.
    lost: bool,
    /// Copies of pages that were written since.
    copies: Vec<(PageIndex, Box<Page>)>,
    /// Memory for further copies: allocating it takes longer than copying a page.
    spare: Vec<Box<Page>>,
}

impl Copies {
    /// Drops the copies; returns their pages.
    fn forget(&mut self) -> Vec<PageIndex> {
        let (pages, spare): (_, Vec<_>) = self.copies.drain(..).unzip();
        self.spare.extend(spare);
        pages
    }
}

impl Undo {
    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that any page may have been written.
    pub fn lose(&self) {
        self.copies().lost = true;
    }

    /// Marks this moment; returns its number, and the pages that have been copied since the last
    /// one and are to be watched again. `None`: all pages.
    pub fn begin(&self) -> (u64, Option<Vec<PageIndex>>) {
        let mut copies = self.copies();
        let first = copies.moment == 0 || copies.lost;
        copies.moment += 1;
        copies.lost = false;
        let pages = copies.forget();
        (copies.moment, (!first).then_some(pages))
    }

    /// Copies `page`, which is about to be written.
    pub fn keep(&self, page: PageIndex, bytes: &Page) {
        let mut copies = self.copies();
        let spare = copies.spare.pop();
        let mut copy = spare.unwrap_or_else(|| Box::new([0; PAGE]));
        copy.copy_from_slice(bytes);
        copies.copies.push((page, copy));
    }

    /// Content at `moment` of pages that were written since, in no order. `None`: it is not the
    /// marked one, or not all written pages have a copy.
    pub fn each<T>(&self, moment: u64, visit: impl Fn(PageIndex, &Page) -> T) -> Option<Vec<T>> {
        let copies = self.copies();
        let whole = copies.moment == moment && !copies.lost;
        whole.then(|| {
            copies
                .copies
                .iter()
                .map(|(page, then)| visit(*page, then))
                .collect()
        })
    }

    /// Restores each page that was written since `moment`, which stays marked. `false`: it is not
    /// the marked one, or not all written pages have a copy; nothing was done.
    pub fn put_back(&self, moment: u64, mut put: impl FnMut(PageIndex, &Page)) -> bool {
        let mut copies = self.copies();
        if copies.moment != moment || copies.lost {
            return false;
        }
        for (page, then) in &copies.copies {
            put(*page, then);
        }
        copies.forget();
        true
    }
}
