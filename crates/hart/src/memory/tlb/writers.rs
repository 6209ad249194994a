//! Slots of a TLB by which stores to a page of RAM may hit.
//!
//! Once a page contains decoded code, stores to it must take the slow path. Searching the whole TLB
//! for its entries would take longer than decoding the page.

use crate::memory::address::PageIndex;

/// Maximum number of slots recorded for a page.
const SLOTS: usize = 4;
/// In place of the first slot: more slots than can be recorded.
const MANY: u32 = u32::MAX;

/// By page of RAM.
pub(crate) struct Writers {
    /// Slot and 1, or 0.
    pages: Vec<[u32; SLOTS]>,
}

impl Writers {
    /// For so many pages of RAM.
    pub fn new(pages: usize) -> Self {
        Self {
            pages: vec![[0; SLOTS]; pages],
        }
    }

    /// Records a slot by whose entry stores to `page` hit. `live` returns whether a recorded slot
    /// still has such an entry.
    pub fn add(&mut self, page: PageIndex, slot: usize, live: impl Fn(usize) -> bool) {
        let Some(slots) = self.pages.get_mut(page.index()) else {
            return;
        };
        let new = slot as u32 + 1;
        if slots[0] == MANY || slots.contains(&new) {
            return;
        }
        let free = slots.iter().position(|&s| s == 0 || !live(s as usize - 1));
        match free {
            Some(free) => slots[free] = new,
            None => slots[0] = MANY,
        }
    }

    /// The slots; `None` if too many were added.
    pub fn of(&self, page: PageIndex) -> Option<impl Iterator<Item = usize> + use<>> {
        let slots = self.pages.get(page.index()).copied().unwrap_or_default();
        let slots = slots.into_iter().filter(|&slot| slot != 0);
        (self.pages.get(page.index()).is_none_or(|s| s[0] != MANY))
            .then(|| slots.map(|s| s as usize - 1))
    }

    /// Drops the slots: stores to `page` do not hit any more.
    pub fn clear(&mut self, page: PageIndex) {
        if let Some(slots) = self.pages.get_mut(page.index()) {
            *slots = [0; SLOTS];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(writers: &Writers, page: usize) -> Option<Vec<usize>> {
        writers.of(PageIndex::new(page)).map(Iterator::collect)
    }

    #[test]
    fn slots_are_remembered_until_there_are_too_many_in_use() {
        let mut writers = Writers::new(4);
        for slot in [7, 0, 7, 8] {
            writers.add(PageIndex::new(2), slot, |_| true);
        }
        assert_eq!(of(&writers, 2), Some(vec![7, 0, 8]));
        assert_eq!(of(&writers, 1), Some(vec![]));
        writers.add(PageIndex::new(2), 9, |_| true);
        // One of them is not in use any more.
        writers.add(PageIndex::new(2), 10, |slot| slot != 0);
        assert_eq!(of(&writers, 2), Some(vec![7, 10, 8, 9]));
        writers.add(PageIndex::new(2), 11, |_| true);
        assert_eq!(of(&writers, 2), None);
        writers.clear(PageIndex::new(2));
        assert_eq!(of(&writers, 2), Some(vec![]));
        // Outside RAM.
        writers.add(PageIndex::new(4), 1, |_| true);
        assert_eq!(of(&writers, 4), Some(vec![]));
    }
}
