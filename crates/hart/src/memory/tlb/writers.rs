//! Slots of a TLB by which stores to a page of RAM may hit.
//!
//! Once a page contains decoded code, stores to it must take the slow path. Searching the whole TLB
//! for its entries would take longer than decoding the page.

use crate::memory::address::PageIndex;

/// Maximum number of slots recorded for a page.
const SLOTS: usize = 4;
/// In place of the first slot: more slots than can be recorded.
const MANY: u32 = u32::MAX;
/// Number of pages whose records are together. A hart stores to few parts of RAM, and each of many
/// harts has records of its own.
const TOGETHER: usize = 16;

/// Slot and 1, or 0.
type Slots = [u32; SLOTS];

/// By page of RAM.
pub(crate) struct Writers {
    /// Number of pages of RAM.
    pages: usize,
    /// Index in `records` and 1, or 0, by number of the page over [`TOGETHER`].
    groups: Vec<u32>,
    records: Vec<[Slots; TOGETHER]>,
}

impl Writers {
    /// For so many pages of RAM.
    pub fn new(pages: usize) -> Self {
        Self {
            pages,
            groups: vec![0; pages.div_ceil(TOGETHER)],
            records: Vec::new(),
        }
    }

    /// Where the slots of `page` are recorded; `None` if no page of its group has a record.
    fn place(&self, page: PageIndex) -> Option<(usize, usize)> {
        let group = *self.groups.get(page.index() / TOGETHER)?;
        Some(((group as usize).checked_sub(1)?, page.index() % TOGETHER))
    }

    /// Records a slot by whose entry stores to `page` hit. `live` returns whether a recorded slot
    /// still has such an entry.
    pub fn add(&mut self, page: PageIndex, slot: usize, live: impl Fn(usize) -> bool) {
        if page.index() >= self.pages {
            return;
        }
        let group = &mut self.groups[page.index() / TOGETHER];
        if *group == 0 {
            self.records.push([[0; SLOTS]; TOGETHER]);
            *group = self.records.len() as u32;
        }
        let slots = &mut self.records[*group as usize - 1][page.index() % TOGETHER];
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
        let place = self.place(page);
        let slots = place.map_or([0; SLOTS], |(group, at)| self.records[group][at]);
        let recorded = slots.into_iter().filter(|&slot| slot != 0);
        (slots[0] != MANY).then(|| recorded.map(|slot| slot as usize - 1))
    }

    /// Drops the slots: stores to `page` do not hit any more.
    pub fn clear(&mut self, page: PageIndex) {
        if let Some((group, at)) = self.place(page) {
            self.records[group][at] = [0; SLOTS];
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
    fn pages_of_one_group_and_of_others_have_slots_of_their_own() {
        let mut writers = Writers::new(41);
        let all = [2, 3, 18, 19, 40];
        for page in all {
            writers.add(PageIndex::new(page), 100 + page, |_| true);
        }
        writers.clear(PageIndex::new(2));
        writers.clear(PageIndex::new(19));
        let slots = all.map(|page| of(&writers, page).unwrap());
        assert_eq!(slots, [vec![], vec![103], vec![118], vec![], vec![140]]);
        // Not one of the 41, but of a group that has a record.
        writers.add(PageIndex::new(41), 1, |_| true);
        assert_eq!(of(&writers, 41), Some(vec![]));
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
