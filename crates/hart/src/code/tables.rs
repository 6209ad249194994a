//! Tables of compiled code by physical address, which compiled code reads when it leaves a page.
//!
//! Each page of RAM with compiled blocks has a table with an entry per parcel: the offset in the
//! compiler's buffer of the code that begins there, or 0. Entries of all fetch TLBs point to the
//! tables, so that harts, and programs that map the same page, share them. A table is a cache: on a
//! miss, code is found through the blocks of the page.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use trapless_jit::PARCELS;

use crate::memory::address::PageIndex;
use crate::memory::huge;

type Table = [AtomicU32; PARCELS];

/// The empty table, shared by all pages without compiled blocks.
static NO_CODE: Table = [const { AtomicU32::new(0) }; PARCELS];

/// Tables that are allocated together.
const PIECE: usize = 512;
/// Most such allocations; when all tables are in use, all are emptied.
const PIECES: usize = 32;

/// One machine's tables, shared by its harts, which take turns on one host thread. Tables never
/// move in memory.
pub(crate) struct CodeTables {
    /// Per page of RAM: 1 + number of its table, or 0.
    pages: Vec<AtomicU32>,
    pieces: [OnceLock<Box<[Table]>>; PIECES],
    /// By number of the table, the page that it belongs to.
    used: Mutex<Vec<PageIndex>>,
    version: AtomicU32,
}

impl CodeTables {
    /// For RAM of `pages` pages.
    pub fn new(pages: usize) -> Self {
        Self {
            pages: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            pieces: [const { OnceLock::new() }; PIECES],
            used: Mutex::default(),
            version: AtomicU32::new(0),
        }
    }

    /// Changes when tables are assigned to other pages: addresses of tables from before must not be
    /// used any more.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Relaxed)
    }

    #[inline]
    fn table(&self, page: PageIndex) -> Option<&Table> {
        let number = (self.pages.get(page.index())?.load(Relaxed) as usize).checked_sub(1)?;
        self.pieces[number / PIECE].get()?.get(number % PIECE)
    }

    /// Host address of the table of a page, or of the empty table.
    #[inline]
    pub fn address(&self, page: PageIndex) -> usize {
        self.table(page).unwrap_or(&NO_CODE).as_ptr() as usize
    }

    /// Offset of the code for `offset` of a page.
    #[inline]
    pub fn get(&self, page: PageIndex, offset: u32) -> Option<u32> {
        let code = self.table(page)?[offset as usize / 2].load(Relaxed);
        (code != 0).then_some(code)
    }

    /// Sets the code for `offset` of a page.
    pub fn set(&self, page: PageIndex, offset: u32, code: u32) {
        if self.table(page).is_none() {
            self.assign(page);
        }
        if let Some(table) = self.table(page) {
            table[offset as usize / 2].store(code, Relaxed);
        }
    }

    #[cold]
    fn assign(&self, page: PageIndex) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() == PIECE * PIECES {
            self.forget_pages(&mut used);
        }
        let number = used.len();
        used.push(page);
        let piece = self.pieces[number / PIECE].get_or_init(|| {
            let mut piece: Vec<Table> = huge::reserve(PIECE);
            piece.resize_with(PIECE, || [const { AtomicU32::new(0) }; PARCELS]);
            piece.into_boxed_slice()
        });
        empty(&piece[number % PIECE]);
        self.pages[page.index()].store(number as u32 + 1, Relaxed);
    }

    /// Forgets the code for `offset` of a page.
    pub fn clear(&self, page: PageIndex, offset: u32) {
        if let Some(table) = self.table(page) {
            table[offset as usize / 2].store(0, Relaxed);
        }
    }

    /// Forgets the code of a page.
    pub fn forget(&self, page: PageIndex) {
        if let Some(table) = self.table(page) {
            empty(table);
        }
    }

    /// Forgets all code.
    pub fn forget_all(&self) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.forget_pages(&mut used);
    }

    fn forget_pages(&self, used: &mut Vec<PageIndex>) {
        for page in used.drain(..) {
            self.pages[page.index()].store(0, Relaxed);
        }
        self.version.fetch_add(1, Relaxed);
    }
}

fn empty(table: &Table) {
    table.iter().for_each(|code| code.store(0, Relaxed));
}

/// Address of the empty table.
#[inline]
pub(crate) fn no_code() -> usize {
    NO_CODE.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn page(index: usize) -> PageIndex {
        PageIndex::new(index)
    }

    #[test]
    fn a_page_has_its_own_code_until_that_is_forgotten() {
        let tables = CodeTables::new(8);
        assert_eq!(tables.address(page(3)), no_code());
        tables.set(page(3), 0, 16);
        tables.set(page(3), 4094, 32);
        tables.set(page(4), 4094, 48);
        let (version, address) = (tables.version(), tables.address(page(3)));
        assert_ne!(address, no_code());
        assert_eq!(
            [(3, 0), (3, 2), (3, 4094), (4, 4094), (5, 0)]
                .map(|(number, at)| tables.get(page(number), at)),
            [Some(16), None, Some(32), Some(48), None]
        );
        tables.forget(page(3));
        assert_eq!(
            (tables.get(page(3), 0), tables.address(page(3))),
            (None, address)
        );
        assert_eq!(tables.version(), version);
        tables.forget_all();
        assert_ne!(tables.version(), version);
        assert_eq!(tables.get(page(4), 4094), None);
        // The memory is used again, with nothing of what was there.
        tables.set(page(5), 2, 64);
        assert_eq!(
            (tables.get(page(5), 2), tables.get(page(5), 0)),
            (Some(64), None)
        );
        assert_eq!(
            (tables.address(page(5)), tables.address(page(3))),
            (address, no_code())
        );
    }

    #[test]
    fn tables_for_more_pages_than_there_may_be_replace_all() {
        const MOST: usize = PIECE * PIECES;
        let tables = CodeTables::new(MOST + 1);
        // Only the number of tables counts: their memory would be 128 MiB.
        *tables.used.lock().unwrap() = vec![page(7); MOST];
        tables.pages[7].store(1, Relaxed);
        tables.set(page(MOST), 2, 5);
        assert_eq!((tables.get(page(MOST), 2), tables.version()), (Some(5), 1));
        assert_eq!(tables.address(page(7)), no_code());
    }
}
