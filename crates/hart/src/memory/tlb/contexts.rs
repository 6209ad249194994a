//! Translation contexts: resident and selected ones, and their replacement.

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use trapless_isa::page::PAGE_SIZE;
use trapless_jit::TLB_ENTRIES as ENTRIES;

/// Contexts kept before the least recently used one is recycled.
pub(super) const CONTEXTS: usize = 16;
/// Number of entries of one context, in both ways.
pub(super) const BOTH_WAYS: usize = 2 * ENTRIES;
/// Ranges with superpages remembered per context; beyond this, every address fence drops the
/// context.
const SUPERPAGES: usize = 16;
/// Minimum size of such a range in bytes: kernels map all of RAM with superpages, far from the
/// pages they fence.
const RANGE: u64 = 1 << 30;

/// Bits of [`Key::flags`].
const SUM: u32 = 1;
const MXR: u32 = 3 << 1;
/// The handler of a user context (Xhcs): its ASID may have been given to another address space.
pub(crate) const IN_CONTEXT: u32 = 1 << 8;

/// Identity of a translation context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

    /// The context of fetches: SUM and MXR affect loads and stores only.
    pub fn for_fetches(&self) -> Self {
        Self {
            flags: self.flags & !(SUM | MXR),
            ..*self
        }
    }

    /// The twin: the same context with the other value of SUM.
    fn twin(&self) -> Self {
        Self {
            flags: self.flags ^ SUM,
            ..*self
        }
    }

    fn sum(&self) -> usize {
        (self.flags & SUM) as usize
    }
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
    /// Whether a context is one of them.
    pub(super) fn names(self, key: &Key) -> bool {
        let v = key.mode.v();
        match self {
            Self::Host(asid) => {
                !v && (key.flags & IN_CONTEXT != 0 || asid.is_none_or(|a| a == key.asid()))
            }
            Self::Guest(vmid, asid) => {
                v && key.vmid() == vmid && asid.is_none_or(|a| a == key.asid())
            }
            Self::GStage(vmid) => v && vmid.is_none_or(|vmid| vmid == key.vmid()),
            Self::All => true,
        }
    }
}

/// Array of a context: index of its first entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TlbArray(usize);

impl TlbArray {
    fn of_context(context: usize) -> Self {
        Self(context * BOTH_WAYS)
    }

    fn context(self) -> usize {
        self.0 / BOTH_WAYS
    }

    /// Index of its first entry.
    #[inline(always)]
    pub(super) fn start(self) -> usize {
        self.0
    }

    /// Index of the entry of the first way that may hold `va`; that of the second way is `ENTRIES`
    /// further.
    #[inline(always)]
    pub(super) fn slot(self, va: u64) -> usize {
        self.0 + slot(va)
    }
}

/// Number of the entry in a way that may hold `va`.
#[inline(always)]
pub(super) fn slot(va: u64) -> usize {
    (va >> 12) as usize & (ENTRIES - 1)
}

/// Kinds of arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Data,
    Fetch,
}

/// Entries of an array that may not be empty, of both ways: a bit for each.
#[derive(Clone)]
pub(super) struct Entries {
    words: [u64; BOTH_WAYS / 64],
    /// Words that are not 0: a bit for each.
    used: u128,
}

const _: () = assert!(BOTH_WAYS / 64 == 128, "a bit for each word");

impl Default for Entries {
    fn default() -> Self {
        Self {
            words: [0; BOTH_WAYS / 64],
            used: 0,
        }
    }
}

impl Entries {
    /// Their numbers, in ascending order.
    fn iter(&self) -> impl Iterator<Item = usize> {
        let words = bits(self.used);
        words.flat_map(|at| {
            let word = bits(self.words[at].into());
            word.map(move |bit| 64 * at + bit)
        })
    }

    /// Takes all out.
    fn drain(&mut self, mut each: impl FnMut(usize)) {
        self.iter().for_each(&mut each);
        for at in bits(std::mem::take(&mut self.used)) {
            self.words[at] = 0;
        }
    }

    fn contain(&self, at: usize) -> bool {
        self.words[at / 64] >> (at % 64) & 1 != 0
    }

    fn add(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
        self.used |= 1 << (at / 64);
    }
}

/// Numbers of the bits that are set.
fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (lowest < 128).then_some(lowest)
    })
}

/// The same of a context.
#[derive(Clone, Default)]
struct Filled {
    data: Entries,
    fetches: Entries,
}

impl Filled {
    fn of(&self, kind: Kind) -> &Entries {
        match kind {
            Kind::Data => &self.data,
            Kind::Fetch => &self.fetches,
        }
    }

