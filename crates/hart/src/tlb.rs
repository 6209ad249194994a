//! Tagged TLB: an array of two ways per translation context, several contexts resident.
//!
//! A context is everything that decides what an address means: effective mode, SUM, MXR, `satp` or
//! `vsatp`, `hgatp`. A trap, a world switch or a change of V only selects another array; nothing is
//! flushed. A new entry moves the first way's to the second, where fast paths look last; what is found there
//! changes places with the first way's. Fences drop the contexts or entries they name. The TLB is not
//! architecture: it may hold less than a fence allows, never more.

use std::ptr;

use trapless_isa::Mode;

use crate::huge;
use crate::writers::Writers;
// Fetches have an array of their own: their misses cost no virtual time, those of data do.
use trapless_jit::{DataEntry as Entry, FetchEntry, TLB_ENTRIES as ENTRIES};

/// Contexts kept before the least recently used one is recycled.
const CONTEXTS: usize = 16;
/// Entries of one context: both ways.
const BOTH_WAYS: usize = 2 * ENTRIES;
/// Filled slots remembered per context; beyond this clearing it touches all.
const FILLED: usize = 1024;
/// Ranges with superpages remembered per context; beyond this every address fence drops all of it.
const SUPERPAGES: usize = 16;
/// Such a range, unless a superpage is larger: kernels map all of RAM with superpages, far from what they fence.
const RANGE: u64 = 1 << 30;

/// No virtual page has this tag: its low bits are set.
const INVALID: u64 = u64::MAX;
const PAGE: u64 = !0xFFF;
/// In a tag for stores: they are permitted, but take the slow path, which notes that code was written.
const NOTED: u64 = 1 << 11;

/// What an access needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store or AMO.
    Write,
    /// Instruction fetch.
    Exec,
}

const EMPTY: Entry = Entry {
    read: INVALID,
    write: INVALID,
    addend: 0,
    pad: 0,
};
const EMPTY_FETCH: FetchEntry = FetchEntry {
    exec: INVALID,
    addend: 0,
    table: 0,
    pad: 0,
};

/// Identity of a translation context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// Effective mode, and SUM, MXR and A/D and PBMT configuration bits as packed by the owner.
    pub flags: u32,
    /// `satp` (V=0) or `vsatp` (V=1); 0 for M-mode.
    pub satp: u64,
    /// `hgatp` if V=1, else 0.
    pub hgatp: u64,
    /// Effective mode.
    pub mode: Mode,
}

impl Key {
    fn asid(&self) -> u16 {
        (self.satp >> 44) as u16
    }

    fn vmid(&self) -> u16 {
        (self.hgatp >> 44) as u16 & 0x3FFF
    }

    /// The context of fetches: SUM and MXR are about loads and stores.
    pub fn for_fetches(&self) -> Self {
        Self {
            flags: self.flags & !(SUM | MXR),
            ..*self
        }
    }

    /// The same with the other value of SUM.
    fn twin(&self) -> Self {
        Self {
            flags: self.flags ^ SUM,
            ..*self
        }
    }
}

/// Bits of [`Key::flags`].
const SUM: u32 = 1;
const MXR: u32 = 3 << 1;
/// In place of an array that is not known.
const NONE: usize = usize::MAX;

struct Context {
    key: Key,
    used: u64,
    /// Virtual ranges (base, mask) in which this context has superpages.
    superpages: Vec<(u64, u64)>,
    /// Context that was the same with the other value of SUM.
    twin: usize,
    /// Slots that may not be empty, at most [`FILLED`] and one.
    filled: Vec<u16>,
}

/// Where a page is.
pub(crate) struct Mapping {
    /// Any host address in it.
    pub host: usize,
    /// Its number in RAM.
    pub page: usize,
    /// Kinds of access that may hit, in the order of [`Access`].
    pub permitted: [bool; 3],
    /// Stores are to be noted.
    pub noted: bool,
    /// Size in bytes of the mapping it is part of.
    pub span: u64,
    /// Of a page that is executed: [`FetchEntry::table`].
    pub table: usize,
}

/// Which contexts a fence names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// V=0 contexts, all or one ASID.
    Host(Option<u16>),
    /// V=1 contexts of one VMID, all or one ASID.
    Guest(u16, Option<u16>),
    /// V=1 contexts, all or one VMID.
    GStage(Option<u16>),
    /// Everything (PMP changes).
    All,
}

