//! Places in RAM whose blocks are not compiled, because a debugger observes an instruction there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::memory::address::PageIndex;
use crate::observe::Triggers;

/// Maximum number of pages for each address of a trigger: more than fetch TLBs can have at a time.
/// Further ones are no longer in a TLB.
const PAGES: usize = 4096;

/// Addresses of instructions, by page and offset.
#[derive(Default)]
pub(super) struct Excluded {
    pages: BTreeMap<PageIndex, BTreeSet<u16>>,
    /// The triggers to which they belong.
    triggers: Option<Arc<Triggers>>,
    /// Number of times that it was emptied.
    generation: u32,
}

impl Excluded {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Drops addresses of other triggers, and all if there are many, since pages are reused. The
    /// returned number changes when any are dropped; harts then add theirs again.
    pub fn belong_to(&mut self, triggers: Option<&Arc<Triggers>>) -> u32 {
        let other = self.triggers.as_ref().map(Arc::as_ptr) != triggers.map(Arc::as_ptr);
        let most = triggers.map_or(0, |triggers| PAGES * triggers.execute().len());
        if other || self.pages.len() > most {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ram::Ram;

    const RAM: u64 = 0x8000_0000;

    #[test]
    fn harts_search_again_when_there_are_many() {
        let ram = Ram::new(RAM, 32 << 20).unwrap();
        let triggers = Arc::new(Triggers::new(vec![0x1004], Vec::new()));
        let mut excluded = Excluded::default();
        let page = |number: usize| ram.page_at(RAM + 4096 * number as u64);
        let first = excluded.belong_to(Some(&triggers));
        (0..PAGES).for_each(|number| assert!(excluded.insert(page(number), 4)));
        assert_eq!(excluded.belong_to(Some(&triggers)), first);
        assert!(!excluded.insert(page(0), 4), "still there");
        excluded.insert(page(PAGES), 4);
        assert_ne!(excluded.belong_to(Some(&triggers)), first);
        assert!(excluded.is_empty());
    }
}
