//! A short log of pages whose blocks were dropped. Harts read it to update their caches of blocks.

use crate::memory::address::PageIndex;

/// Number of entries.
const KEPT: usize = 64;

/// A page whose blocks were dropped.
#[derive(Debug)]
pub(crate) struct Change {
    /// The page.
    pub page: PageIndex,
    /// Offsets of the blocks that it had, in bytes.
    pub offsets: Vec<u16>,
}

/// The latest changes of a machine's code.
#[derive(Default)]
pub(crate) struct Changes {
    last: Vec<Change>,
    count: u64,
}

impl Changes {
    /// Number of changes so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Changes after the first `seen`; `None` if some of them were dropped from the log.
    pub fn since(&self, seen: u64) -> Option<&[Change]> {
        let missed = (self.count - seen) as usize;
        let first = self.last.len().checked_sub(missed)?;
        Some(&self.last[first..])
    }

    /// Records that blocks at `offsets` of `page` were dropped.
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
    fn hart_that_missed_too_many_changes_is_flagged() {
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