impl Scope {
    fn names(self, key: &Key) -> bool {
        let v = key.mode.v();
        match self {
            Self::Host(asid) => !v && asid.is_none_or(|a| a == key.asid()),
            Self::Guest(vmid, asid) => {
                v && key.vmid() == vmid && asid.is_none_or(|a| a == key.asid())
            }
            Self::GStage(vmid) => v && vmid.is_none_or(|vmid| vmid == key.vmid()),
            Self::All => true,
        }
    }
}

/// Where compiled code finds the arrays of a TLB.
pub(crate) struct Arrays {
    /// That for loads and stores.
    pub data: *mut Entry,
    /// That which a change of SUM selects in its place; null if it is not known.
    pub twin: *mut Entry,
    /// That for fetches.
    pub fetch: *mut FetchEntry,
}

/// See the module text.
pub(crate) struct Tlb {
    entries: Vec<Entry>,
    fetches: Vec<FetchEntry>,
    contexts: Vec<Context>,
    /// Slots of the first way with entries that let stores hit, now or before they moved to the second.
    writers: Writers,
    clock: u64,
    /// Context that each mode used last with SUM clear and set: a guess that is nearly always right.
    latest: [[usize; 2]; Mode::ALL.len()],
    fetch: usize,
    data: usize,
    /// Array of the context that a change of SUM selects for loads and stores, or [`NONE`].
    twin: usize,
}

impl Tlb {
    /// An empty one for RAM of so many pages.
    pub fn new(pages: usize) -> Self {
        Self {
            entries: Vec::new(),
            fetches: Vec::new(),
            contexts: Vec::new(),
            writers: Writers::new(pages),
            clock: 0,
            latest: [[0; 2]; Mode::ALL.len()],
            fetch: 0,
            data: 0,
            twin: NONE,
        }
    }

    #[inline(always)]
    fn slot(va: u64) -> usize {
        (va >> 12) as usize & (ENTRIES - 1)
    }

    /// Entry of the first way that may hold `va` in the context of loads and stores.
    #[inline(always)]
    pub fn data(&self, va: u64) -> &Entry {
        &self.entries[self.data + Self::slot(va)]
    }

    /// Entry that may hold `va` in the context of fetches.
    #[inline(always)]
    pub fn fetch(&self, va: u64) -> &FetchEntry {
        self.fetch_in(self.fetch, va)
    }

    #[inline(always)]
    fn fetch_in(&self, array: usize, va: u64) -> &FetchEntry {
        let slot = array + Self::slot(va);
        let first = &self.fetches[slot];
        if first.exec == va & PAGE {
            first
        } else {
            &self.fetches[slot + ENTRIES]
        }
    }

    /// Slot of the way that holds data of the page of `va` with a tag that `tag` picks; the second one if
    /// none does.
    fn way(&self, array: usize, va: u64, tag: impl Fn(&Entry) -> u64) -> usize {
        let slot = array + Self::slot(va);
        let first = tag(&self.entries[slot]) & !NOTED == va & PAGE;
        if first { slot } else { slot + ENTRIES }
    }

    /// The arrays of the selected contexts, for compiled code. They are valid until the next call of another
    /// method that may change entries.
    #[inline]
    pub fn arrays(&mut self) -> Arrays {
        // No slice is borrowed in between: that would end what the first pointer may be used for.
        let (entries, fetches) = (self.entries.as_mut_ptr(), self.fetches.as_mut_ptr());
        Arrays {
            data: entries.wrapping_add(self.data),
            twin: match self.twin {
                NONE => ptr::null_mut(),
                twin => entries.wrapping_add(twin),
            },
            fetch: fetches.wrapping_add(self.fetch),
        }
    }

    /// Compiled code has changed SUM so many times.
    pub fn sum_changed(&mut self, times: u64) {
        if times % 2 != 0 {
            std::mem::swap(&mut self.data, &mut self.twin);
        }
        // As if each had been selected, the last one last; the first change does not use what it leaves.
        let arrays = [self.twin, self.fetch, self.data];
        for array in &arrays[usize::from(times == 1)..] {
            self.clock += 1;
            self.contexts[array / BOTH_WAYS].used = self.clock;
        }
    }

