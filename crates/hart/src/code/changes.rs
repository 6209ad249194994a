//! Pages whose blocks were dropped, for harts that remember blocks to catch up with.

use crate::memory::address::PageIndex;

/// Changed pages that are remembered.
const KEPT: usize = 64;

/// A page whose blocks were dropped.
#[derive(Debug)]
pub(crate) struct Change {
    /// The page.
    pub page: PageIndex,
    /// Where in it blocks were, in bytes from its start.
    pub offsets: Vec<u16>,
}

/// The last changes of a machine.
#[derive(Default)]
pub(crate) struct Changes {
    last: Vec<Change>,
    count: u64,
}

impl Changes {
    /// How many there were ever.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Those after the first `seen`; `None` if they are not all remembered.
    pub fn since(&self, seen: u64) -> Option<&[Change]> {
        let missed = (self.count - seen) as usize;
        let first = self.last.len().checked_sub(missed)?;
        Some(&self.last[first..])
    }

    /// Blocks at `offsets` of `page` were dropped.
    pub fn note(&mut self, page: PageIndex, offsets: Vec<u16>) {
        if self.last.len() == KEPT {
            self.last.clear();
        }
        self.last.push(Change { page, offsets });
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hart_that_missed_too_many_changes_is_told_so() {
        let mut changes = Changes::default();
        for page in 0..KEPT {
            changes.note(PageIndex::new(page), vec![2]);
        }
        let seen = |changes: &Changes, since| changes.since(since).map(<[Change]>::len);
        assert_eq!(seen(&changes, 0), Some(KEPT));
        assert_eq!(seen(&changes, changes.count()), Some(0));
        changes.note(PageIndex::new(0), vec![4]);
        assert_eq!(
            (seen(&changes, 0), seen(&changes, KEPT as u64)),
            (None, Some(1))
        );
    }
}
