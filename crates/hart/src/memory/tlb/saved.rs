//! A TLB in a checkpoint. Misses of loads and stores cost virtual time, so its content is part of
//! the state.

use serde::{Deserialize, Serialize};

use trapless_isa::page::page_offset;

use super::contexts::{BOTH_WAYS, Contexts, Kind, slot};
use super::{ENTRIES, Entry, FLAGS, FetchEntry, INVALID, Marks, NOTED, Tlb, is_empty};
use crate::memory::address::{HostAddr, PageIndex};
use crate::memory::ram::Ram;

/// A filled entry: its index, its tags, and its addend as if RAM were mapped at address 0.
type Saved<const TAGS: usize> = (u32, [u64; TAGS], u64);

/// Content of a TLB.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SavedTlb {
    contexts: Contexts,
    entries: Vec<Saved<2>>,
    fetches: Vec<Saved<1>>,
}

/// A data tag without the bits for pages with code and watched pages.
fn plain(tag: u64) -> u64 {
    match tag {
        INVALID => INVALID,
        tag => tag & !FLAGS,
    }
}

/// The page of RAM that an entry maps, as a host address, if it is one and this is the place of the
/// entry. Compiled code relies on both.
fn page(ram: &Ram, index: u32, tag: u64, addend: u64) -> Option<HostAddr> {
    let offset = tag.wrapping_add(addend);
    let placed = index as usize % ENTRIES == slot(tag);
    let aligned = page_offset(tag) == 0 && page_offset(offset) == 0;
    (placed && aligned).then(|| ram.host_at(offset)).flatten()
}

impl Tlb {
    /// The content. Marks are of the debugger and not saved.
    pub fn save(&self, ram: &Ram) -> SavedTlb {
        let from_0 = |addend: u64| addend.wrapping_sub(ram.host_base().get() as u64);
        let entries = self.contexts.filled(Kind::Data);
        let entries = entries.map(|at| (at, &self.entries[at]));
        let entries = entries.filter(|(at, e)| !is_empty(*at, e.read & e.write));
        let fetches = self.contexts.filled(Kind::Fetch);
        let fetches = fetches.map(|at| (at, &self.fetches[at]));
        let fetches = fetches.filter(|(at, e)| !is_empty(*at, e.exec));
        // Whether there is decoded code in the page depends on the engine; `restore` determines it.
        SavedTlb {
            contexts: self.contexts.saved(),
            entries: entries
                .map(|(i, e)| (i as u32, [e.read, e.write].map(plain), from_0(e.addend)))
                .collect(),
            fetches: fetches
                .map(|(i, e)| (i as u32, [e.exec], from_0(e.addend)))
                .collect(),
        }
    }

