//! Places in RAM whose blocks are interpreted: a debugger wants to see an instruction there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::memory::address::PageIndex;
use crate::observe::Triggers;

/// Addresses of instructions, by page and offset.
#[derive(Default)]
pub(super) struct Spared {
    pages: BTreeMap<PageIndex, BTreeSet<u16>>,
    /// Whose they are.
    triggers: Option<Arc<Triggers>>,
    /// Times that it was emptied.
    generation: u32,
}

impl Spared {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Forgets those of other triggers. The number that it returns changes when any are forgotten.
    pub fn belong_to(&mut self, triggers: Option<&Arc<Triggers>>) -> u32 {
        if self.triggers.as_ref().map(Arc::as_ptr) != triggers.map(Arc::as_ptr) {
            self.pages.clear();
            self.triggers = triggers.cloned();
            self.generation += 1;
        }
        self.generation
    }

    /// Adds the instruction at `offset` of a page; `false` if it was there.
    pub fn insert(&mut self, page: PageIndex, offset: u16) -> bool {
        self.pages.entry(page).or_default().insert(offset)
    }

    /// Whether there is one among the `len` bytes at `offset` of a page.
    pub fn meets(&self, page: PageIndex, offset: u32, len: u32) -> bool {
        let offsets = self.pages.get(&page);
        offsets.is_some_and(|offsets| {
            let mut range = offsets.range(offset as u16..(offset + len) as u16);
            range.next().is_some()
        })
    }
}
