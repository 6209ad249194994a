//! Where jumps inside a page go.

use dynasmrt::DynamicLabel;

use crate::{Known, Source};

/// Offset of a page's last parcel. It may begin an instruction across pages at one time and a block
/// at another.
pub(super) const LAST_PARCEL: i32 = 4094;

/// Whether a jump that writes register `x` is a call, and one that reads it a return (unprivileged
/// specification, "Unconditional Jumps").
pub(super) fn is_link(x: u8) -> bool {
    x == 1 || x == 5
}

/// A place to jump to.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Label(DynamicLabel),
    Code(usize),
}

/// Blocks that jumps inside a page can go to directly.
pub(super) struct Targets<'a> {
    /// Page and offset of blocks that are compiled together, in ascending order.
    entries: Vec<((u32, u32), DynamicLabel)>,
    /// Others.
    known: Known<'a>,
}

impl<'a> Targets<'a> {
    /// For `sources` that are compiled together, each with a new label, and `known` code.
    pub fn new(
        sources: &[Source<'_>],
        mut label: impl FnMut() -> DynamicLabel,
        known: Known<'a>,
    ) -> Self {
        let linked = sources.iter().filter(|source| source.crossing.is_none());
        let mut entries: Vec<_> = linked
            .map(|source| ((source.page, source.offset), label()))
            .collect();
        entries.sort_unstable_by_key(|&(place, _)| place);
        Self { entries, known }
    }

    /// Label of a block that is compiled, unless no jump goes to it directly.
    pub fn entry(&self, source: &Source<'_>) -> Option<DynamicLabel> {
        let place = (source.page, source.offset);
        let linked = source.crossing.is_none();
        linked.then(|| self.label(place)).flatten()
    }

    fn label(&self, place: (u32, u32)) -> Option<DynamicLabel> {
        let found = self.entries.binary_search_by_key(&place, |&(at, _)| at);
        found.ok().map(|index| self.entries[index].1)
    }

    /// Where a block goes on that could not begin: at its `start`, unless it is the copy of one
    /// that has code, which takes over where a region ends. No other block that is compiled has
    /// code.
    pub fn again(&self, source: &Source<'_>, start: DynamicLabel) -> Target {
        let linked = source.crossing.is_none();
        let known = linked.then(|| (self.known)(source.page, source.offset));
        let original = known.flatten().map(|code| code.address() as usize);
        original.map_or(Target::Label(start), Target::Code)
    }

    /// Code for an offset of the page of block `from`, if it is known.
    pub fn find(&self, from: &Source<'_>, offset: i32) -> Option<Target> {
        if !(0..4096).contains(&offset) || from.crossing.is_some() {
            return None;
        }
        let place = (from.page, offset as u32);
        match self.label(place) {
            Some(label) => Some(Target::Label(label)),
            None => {
                let code = (self.known)(place.0, place.1)?;
                Some(Target::Code(code.address() as usize))
            }
        }
    }
}
