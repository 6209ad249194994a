//! What the G-stage's page tables held when entries of the TLB were made from them.
//!
//! Entries hold the composition of both stages, so a fence of the G-stage (`hfence.gvma`) cannot find those
//! that it names. But it does nothing if the tables are as they were: a walk would end in the same entries. KVM
//! fences all of a VMID each time it gives a guest a page that the guest did not have.

/// Page-table entries that are remembered; with more of them a fence drops everything.
const ENTRIES: usize = 1024;
/// Page-table entries known to be among them, by hash of their address.
const KNOWN: usize = 512;
/// Most steps of a walk.
const LEVELS: usize = 5;

/// The page-table entries of one walk: physical address and value.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Path {
    steps: [(u64, u64); LEVELS],
    len: usize,
}

impl Path {
    /// Adds a step; what is more than a walk can have is left out.
    pub fn push(&mut self, address: u64, pte: u64) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = (address, pte);
            self.len += 1;
        }
    }

    /// The walk itself has changed the last entry.
    pub fn replace_last(&mut self, pte: u64) {
        if let Some(step) = self.len.checked_sub(1).and_then(|i| self.steps.get_mut(i)) {
            step.1 = pte;
        }
    }

    fn steps(&self) -> &[(u64, u64)] {
        &self.steps[..self.len]
    }
}

/// What the entries of all contexts with one `hgatp` were made from.
pub(crate) struct Sources {
    /// Which.
    pub hgatp: u64,
    entries: Vec<(u64, u64)>,
    known: Vec<(u64, u64)>,
}

impl Sources {
    pub fn new(hgatp: u64) -> Self {
        Self {
            hgatp,
            entries: Vec::new(),
            known: vec![(0, 0); KNOWN],
        }
    }

    /// An entry was made by this walk.
    pub fn add(&mut self, path: &Path) {
        for &step in path.steps() {
            let known = &mut self.known[(step.0 >> 3) as usize % KNOWN];
            // The same address with another value is remembered as well, and differs from memory at the next fence.
            if *known != step && self.entries.len() <= ENTRIES {
                *known = step;
                self.entries.push(step);
            }
        }
    }

    /// Whether all of them still hold what they held, as `holds` tells for an address and a value.
    pub fn unchanged(&self, holds: impl Fn(u64, u64) -> bool) -> bool {
        self.entries.len() <= ENTRIES && self.entries.iter().all(|&(at, pte)| holds(at, pte))
    }

    /// All entries of the TLB with this `hgatp` are gone.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.known.fill((0, 0));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn path(steps: &[(u64, u64)]) -> Path {
        let mut path = Path::default();
        for &(address, pte) in steps {
            path.push(address, pte);
        }
        path
    }

    #[test]
    fn any_changed_step_of_any_walk_is_seen() {
        let mut memory: BTreeMap<u64, u64> = (0..100).map(|i| (i * 8, i + 1)).collect();
        let mut sources = Sources::new(1);
        for i in 0..30 {
            sources.add(&path(&[(0, 1), (8, 2), (16 + 8 * i, 3 + i)]));
        }
        let same = |sources: &Sources, memory: &BTreeMap<u64, u64>| {
            sources.unchanged(|at, pte| memory[&at] == pte)
        };
        assert!(same(&sources, &memory));
        memory.insert(90 * 8, 7);
        assert!(same(&sources, &memory), "no walk came here");
        for at in [0, 8, 16, 16 + 29 * 8] {
            let old = memory.insert(at, 1 << 40).unwrap();
            assert!(!same(&sources, &memory), "{at}");
            memory.insert(at, old);
        }
        // A walk after the change does not hide that an older entry is stale.
        memory.insert(16, 500);
        sources.add(&path(&[(0, 1), (8, 2), (16, 500)]));
        assert!(!same(&sources, &memory));
        sources.clear();
        assert!(same(&sources, &memory));
    }

    #[test]
    fn more_entries_than_are_remembered_count_as_changed() {
        let mut sources = Sources::new(1);
        for i in 0..=ENTRIES as u64 {
            assert!(sources.unchanged(|_, _| true));
            sources.add(&path(&[(i * 8, 1)]));
        }
        assert!(!sources.unchanged(|_, _| true));
    }
}
