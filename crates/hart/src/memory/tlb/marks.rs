//! Pages that a debugger watches: their entries do not hit in fast paths, except for accesses of
//! compiled code outside the range from the first to the last watched byte.
//!
//! The slow path still finds the entry and costs no virtual time, so that marks have no effect on
//! virtual time.

use std::sync::Arc;

use trapless_isa::page::PAGE_MASK;

use super::contexts::Kind;
use super::{Entry, HostAddr, INVALID, MARK, Tlb, is_empty};
use crate::memory::address::PageIndex;
use crate::observe::Triggers;

/// Marks of pages, by virtual address in every context.
#[derive(Clone, Default)]
pub(crate) struct Marks(Option<Arc<Triggers>>);

impl Marks {
    /// The marks for `triggers`.
    pub fn new(triggers: Option<&Arc<Triggers>>) -> Self {
        Self(triggers.filter(|triggers| triggers.has_data()).cloned())
    }

    /// Sets the mark of a valid entry.
    #[inline]
    pub(super) fn mark(&self, entry: &mut Entry) {
        let Some(triggers) = &self.0 else {
            return;
        };
        let tag = if entry.read == INVALID {
            entry.write
        } else {
            entry.read
        };
        let found = triggers.data_in(tag & PAGE_MASK);
        entry.window = found.window;
        // An AMO probes for a store, and is a load too.
        if found.load {
            entry.read |= MARK;
        }
        if found.load || found.store {
            entry.write |= MARK;
        }
    }
}

/// A tag without its mark.
pub(super) fn unmarked(tag: u64) -> u64 {
    if tag == INVALID { tag } else { tag & !MARK }
}

impl Tlb {
    /// Marks these pages, now and when they are filled, and no others.
    pub fn set_marks(&mut self, marks: Marks) {
        let none = self.marks.0.is_none() && marks.0.is_none();
        self.marks = marks;
        if none {
            return;
        }
        for at in self.contexts.filled(Kind::Data) {
            let entry = &mut self.entries[at];
            if !is_empty(at, entry.read & entry.write) {
                [entry.read, entry.write] = [entry.read, entry.write].map(unmarked);
                self.marks.mark(entry);
            }
        }
    }

    /// Pages of RAM at which fetches find the virtual page that holds `va`, in any context.
    pub fn fetched(&self, va: u64, page_of: impl Fn(HostAddr) -> PageIndex) -> Vec<PageIndex> {
        let slots = self.contexts.arrays().map(|array| array.slot(va));
        let ways = slots.flat_map(|slot| [slot, slot + super::ENTRIES]);
        let entries = ways.map(|way| &self.fetches[way]);
        let found = entries.filter(|entry| entry.exec == va & PAGE_MASK);
        found
            .map(|entry| page_of(HostAddr::of(va, entry.addend)))
            .collect()
    }
}