    fn add(&mut self, kind: Kind, at: usize) {
        match kind {
            Kind::Data => self.data.add(at),
            Kind::Fetch => self.fetches.add(at),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Context {
    key: Key,
    used: u64,
    /// Virtual ranges (base, mask) in which this context has superpages.
    superpages: Vec<(u64, u64)>,
    /// Its twin, when that was last selected.
    twin: Option<usize>,
    /// Rebuilt from the entries of a checkpoint.
    #[serde(skip)]
    filled: Filled,
}

impl Context {
    fn new(key: Key, used: u64) -> Self {
        Self {
            key,
            used,
            superpages: Vec::new(),
            twin: None,
            filled: Filled::default(),
        }
    }

    fn add_superpage(&mut self, va: u64, span: u64) {
        let mask = !(span.max(RANGE) - 1);
        let range = (va & mask, mask);
        let list = &mut self.superpages;
        if list.len() < SUPERPAGES && !list.contains(&range) {
            list.push(range);
        }
    }

    /// Whether `va` may be in a superpage.
    fn may_hold_superpage(&self, va: u64) -> bool {
        let mut ranges = self.superpages.iter();
        self.superpages.len() >= SUPERPAGES || ranges.any(|(base, mask)| va & mask == *base)
    }
}

/// Where the array of a context comes from.
pub(super) enum Interned {
    /// It was resident.
    Known(TlbArray),
    /// It has a new one, behind all others.
    New(TlbArray),
    /// It has that of a dropped context, whose entries are still to be emptied.
    Recycled(TlbArray),
}

/// The contexts of a TLB.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Contexts {
    list: Vec<Context>,
    clock: u64,
    /// Context that each mode used last with SUM clear and set: nearly always the one searched for.
    latest: [[usize; 2]; Mode::ALL.len()],
    /// Selected for fetches.
    pub fetch: TlbArray,
    /// Selected for loads and stores.
    pub data: TlbArray,
    /// Twin of [`data`](Self::data), if it is known to be resident.
    pub twin: Option<TlbArray>,
}

impl Contexts {
    pub fn new() -> Self {
        Self {
            list: Vec::new(),
            clock: 0,
            latest: [[0; 2]; Mode::ALL.len()],
            fetch: TlbArray(0),
            data: TlbArray(0),
            twin: None,
        }
    }

    /// Arrays of the contexts, and their entries.
    fn iter(&self) -> impl Iterator<Item = (TlbArray, &Filled)> {
        let list = self.list.iter().enumerate();
        list.map(|(i, context)| (TlbArray::of_context(i), &context.filled))
    }

    /// Indices of entries that may not be empty, in ascending order.
    pub fn filled(&self, kind: Kind) -> impl Iterator<Item = usize> {
        self.iter().flat_map(move |(array, filled)| {
            let entries = filled.of(kind).iter();
            entries.map(move |at| array.start() + at)
        })
    }

    /// Takes out the entries of `array` that may not be empty, which the caller empties: `each` is
    /// given their indices.
    pub fn drain(&mut self, array: TlbArray, mut each: impl FnMut(Kind, usize)) {
        let filled = &mut self.list[array.context()].filled;
        filled.data.drain(|at| each(Kind::Data, array.start() + at));
        let fetch = |at| each(Kind::Fetch, array.start() + at);
        filled.fetches.drain(fetch);
    }

    /// Whether the entry at index `at` may not be empty.
    pub fn is_filled(&self, kind: Kind, at: usize) -> bool {
        let filled = &self.list[at / BOTH_WAYS].filled;
        filled.of(kind).contain(at % BOTH_WAYS)
    }

    /// Makes a context resident, and the most recently used one.
    pub fn intern(&mut self, key: &Key) -> Interned {
        self.clock += 1;
        let hint = self.latest[key.mode as usize][key.sum()];
        let known = match self.list.get(hint) {
            Some(context) if context.key == *key => Some(hint),
            _ => self.list.iter().position(|c| c.key == *key),
        };
        if let Some(i) = known {
            self.latest[key.mode as usize][key.sum()] = i;
            self.list[i].used = self.clock;
            return Interned::Known(TlbArray::of_context(i));
        }
        let mut context = Context::new(*key, self.clock);
        if self.list.len() < CONTEXTS {
            self.list.push(context);
            return Interned::New(TlbArray::of_context(self.list.len() - 1));
        }
        let array = self.least_recently_used();
        let old = &mut self.list[array.context()];
        std::mem::swap(&mut old.filled, &mut context.filled);
        *old = context;
        if self.twin == Some(array) {
            self.twin = None;
        }
        Interned::Recycled(array)
    }

    /// Array of the least recently used context that is not selected.
    fn least_recently_used(&self) -> TlbArray {
        let contexts = self.list.iter().enumerate();
        contexts
            .map(|(i, context)| (TlbArray::of_context(i), context.used))
            .filter(|(array, _)| ![self.fetch, self.data].contains(array))
            .min_by_key(|(_, used)| *used)
            .expect("more than two contexts")
            .0
    }

    /// Finds the twin of the newly selected data context, which has `key`; `before` is the array
    /// selected before.
    pub fn selected_data(&mut self, before: TlbArray, key: &Key) {
        let twin = key.twin();
        let (old, new) = (before.context(), self.data.context());
        let is_twin = |list: &[Context], i: usize| list.get(i).is_some_and(|c| c.key == twin);
        if is_twin(&self.list, old) {
            self.list[old].twin = Some(new);
            self.list[new].twin = Some(old);
        }
        let known = self.list[new].twin;
        let known = known.filter(|&i| is_twin(&self.list, i));
        self.twin = known.map(TlbArray::of_context);
    }

    /// Accounts for `times` changes of SUM by compiled code.
    pub fn sum_changed(&mut self, times: u64) {
        let Some(twin) = &mut self.twin else {
            return;
        };
        if times % 2 != 0 {
            std::mem::swap(&mut self.data, twin);
        }
        // As if each change had been a selection, which uses the new context; so the one left is
        // used only if it was selected by an earlier change.
        let arrays = [*twin, self.fetch, self.data];
        for array in &arrays[usize::from(times == 1)..] {
            self.clock += 1;
            self.list[array.context()].used = self.clock;
        }
    }

    /// Notes that the entry at index `at` may not be empty.
    #[inline]
    pub fn fill(&mut self, kind: Kind, at: usize) {
        self.list[at / BOTH_WAYS].filled.add(kind, at % BOTH_WAYS);
    }

    /// Notes that the page of `va` in `array` is part of a mapping of `span` bytes.
    pub fn mapped(&mut self, array: TlbArray, va: u64, span: u64) {
        if span > PAGE_SIZE {
            self.list[array.context()].add_superpage(va, span);
        }
    }

    /// What a fence for all addresses, or for `va`, drops from the context of `array`. On
    /// [`Fenced::All`] the caller empties the entries.
    pub fn fenced(&mut self, array: TlbArray, scope: Scope, va: Option<u64>) -> Fenced {
        let context = &mut self.list[array.context()];
        if !scope.names(&context.key) {
            return Fenced::Nothing;
        }
        match va {
            Some(va) if !context.may_hold_superpage(va) => Fenced::Page(va),
            _ => {
                context.superpages.clear();
                Fenced::All
            }
        }
    }

    /// The state for a checkpoint, without parts that depend on the engine and have no effect:
    /// numbers of selections, and hints for lookups.
    pub fn saved(&self) -> Self {
        let position = |key| self.list.iter().position(|c| c.key == key);
        let mut ages: Vec<u64> = self.list.iter().map(|c| c.used).collect();
        ages.sort_unstable();
        let list = self.list.iter().map(|context| Context {
            used: ages.partition_point(|&age| age < context.used) as u64,
            twin: position(context.key.twin()),
            key: context.key,
            superpages: context.superpages.clone(),
            // `restore` fills it.
            filled: Filled::default(),
        });
        let list: Vec<_> = list.collect();
        let twin = list.get(self.data.context()).and_then(|c| c.twin);
        Self {
            clock: list.len() as u64,
            list,
            latest: <_>::default(),
            twin: twin.map(TlbArray::of_context),
            ..*self
        }
    }

    /// Whether they can have come from [`Contexts`].
    pub fn sound(&self) -> bool {
        let arrays = self.list.len();
        let exists = |array: TlbArray| array.0 % BOTH_WAYS == 0 && array.context() < arrays;
        let selected = [Some(self.fetch), Some(self.data), self.twin];
        (1..=CONTEXTS).contains(&arrays) && selected.into_iter().flatten().all(exists)
    }

    /// Arrays of all contexts.
    pub fn arrays(&self) -> impl ExactSizeIterator<Item = TlbArray> + use<> {
        (0..self.list.len()).map(TlbArray::of_context)
    }
}

/// What a fence drops from a context.
pub(super) enum Fenced {
    /// Nothing: the fence does not name it.
    Nothing,
    /// The page of this address.
    Page(u64),
    /// Everything.
    All,
}

#[cfg(test)]
impl Contexts {
    /// Contexts in the order in which they would be recycled.
    pub fn by_age(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.list.len()).collect();
        order.sort_by_key(|&i| self.list[i].used);
        order
    }
}
