//! Tagged TLB: an array of two ways per translation context, several contexts resident.
//!
//! A context is everything that determines the meaning of an address: effective mode, SUM, MXR,
//! `satp` or `vsatp`, `hgatp`. A trap, a world switch or a change of V only selects another array;
//! nothing is flushed. A new entry moves that of the first way to the second, which fast paths
//! probe last; a hit of a load or store there exchanges the two, while fetches, which the engines
//! look up more or less often, leave them. Fences drop the contexts or entries they name. The TLB
//! is not architecture: it may hold less than a fence allows, never more.
//!
//! Bits in tags keep fast paths from hitting a valid entry: stores to code, and accesses to watched
//! pages, take the slow path, which costs no virtual time.

mod contexts;
mod marks;
mod saved;
#[cfg(test)]
mod tests;
mod writers;

use std::ptr;

// Fetches have an array of their own: their misses cost no virtual time, while those of data do.
use trapless_isa::page::PAGE_MASK;
use trapless_jit::{DataEntry as Entry, FetchEntry, MARK, TLB_ENTRIES as ENTRIES};

use super::address::{Access, HostAddr, PageIndex};
use super::huge::{Zero, Zeroed};
use contexts::{BOTH_WAYS, CONTEXTS, Contexts, Fenced, Interned, Kind};
pub(crate) use contexts::{IN_CONTEXT, Key, Scope, TlbArray};
pub(crate) use marks::Marks;
pub(crate) use saved::SavedTlb;
use writers::Writers;

/// No virtual page has this tag: its low bits are set. Arrays are made of zeros, so that memory is
/// used only for parts that have had entries. The tag of page 0 is looked for in slot 0, and in the
/// last one by accesses that reach from the last page into page 0: there no empty entry has zeros.
const INVALID: u64 = u64::MAX;

/// In a store tag: stores are permitted but take the slow path, which notes that code was written.
const NOTED: u64 = 1 << 11;
/// Bits of a data tag besides the page.
const FLAGS: u64 = NOTED | MARK;

const EMPTY: Entry = Entry {
    read: INVALID,
    write: INVALID,
    addend: 0,
    window: 0,
};
const EMPTY_FETCH: FetchEntry = FetchEntry {
    exec: INVALID,
    addend: 0,
    table: 0,
    pad: 0,
};

// SAFETY: both consist of integers.
unsafe impl Zero for Entry {}
// SAFETY: as above.
unsafe impl Zero for FetchEntry {}

/// Whether the entry at index `at` with this tag, or with this conjunction of all its tags, is
/// empty.
#[inline(always)]
fn is_empty(at: usize, tag: u64) -> bool {
    tag == INVALID || tag == 0 && at % ENTRIES != 0
}

/// Mapping of a page.
pub(crate) struct Mapping {
    /// Any host address in it.
    pub host: HostAddr,
    /// Its number in RAM.
    pub page: PageIndex,
    /// Kinds of access that may hit, in the order of [`Access`].
    pub permitted: [bool; 3],
    /// Stores take the slow path, which notes them.
    pub noted: bool,
    /// Size in bytes of the mapping that the page is part of.
    pub span: u64,
    /// [`FetchEntry::table`], for fetches.
    pub table: usize,
}

/// Pointers of compiled code to the arrays of a TLB.
pub(crate) struct Arrays {
    /// Array for loads and stores.
    pub data: *mut Entry,
    /// Array that a change of SUM selects instead; null if it is not known.
    pub twin: *mut Entry,
    /// Array for fetches.
    pub fetch: *mut FetchEntry,
}

/// Tagged two-way TLB, one array per context.
pub(crate) struct Tlb {
    entries: Zeroed<Entry>,
    fetches: Zeroed<FetchEntry>,
    contexts: Contexts,
    /// Slots with entries for which stores hit, in either way.
    writers: Writers,
    /// Pages with triggers.
    marks: Marks,
}

impl Tlb {
    /// An empty TLB for RAM of `pages` pages, in huge pages of the host if `busy`.
    pub fn new(busy: bool, pages: usize) -> Self {
        let len = CONTEXTS * BOTH_WAYS;
        let (entries, fetches) = if busy {
            (Zeroed::in_huge_pages(len), Zeroed::in_huge_pages(len))
        } else {
            (Zeroed::new(len), Zeroed::new(len))
        };
        Self {
            entries,
            fetches,
            contexts: Contexts::new(),
            writers: Writers::new(pages),
            marks: Marks::default(),
        }
    }

    /// Entry of the first way that may hold `va` in the context of loads and stores.
    #[inline(always)]
    pub fn data(&self, va: u64) -> &Entry {
        &self.entries[self.contexts.data.slot(va)]
    }

    /// Entry that may hold `va` in the context of fetches.
    #[inline(always)]
    pub fn fetch(&self, va: u64) -> &FetchEntry {
        self.fetch_in(self.contexts.fetch, va)
    }