    /// Restores a saved TLB; `table` returns [`FetchEntry::table`] of a page. `None` if an entry
    /// does not map RAM, or is in a wrong slot; the TLB must not be used any more then.
    pub fn restore(
        &mut self,
        saved: SavedTlb,
        ram: &Ram,
        table: impl Fn(PageIndex) -> usize,
    ) -> Option<()> {
        if !saved.contexts.sound() {
            return None;
        }
        // Emptying the arrays is faster than allocating others.
        for array in self.contexts.arrays() {
            self.clear(array);
        }
        self.contexts = saved.contexts;
        for array in self.contexts.arrays() {
            self.begin(array);
        }
        self.marks = Marks::default();
        let base = ram.host_base().get() as u64;
        let end = self.contexts.arrays().len() * BOTH_WAYS;
        for (index, tags, addend) in saved.entries {
            // Flags are set for this machine, whatever the file has.
            let [read, mut write] = tags.map(plain);
            let tags = [read, write].into_iter().filter(|&tag| tag != INVALID);
            let hosts: Option<Vec<_>> = tags.map(|tag| page(ram, index, tag, addend)).collect();
            let hosts = hosts?;
            let page = ram.page_of(*hosts.first()?);
            if ram.page_of(*hosts.last()?) != page {
                return None;
            }
            // Blocks that this machine has decoded before may be in the page.
            if write != INVALID && !ram.code_pages().writable(page) {
                write |= NOTED;
            }
            let addend = addend.wrapping_add(base);
            *self.entries[..end].get_mut(index as usize)? = Entry {
                read,
                write,
                addend,
                window: 0,
            };
            if write & NOTED == 0 {
                let way = index as usize % BOTH_WAYS / ENTRIES;
                self.add_writer(page, index as usize - way * ENTRIES);
            }
            // The engines may exchange the ways.
            let slot = index as usize % BOTH_WAYS % ENTRIES;
            let array = index as usize / BOTH_WAYS * BOTH_WAYS;
            for at in [array + slot, array + slot + ENTRIES] {
                self.contexts.fill(Kind::Data, at);
            }
        }
        for (index, [exec], addend) in saved.fetches {
            let host = page(ram, index, exec, addend)?;
            *self.fetches[..end].get_mut(index as usize)? = FetchEntry {
                exec,
                addend: addend.wrapping_add(base),
                table: table(ram.page_of(host)) as u64,
                pad: 0,
            };
            self.contexts.fill(Kind::Fetch, index as usize);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use trapless_isa::Mode;

    use super::super::{Key, MARK, Mapping};
    use super::*;
    use crate::memory::address::Access;

    const RAM: u64 = 0x8000_0000;
    const VA: u64 = 0x5000;

    /// Tags of an entry that were in a file, when they have been restored. The page is that at
    /// `offset` of RAM.
    fn restored(ram: &Ram, tags: [u64; 2], offset: u64) -> Option<[u64; 2]> {
        let key = Key {
            flags: 0,
            satp: 0,
            hgatp: 0,
            mode: Mode::M,
        };
        let mut tlb = Tlb::new(true, (ram.size() / 4096) as usize);
        tlb.select(&key, &key);
        let mut saved = tlb.save(ram);
        let addend = offset.wrapping_sub(VA);
        saved.entries = vec![(slot(VA) as u32, tags, addend)];
        tlb.restore(saved, ram, |_| 0)?;
        let entry = tlb.data(VA);
        Some([entry.read, entry.write])
    }

    /// Promise: a hart goes back from a moment at which its TLB had more contexts, and goes on.
    #[test]
    fn places_that_are_gone_are_not_looked_at() {
        let ram = Ram::new(RAM, 64 << 20).unwrap();
        let key = |satp| Key {
            flags: 0,
            satp,
            hgatp: 0,
            mode: Mode::HS,
        };
        let mut tlb = Tlb::new(true, (ram.size() / 4096) as usize);
        tlb.select(&key(1), &key(1));
        let saved = tlb.save(&ram);
        tlb.select(&key(2), &key(2));
        let page = ram.page_at(RAM + 0x2000);
        let mapping = Mapping {
            host: ram.host_at(0x2000).unwrap(),
            page,
            permitted: [true, true, false],
            noted: false,
            table: 0,
            span: 4096,
        };
        tlb.insert(tlb.data_array(), VA, Access::Write, &mapping);
        tlb.restore(saved, &ram, |_| 0).unwrap();
        tlb.note_stores(Some(&[page]), |_| true, |_| true);
    }

    #[test]
    fn flags_are_those_of_this_machine() {
        let ram = Ram::new(RAM, 64 << 20).unwrap();
        ram.code_pages().add(ram.page_at(RAM + 0x3000), 0, 4);
        let plain = [VA, VA];
        for tags in [plain, [VA | MARK, VA | FLAGS], [VA, VA | NOTED]] {
            assert_eq!(restored(&ram, tags, 0x2000), Some(plain));
            assert_eq!(restored(&ram, tags, 0x3000), Some([VA, VA | NOTED]), "code");
        }
        let read = [VA, INVALID];
        assert_eq!(restored(&ram, read, 0x3000), Some(read));
        assert_eq!(restored(&ram, plain, 64 << 20), None, "not RAM");
        // The same place in the TLB, but another page.
        let other = VA + 4096 * ENTRIES as u64;
        assert_eq!(restored(&ram, [VA, other], 0x2000), None);
    }
}