    /// Array of the context of fetches, for [`insert`](Self::insert).
    pub fn fetch_array(&self) -> usize {
        self.fetch
    }

    /// Selects the contexts of fetches and of loads and stores.
    pub fn select(&mut self, fetch: &Key, data: &Key) {
        let before = self.data;
        self.fetch = self.intern(fetch);
        self.data = if data == fetch {
            self.fetch
        } else {
            self.intern(data)
        };
        let (old, new) = (before / BOTH_WAYS, self.data / BOTH_WAYS);
        let twin = data.twin();
        let is_twin = |i: usize| self.contexts.get(i).is_some_and(|c| c.key == twin);
        if is_twin(old) {
            self.contexts[old].twin = new;
            self.contexts[new].twin = old;
        }
        let known = self.contexts[new].twin;
        let is_twin = |i: usize| self.contexts.get(i).is_some_and(|c| c.key == twin);
        self.twin = if is_twin(known) {
            known * BOTH_WAYS
        } else {
            NONE
        };
    }

    /// Offset of the array of a context, made if it is not resident.
    pub fn intern(&mut self, key: &Key) -> usize {
        self.clock += 1;
        let sum = (key.flags & SUM) as usize;
        let hint = self.latest[key.mode as usize][sum];
        let known = match self.contexts.get(hint) {
            Some(context) if context.key == *key => Some(hint),
            _ => self.contexts.iter().position(|c| c.key == *key),
        };
        if let Some(i) = known {
            self.latest[key.mode as usize][sum] = i;
            self.contexts[i].used = self.clock;
            return i * BOTH_WAYS;
        }
        let context = Context {
            key: *key,
            used: self.clock,
            superpages: Vec::new(),
            twin: NONE,
            filled: Vec::new(),
        };
        if self.contexts.len() < CONTEXTS {
            if self.contexts.is_empty() {
                self.entries = huge::reserve(CONTEXTS * BOTH_WAYS);
                self.fetches = huge::reserve(CONTEXTS * BOTH_WAYS);
            }
            self.contexts.push(context);
            let end = self.contexts.len() * BOTH_WAYS;
            self.entries.resize(end, EMPTY);
            self.fetches.resize(end, EMPTY_FETCH);
            return end - BOTH_WAYS;
        }
        let (i, _) = self
            .contexts
            .iter()
            .enumerate()
            .filter(|(i, _)| ![self.fetch, self.data].contains(&(i * BOTH_WAYS)))
            .min_by_key(|(_, c)| c.used)
            .expect("more than one context");
        self.clear(i);
        self.contexts[i] = context;
        if self.twin == i * BOTH_WAYS {
            self.twin = NONE;
        }
        i * BOTH_WAYS
    }

    fn clear(&mut self, context: usize) {
        let array = context * BOTH_WAYS;
        let filled = std::mem::take(&mut self.contexts[context].filled);
        if filled.len() > FILLED {
            self.entries[array..array + BOTH_WAYS].fill(EMPTY);
            self.fetches[array..array + BOTH_WAYS].fill(EMPTY_FETCH);
        } else {
            for &slot in &filled {
                self.clear_slot(array + usize::from(slot));
            }
        }
        self.contexts[context].filled = filled;
        self.contexts[context].filled.clear();
    }

    /// Sets where the code of the page of `va` is found, which is in the context of fetches.
    #[inline]
    pub fn set_table(&mut self, va: u64, table: usize) {
        let slot = self.fetch + Self::slot(va);
        let first = self.fetches[slot].exec == va & PAGE;
        self.fetches[if first { slot } else { slot + ENTRIES }].table = table as u64;
    }

    /// Sets where the code of all pages is found.
    pub fn set_all_tables(&mut self, table: usize) {
        for (i, context) in self.contexts.iter().enumerate() {
            let array = i * BOTH_WAYS;
            if context.filled.len() > FILLED {
                let all = &mut self.fetches[array..array + BOTH_WAYS];
                all.iter_mut().for_each(|entry| entry.table = table as u64);
            } else {
                for &slot in &context.filled {
                    let slot = array + usize::from(slot);
                    self.fetches[slot].table = table as u64;
                    self.fetches[slot + ENTRIES].table = table as u64;
                }
            }
        }
    }