    #[inline(always)]
    fn fetch_in(&self, array: TlbArray, va: u64) -> &FetchEntry {
        let slot = array.slot(va);
        let first = &self.fetches[slot];
        if first.exec == va & PAGE_MASK {
            first
        } else {
            &self.fetches[slot + ENTRIES]
        }
    }

    /// Index of the entry whose tag, picked by `tag`, is the page of `va`; that of the second way
    /// if neither is.
    fn way(&self, array: TlbArray, va: u64, tag: impl Fn(&Entry) -> u64) -> usize {
        let slot = array.slot(va);
        let first = tag(&self.entries[slot]) & !FLAGS == va & PAGE_MASK;
        if first { slot } else { slot + ENTRIES }
    }

    /// The arrays of the selected contexts, for compiled code. The pointers are valid until the
    /// next call of a method that may change entries.
    #[inline]
    pub fn arrays(&mut self) -> Arrays {
        // No slice may be borrowed in between: that would invalidate the first pointer.
        let (entries, fetches) = (self.entries.as_mut_ptr(), self.fetches.as_mut_ptr());
        Arrays {
            data: entries.wrapping_add(self.contexts.data.start()),
            twin: match self.contexts.twin {
                None => ptr::null_mut(),
                Some(twin) => entries.wrapping_add(twin.start()),
            },
            fetch: fetches.wrapping_add(self.contexts.fetch.start()),
        }
    }

    /// Accounts for `times` changes of SUM by compiled code.
    pub fn sum_changed(&mut self, times: u64) {
        self.contexts.sum_changed(times);
    }

    /// Array of the context of fetches, for [`insert`](Self::insert).
    pub fn fetch_array(&self) -> TlbArray {
        self.contexts.fetch
    }

    /// Selects the contexts of fetches and of loads and stores.
    pub fn select(&mut self, fetch: &Key, data: &Key) {
        let before = self.contexts.data;
        self.contexts.fetch = self.intern(fetch);
        self.contexts.data = if data == fetch {
            self.contexts.fetch
        } else {
            self.intern(data)
        };
        self.contexts.selected_data(before, data);
    }

    /// Array of a context, which becomes resident.
    pub fn intern(&mut self, key: &Key) -> TlbArray {
        match self.contexts.intern(key) {
            Interned::Known(array) => array,
            Interned::New(array) => {
                self.begin(array);
                array
            }
            Interned::Recycled(array) => {
                self.clear(array);
                array
            }
        }
    }

    /// Empties an array.
    fn clear(&mut self, array: TlbArray) {
        self.contexts.drain(array, |kind, at| match kind {
            Kind::Data => self.entries[at] = EMPTY,
            Kind::Fetch => self.fetches[at] = EMPTY_FETCH,
        });
    }

    /// Sets [`FetchEntry::table`] of the page of `va`, which is in the context of fetches.
    #[inline]
    pub fn set_table(&mut self, va: u64, table: usize) {
        let slot = self.contexts.fetch.slot(va);
        let first = self.fetches[slot].exec == va & PAGE_MASK;
        self.fetches[if first { slot } else { slot + ENTRIES }].table = table as u64;
    }

    /// Sets [`FetchEntry::table`] of all entries.
    pub fn set_all_tables(&mut self, table: usize) {
        for at in self.contexts.filled(Kind::Fetch) {
            self.fetches[at].table = table as u64;
        }
    }

    /// Empties both ways of a slot.
    fn clear_slot(&mut self, slot: usize) {
        for way in [slot, slot + ENTRIES] {
            if self.contexts.is_filled(Kind::Data, way) {
                self.entries[way] = EMPTY;
            }
            if self.contexts.is_filled(Kind::Fetch, way) {
                self.fetches[way] = EMPTY_FETCH;
            }
        }
    }

    /// Makes an array of zeros an empty one.
    fn begin(&mut self, array: TlbArray) {
        for slot in [array.start(), array.start() + ENTRIES - 1] {
            for way in [slot, slot + ENTRIES] {
                self.entries[way] = EMPTY;
                self.fetches[way] = EMPTY_FETCH;
            }
        }
    }

    /// Array of the context of loads and stores.
    pub fn data_array(&self) -> TlbArray {
        self.contexts.data
    }

    /// Looks `va` up in the context at `array`. A data hit in the second way exchanges the ways.
    #[inline]
    pub fn lookup(&mut self, array: TlbArray, va: u64, access: Access) -> Option<HostAddr> {
        let tag = |entry: &Entry| match access {
            Access::Read => entry.read & !MARK,
            _ => entry.write & !FLAGS,
        };
        let (found, addend) = if access == Access::Exec {
            let entry = self.fetch_in(array, va);
            (entry.exec, entry.addend)
        } else {
            let (slot, way) = (array.slot(va), self.way(array, va, tag));
            if way != slot && tag(&self.entries[way]) == va & PAGE_MASK {
                self.entries.swap(slot, way);
            }
            let entry = &self.entries[slot];
            (tag(entry), entry.addend)
        };
        (found == va & PAGE_MASK).then(|| HostAddr::of(va, addend))
    }

