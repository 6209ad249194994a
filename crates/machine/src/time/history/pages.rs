//! Versions of RAM: for each page, its content from one snapshot on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trapless_hart::Ram;
use trapless_isa::page::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress};

/// Bytes of a page.
const PAGE: usize = PAGE_SIZE as usize;
/// Pages read at a time.
const PIECE: usize = 512;

type Page = [u8; PAGE];

static ZERO: Page = [0; PAGE];

/// Content of a page from a snapshot on, until the next version.
struct Version {
    /// Time of the snapshot in cycles.
    from: u64,
    /// `None` if all bytes are zero.
    bytes: Option<Arc<Page>>,
}

/// All versions of all pages. A snapshot is named by its time.
#[derive(Default)]
pub(super) struct Pages {
    versions: BTreeMap<u32, Vec<Version>>,
    /// Number of stored pages.
    kept: usize,
}

/// Index of the version that is valid at `time`.
fn at(versions: &[Version], time: u64) -> Option<usize> {
    versions
        .partition_point(|version| version.from <= time)
        .checked_sub(1)
}

fn bytes(versions: Option<&Vec<Version>>, time: u64) -> Option<&Arc<Page>> {
    let versions = versions?;
    versions[at(versions, time)?].bytes.as_ref()
}

impl Pages {
    /// Size in memory in bytes.
    pub fn size(&self) -> u64 {
        (self.kept * PAGE) as u64
    }

    /// Stores the content of RAM at `time`. `next` is the time of the first snapshot after it.
    pub fn keep(&mut self, ram: &Ram, time: u64, next: Option<u64>) {
        each_page(ram, &BTreeSet::new(), |number, now| {
            let old = self.versions.get(&number);
            let before = bytes(old, time).cloned();
            if *now == *before.as_deref().unwrap_or(&ZERO) {
                return None;
            }
            let new = (*now != ZERO).then(|| Arc::new(*now));
            self.kept += usize::from(new.is_some());
            let versions = self.versions.entry(number).or_default();
            let place = versions.partition_point(|version| version.from < time);
            let follows = versions.get(place).map(|version| version.from);
            versions.insert(
                place,
                Version {
                    from: time,
                    bytes: new,
                },
            );
            // The next snapshot shared the version before.
            if let Some(next) = next.filter(|&next| follows.is_none_or(|from| from > next)) {
                let shared = Version {
                    from: next,
                    bytes: before,
                };
                versions.insert(place + 1, shared);
            }
            None
        });
    }

    /// Restores RAM to its content at `time`.
    pub fn put_back(&self, ram: &Ram, time: u64) {
        let known = self.versions.keys().copied().collect();
        each_page(ram, &known, |number, now| {
            let then = bytes(self.versions.get(&number), time);
            let then = then.map_or(&ZERO, |page| &**page);
            (*now != *then).then_some(then)
        });
    }

    /// Drops the snapshot at `time`; `next` is the time of the one after it.
    pub fn forget(&mut self, time: u64, next: Option<u64>) {
        let kept = &mut self.kept;
        self.versions.retain(|_, versions| {
            let Some(place) = at(versions, time).filter(|&place| versions[place].from == time)
            else {
                return true;
            };
            let after = versions.get(place + 1).map(|version| version.from);
            match next {
                Some(next) if after.is_none_or(|from| from > next) => versions[place].from = next,
                _ => {
                    let old = versions.remove(place);
                    let last = old.bytes.is_some_and(|page| Arc::strong_count(&page) == 1);
                    *kept -= usize::from(last);
                }
            }
            !versions.is_empty()
        });
    }
}

/// Calls `look` for each page that may be non-zero, and for those in `also`; what it returns is
/// written to the page.
fn each_page<'p>(
    ram: &Ram,
    also: &BTreeSet<u32>,
    mut look: impl FnMut(u32, &Page) -> Option<&'p Page>,
) {
    let mut piece = vec![0; PIECE * PAGE];
    let populated = ram.populated();
    let memory = ram.guest_memory();
    let mut range_at = |first: usize, count: usize| {
        let bytes = &mut piece[..count * PAGE];
        let address = |page: usize| GuestAddress(ram.base() + (page * PAGE) as u64);
        memory
            .read_slice(bytes, address(first))
            .expect("pages of RAM are in RAM");
        for (index, page) in bytes.as_chunks::<PAGE>().0.iter().enumerate() {
            if let Some(then) = look((first + index) as u32, page) {
                memory
                    .write_slice(then, address(first + index))
                    .expect("pages of RAM are in RAM");
            }
        }
    };
    let mut end = 0;
    for range in populated {
        let between = also.range(end as u32..range.start as u32);
        between.for_each(|&page| range_at(page as usize, 1));
        for first in range.clone().step_by(PIECE) {
            range_at(first, PIECE.min(range.end - first));
        }
        end = range.end;
    }
    also.range(end as u32..)
        .for_each(|&page| range_at(page as usize, 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x8000_0000;

    /// The first words of four pages.
    fn words(ram: &Ram) -> [u64; 4] {
        std::array::from_fn(|page| ram.load(BASE + (page * PAGE) as u64, 8).unwrap())
    }

    fn write(ram: &Ram, words: [u64; 4]) {
        for (page, word) in words.into_iter().enumerate() {
            ram.store(BASE + (page * PAGE) as u64, 8, word);
        }
    }

    /// Promise: whatever was kept, between what or before, comes back, until it is forgotten.
    #[test]
    fn each_snapshot_comes_back() {
        let ram = Ram::new(BASE, 4 << 20).unwrap();
        let states = [
            (10, [1, 0, 0, 7]),
            (20, [2, 0, 5, 7]),
            (40, [2, 3, 0, 7]),
            (30, [1, 9, 5, 0]),
            (35, [1, 9, 6, 0]),
            (50, [0, 0, 0, 0]),
        ];
        let mut pages = Pages::default();
        let mut times: Vec<u64> = Vec::new();
        let next = |times: &[u64], time| times.iter().copied().filter(|&t| t > time).min();
        for (time, state) in states {
            write(&ram, state);
            pages.keep(&ram, time, next(&times, time));
            times.push(time);
        }
        for gone in [None, Some(20), Some(35), Some(50), Some(10)] {
            if let Some(gone) = gone {
                times.retain(|&time| time != gone);
                pages.forget(gone, next(&times, gone));
            }
            for (time, state) in states.into_iter().filter(|(time, _)| times.contains(time)) {
                write(&ram, [4; 4]);
                pages.put_back(&ram, time);
                assert_eq!(words(&ram), state, "{time} without {gone:?}");
            }
        }
        pages.forget(30, Some(40));
        pages.forget(40, None);
        assert!(pages.versions.is_empty());
        assert_eq!(pages.size(), 0);
    }
}