    /// Empties both ways of a slot.
    fn clear_slot(&mut self, slot: usize) {
        for way in [slot, slot + ENTRIES] {
            self.entries[way] = EMPTY;
            self.fetches[way] = EMPTY_FETCH;
        }
    }

    /// Looks `va` up in the context at `array`. Data found in the second way moves to the first.
    #[inline]
    pub fn lookup(&mut self, array: usize, va: u64, access: Access) -> Option<usize> {
        let tag = |entry: &Entry| match access {
            Access::Read => entry.read,
            _ => entry.write & !NOTED,
        };
        let (found, addend) = if access == Access::Exec {
            let entry = self.fetch_in(array, va);
            (entry.exec, entry.addend)
        } else {
            let (slot, way) = (array + Self::slot(va), self.way(array, va, tag));
            if way != slot && tag(&self.entries[way]) == va & PAGE {
                self.entries.swap(slot, way);
            }
            let entry = &self.entries[slot];
            (tag(entry), entry.addend)
        };
        (found == va & PAGE).then(|| va.wrapping_add(addend) as usize)
    }

    /// Lets stores to the page of `va`, which is this page of RAM, hit again.
    pub fn unnote(&mut self, array: usize, va: u64, page: usize) {
        let way = self.way(array, va, |e| e.write);
        let entry = &mut self.entries[way];
        if entry.write != INVALID {
            entry.write &= !NOTED;
            self.add_writer(page, array + Self::slot(va));
        }
    }

    /// Stores to a page of RAM may hit by a slot of the first way, or later by that of the second.
    fn add_writer(&mut self, page: usize, slot: usize) {
        let entries = &self.entries;
        let live = |slot: usize| {
            let writes = |slot: usize| entries.get(slot).is_some_and(|e| e.write & NOTED == 0);
            writes(slot) || writes(slot + ENTRIES)
        };
        self.writers.add(page, slot, live);
    }

    /// Whether the entry for `va`, which permits stores, has them noted.
    pub fn noted(&self, array: usize, va: u64) -> bool {
        self.entries[self.way(array, va, |e| e.write)].write & NOTED != 0
    }

    /// Installs a translation of the page of `va` for fetches (`Exec`) or for loads and stores.
    pub fn insert(&mut self, array: usize, va: u64, access: Access, mapping: &Mapping) {
        let page = va & PAGE;
        let tag = |ok: bool| if ok { page } else { INVALID };
        let addend = (mapping.host as u64 & PAGE).wrapping_sub(page);
        let slot = array + Self::slot(va);
        let [read, write, exec] = mapping.permitted.map(tag);
        // A page is in one way only: one that is there already is replaced.
        if access == Access::Exec {
            let old = self.fetches[slot];
            if old.exec != page && old.exec != INVALID {
                self.fetches[slot + ENTRIES] = old;
            }
            self.fetches[slot] = FetchEntry {
                exec,
                addend,
                table: mapping.table as u64,
                pad: 0,
            };
        } else {
            let old = self.entries[slot];
            let of_page = |tag: u64| tag & PAGE == page;
            let valid = old.read & old.write != INVALID;
            if valid && !of_page(old.read) && !of_page(old.write) {
                self.entries[slot + ENTRIES] = old;
            }
            self.entries[slot] = Entry {
                read,
                write: write | if mapping.noted { NOTED } else { 0 },
                addend,
                pad: 0,
            };
            if mapping.permitted[1] && !mapping.noted {
                self.add_writer(mapping.page, slot);
            }
        }
        let context = &mut self.contexts[array / BOTH_WAYS];
        if context.filled.len() <= FILLED {
            context.filled.push(Self::slot(va) as u16);
        }
        if mapping.span > 4096 {
            let span = mapping.span.max(RANGE);
            let range = (va & !(span - 1), !(span - 1));
            let list = &mut context.superpages;
            if list.len() < SUPERPAGES && !list.contains(&range) {
                list.push(range);
            }
        }
    }

