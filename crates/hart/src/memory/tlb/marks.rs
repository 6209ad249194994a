//! Pages that a debugger watches: their entries do not hit in fast paths.
//!
//! The slow path finds the entry all the same and costs no virtual time, so that a marked page is
//! as fast as any other for whoever looks at virtual time.

use std::sync::Arc;

use super::{Entry, HostAddr, INVALID, MARKED, PAGE, Tlb};
use crate::memory::address::PageIndex;
use crate::observe::Triggers;

/// Marks of pages, by virtual address in every context.
#[derive(Clone, Default)]
pub(crate) struct Marks(Option<Arc<Triggers>>);

impl Marks {
    /// Those that `triggers` need.
    pub fn new(triggers: Option<&Arc<Triggers>>) -> Self {
        Self(triggers.filter(|triggers| triggers.has_data()).cloned())
    }

    /// What the tags for loads and for stores of the page at virtual address `page` have besides
    /// the page.
    #[inline]
    pub(super) fn of(&self, page: u64) -> [u64; 2] {
        let Some(triggers) = &self.0 else {
            return [0; 2];
        };
        let (load, store) = triggers.data_in(page);
        // An AMO probes for a store, and is a load too.
        [load, load || store].map(|marked| if marked { MARKED } else { 0 })
    }
}

/// A tag without its mark.
pub(super) fn unmarked(tag: u64) -> u64 {
    if tag == INVALID { tag } else { tag & !MARKED }
}

impl Tlb {
    /// Marks these pages, now and when they are filled, and no others.
    pub fn set_marks(&mut self, marks: Marks) {
        let none = self.marks.0.is_none() && marks.0.is_none();
        self.marks = marks;
        if none {
            return;
        }
        for Entry { read, write, .. } in &mut self.entries {
            if *read & *write == INVALID {
                continue;
            }
            let page = if *read == INVALID { *write } else { *read } & PAGE;
            let [mark_read, mark_write] = self.marks.of(page);
            *read = unmarked(*read) | mark_read;
            *write = unmarked(*write) | mark_write;
        }
    }

    /// Pages of RAM at which fetches find the virtual page that holds `va`, in any context.
    pub fn fetched(&self, va: u64, page_of: impl Fn(HostAddr) -> PageIndex) -> Vec<PageIndex> {
        let slots = self.contexts.arrays().map(|array| array.slot(va));
        let ways = slots.flat_map(|slot| [slot, slot + super::ENTRIES]);
        let entries = ways.map(|way| &self.fetches[way]);
        let found = entries.filter(|entry| entry.exec == va & PAGE);
        found
            .map(|entry| page_of(HostAddr::of(va, entry.addend)))
            .collect()
    }
}