    /// Lets stores to the page of `va`, which maps `page`, hit again.
    pub fn unnote(&mut self, array: TlbArray, va: u64, page: PageIndex) {
        let way = self.way(array, va, |e| e.write);
        let entry = &mut self.entries[way];
        if !is_empty(way, entry.write) {
            entry.write &= !NOTED;
            self.add_writer(page, array.slot(va));
        }
    }

    /// Records that stores to `page` may hit by the entry at `slot`, or by that of the second way
    /// once it has moved.
    fn add_writer(&mut self, page: PageIndex, slot: usize) {
        let entries = &self.entries;
        let live = |slot: usize| {
            let hits = |e: &Entry| e.write & NOTED == 0 && !is_empty(slot, e.write);
            hits(&entries[slot]) || hits(&entries[slot + ENTRIES])
        };
        self.writers.add(page, slot, live);
    }

    /// Whether stores by the entry for `va`, which permits them, are noted.
    pub fn noted(&self, array: TlbArray, va: u64) -> bool {
        self.entries[self.way(array, va, |e| e.write)].write & NOTED != 0
    }

    /// Installs a translation of the page of `va` for fetches (`Exec`) or for loads and stores.
    pub fn insert(&mut self, array: TlbArray, va: u64, access: Access, mapping: &Mapping) {
        let page = va & PAGE_MASK;
        let tag = |ok: bool| if ok { page } else { INVALID };
        let addend = mapping.host.addend(va);
        let slot = array.slot(va);
        let [read, write, exec] = mapping.permitted.map(tag);
        // A page is in one way only: its old entry is replaced.
        if access == Access::Exec {
            let old = self.fetches[slot];
            if old.exec != page && !is_empty(slot, old.exec) {
                self.fetches[slot + ENTRIES] = old;
                self.contexts.fill(Kind::Fetch, slot + ENTRIES);
            }
            self.fetches[slot] = FetchEntry {
                exec,
                addend,
                table: mapping.table as u64,
                pad: 0,
            };
            self.contexts.fill(Kind::Fetch, slot);
        } else {
            let old = self.entries[slot];
            let of_page = |tag: u64| tag & PAGE_MASK == page;
            let valid = !is_empty(slot, old.read & old.write);
            if valid && !of_page(old.read) && !of_page(old.write) {
                self.entries[slot + ENTRIES] = old;
                self.contexts.fill(Kind::Data, slot + ENTRIES);
            }
            let mut entry = Entry {
                read,
                write: write | if mapping.noted { NOTED } else { 0 },
                addend,
                window: 0,
            };
            self.marks.mark(&mut entry);
            self.entries[slot] = entry;
            self.contexts.fill(Kind::Data, slot);
            if mapping.permitted[1] && !mapping.noted {
                self.add_writer(mapping.page, slot);
            }
        }
        self.contexts.mapped(array, va, mapping.span);
    }

    /// Makes stores to pages of RAM that are to be noted take the slow path: of `pages` those that
    /// still are, or of all pages if `None`. `noted` and `noted_at` tell that of a page and of a
    /// host address.
    pub fn note_stores(
        &mut self,
        pages: Option<&[PageIndex]>,
        noted: impl Fn(PageIndex) -> bool,
        noted_at: impl Fn(HostAddr) -> bool,
    ) {
        let entries = &mut self.entries;
        let mut note = |at: usize| {
            let entry = &mut entries[at];
            let hits = entry.write & NOTED == 0 && !is_empty(at, entry.write);
            if hits && noted_at(HostAddr::of(entry.write, entry.addend)) {
                entry.write |= NOTED;
            }
        };
        for &page in pages.unwrap_or_default() {
            if !noted(page) {
                // The page is no longer to be noted: its entries stay as they are, and in the list.
                continue;
            }
            match self.writers.of(page) {
                None => self.contexts.filled(Kind::Data).for_each(&mut note),
                Some(slots) => slots.for_each(|slot| {
                    note(slot);
                    note(slot + ENTRIES);
                }),
            }
            self.writers.clear(page);
        }
        if pages.is_none() {
            self.contexts.filled(Kind::Data).for_each(note);
        }
    }

    /// Executes a fence: drops whole contexts, or the page of `va` in them.
    pub fn flush(&mut self, scope: Scope, va: Option<u64>) {
        for array in self.contexts.arrays() {
            match self.contexts.fenced(array, scope, va) {
                Fenced::Nothing => {}
                Fenced::Page(va) => self.clear_slot(array.slot(va)),
                Fenced::All => self.clear(array),
            }
        }
    }
}