    /// Lets stores to pages of RAM that hold code now take the slow path: to `pages`, or to all that do. `code`
    /// tells of a page's number, and of a host address, whether it does.
    pub fn note_stores(
        &mut self,
        pages: Option<&[u32]>,
        holds_code: impl Fn(usize) -> bool,
        code: impl Fn(usize) -> bool,
    ) {
        let note = |entry: &mut Entry| {
            if entry.write & NOTED == 0 && code(entry.write.wrapping_add(entry.addend) as usize) {
                entry.write |= NOTED;
            }
        };
        for &page in pages.unwrap_or_default() {
            let page = page as usize;
            if !holds_code(page) {
                // Not any more: entries for it stay as they are, and so does what is known of them.
                continue;
            }
            let Some(slots) = self.writers.of(page) else {
                self.entries.iter_mut().for_each(note);
                self.writers.clear(page);
                continue;
            };
            for slot in slots {
                note(&mut self.entries[slot]);
                note(&mut self.entries[slot + ENTRIES]);
            }
            self.writers.clear(page);
        }
        if pages.is_none() {
            self.entries.iter_mut().for_each(note);
        }
    }

    /// Drops what a fence names: whole contexts, or the page of `va` in them.
    pub fn flush(&mut self, scope: Scope, va: Option<u64>) {
        for i in 0..self.contexts.len() {
            if !scope.names(&self.contexts[i].key) {
                continue;
            }
            let list = &mut self.contexts[i].superpages;
            let whole = va.is_none_or(|va| {
                list.len() >= SUPERPAGES || list.iter().any(|(base, mask)| va & mask == *base)
            });
            if whole {
                list.clear();
                self.clear(i);
            } else if let Some(va) = va {
                self.clear_slot(i * BOTH_WAYS + Self::slot(va));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(mode: Mode, satp: u64, hgatp: u64) -> Key {
        Key {
            flags: 0,
            satp,
            hgatp,
            mode,
        }
    }

    fn insert(tlb: &mut Tlb, array: usize, va: u64, host: usize, permitted: [bool; 3], span: u64) {
        let mapping = Mapping {
            host,
            page: 0,
            permitted,
            noted: false,
            span,
            table: 0,
        };
        tlb.insert(array, va, Access::Read, &mapping);
    }

    fn hit(tlb: &mut Tlb, array: usize, va: u64) -> bool {
        tlb.lookup(array, va, Access::Read).is_some()
    }

    #[test]
    fn world_switch_keeps_translations_and_fences_drop_only_what_they_name() {
        let mut tlb = Tlb::new(16);
        let host = tlb.intern(&key(Mode::HS, 8 << 60 | 1 << 44, 0));
        let g1 = tlb.intern(&key(Mode::VS, 8 << 60, 8 << 60 | 1 << 44));
        let g2 = tlb.intern(&key(Mode::VS, 8 << 60, 8 << 60 | 2 << 44));
        for a in [host, g1, g2] {
            insert(&mut tlb, a, 0x5000, 0x7000_0000, [true, false, false], 4096);
        }
        assert!(hit(&mut tlb, host, 0x5123) && tlb.lookup(host, 0x5000, Access::Write).is_none());
        tlb.flush(Scope::Host(Some(2)), None);
        assert!(hit(&mut tlb, host, 0x5000), "another ASID was named");
        tlb.flush(Scope::GStage(Some(1)), None);
        assert!(
            !hit(&mut tlb, g1, 0x5000) && hit(&mut tlb, g2, 0x5000) && hit(&mut tlb, host, 0x5000)
        );
        tlb.flush(Scope::Guest(2, None), Some(0x6000));
        assert!(hit(&mut tlb, g2, 0x5000), "another page was named");
        tlb.flush(Scope::Guest(2, None), Some(0x5000));
        assert!(!hit(&mut tlb, g2, 0x5000));
    }

    #[test]
    fn address_fence_inside_a_superpage_drops_all_of_it() {
        let mut tlb = Tlb::new(16);
        let a = tlb.intern(&key(Mode::HS, 1, 0));
        insert(&mut tlb, a, 0x20_0000, 0x7000_0000, [true; 3], 0x20_0000);
        insert(&mut tlb, a, 0x20_1000, 0x7000_1000, [true; 3], 0x20_0000);
        tlb.flush(Scope::Host(None), Some(0x20_1000));
        assert!(!hit(&mut tlb, a, 0x20_0000));
    }

    #[test]
    fn pages_that_share_a_slot_push_each_other_out_only_when_both_ways_are_taken() {
        let mut tlb = Tlb::new(16);
        let a = tlb.intern(&key(Mode::HS, 1, 0));
        let page = |i: u64| 0x3000 + i * (ENTRIES as u64) * 4096;
        for i in 0..3 {
            insert(
                &mut tlb,
                a,
                page(i),
                0x7000_0000,
                [true, i == 1, false],
                4096,
            );
        }
        assert_eq!(
            [0, 1, 2].map(|i| hit(&mut tlb, a, page(i))),
            [false, true, true]
        );
        assert!(tlb.lookup(a, page(1), Access::Write).is_some());
        // The same page again replaces itself.
        insert(&mut tlb, a, page(2), 0x7000_0000, [true; 3], 4096);
        assert!(hit(&mut tlb, a, page(1)) && tlb.lookup(a, page(2), Access::Write).is_some());
        tlb.flush(Scope::Host(None), Some(page(1)));
        assert!(
            !hit(&mut tlb, a, page(1)),
            "named by the fence, in the second way"
        );
        insert(&mut tlb, a, page(0), 0x7000_0000, [true; 3], 4096);
        tlb.flush(Scope::Host(None), None);
        assert!(!hit(&mut tlb, a, page(0)) && !hit(&mut tlb, a, page(2)));
    }

    #[test]
    fn page_that_is_used_stays_while_others_pass_through_its_slot() {
        for access in [Access::Read, Access::Write] {
            let mut tlb = Tlb::new(16);
            let a = tlb.intern(&key(Mode::HS, 1, 0));
            let page = |i: u64| 0x3000 + i * (ENTRIES as u64) * 4096;
            for i in 0..10 {
                insert(&mut tlb, a, page(i), 0x7000_0000, [true; 3], 4096);
                if i > 0 {
                    assert!(tlb.lookup(a, page(0) + 8, access).is_some());
                    assert!(tlb.data(page(0)).read == page(0), "in the first way");
                    assert!(hit(&mut tlb, a, page(i)) && hit(&mut tlb, a, page(0)));
                }
            }
            // What does not hit moves nothing.
            assert!(tlb.lookup(a, page(1), access).is_none());
            assert!(tlb.data(page(0)).read == page(0) && hit(&mut tlb, a, page(9)));
        }
    }

    #[test]
    fn changes_of_sum_by_compiled_code_are_those_of_the_interpreter() {
        let sum = |on: bool| Key {
            flags: u32::from(on),
            ..key(Mode::HS, 8 << 60, 0)
        };
        // Contexts in the order in which they would be recycled, and the arrays selected.
        let state = |tlb: &Tlb| {
            let mut order: Vec<usize> = (0..tlb.contexts.len()).collect();
            order.sort_by_key(|&i| tlb.contexts[i].used);
            (order, tlb.fetch, tlb.data, tlb.twin)
        };
        for (start, times) in [
            (false, 1),
            (true, 1),
            (false, 2),
            (true, 2),
            (false, 3),
            (true, 5),
        ] {
            let [mut interpreted, mut compiled] = [0, 1].map(|_| {
                let mut tlb = Tlb::new(16);
                for on in [!start, start] {
                    tlb.select(&sum(on).for_fetches(), &sum(on));
                }
                // As an access to a guest's memory does.
                tlb.intern(&key(Mode::VS, 0, 1));
                tlb
            });
            for i in 1..=times {
                let on = start ^ (i % 2 != 0);
                interpreted.select(&sum(on).for_fetches(), &sum(on));
            }
            compiled.sum_changed(times);
            assert_ne!(compiled.twin, NONE);
            assert_eq!(state(&interpreted), state(&compiled), "{start} {times}");
        }
    }

    #[test]
    fn recycled_context_starts_empty() {
        let mut tlb = Tlb::new(16);
        let first = tlb.intern(&key(Mode::HS, 0, 0));
        insert(&mut tlb, first, 0x1000, 0x7000_0000, [true; 3], 4096);
        tlb.select(&key(Mode::HS, 100, 0), &key(Mode::HS, 100, 0));
        for i in 1..40 {
            tlb.intern(&key(Mode::HS, i, 0));
        }
        let again = tlb.intern(&key(Mode::HS, 0, 0));
        assert!(!hit(&mut tlb, again, 0x1000));
    }
}
