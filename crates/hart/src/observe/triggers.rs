//! Triggers of a debugger: instructions at some addresses, and accesses to others.

use trapless_isa::page::{PAGE_MASK, page_offset};

use super::MemoryAccess;

/// Loads or stores of some bytes by virtual address, in any mode and address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataTrigger {
    /// First byte.
    pub addr: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Loads match.
    pub load: bool,
    /// Stores match.
    pub store: bool,
}

impl DataTrigger {
    fn matches(&self, access: &MemoryAccess) -> bool {
        let kind = self.load && access.load || self.store && access.store;
        kind && access.overlaps(self.addr, self.len)
    }

    /// Offsets of its first and last byte in the page at virtual address `page`.
    fn window(&self, page: u64) -> Option<(u64, u64)> {
        let (begin, from) = (self.addr & PAGE_MASK, page_offset(self.addr));
        // Offset of the last byte from the beginning of the first page; saturates if that
        // overflows.
        let Some(last) = from.checked_add(self.len - 1) else {
            return Some((0, !PAGE_MASK));
        };
        let left = last.checked_sub(page.wrapping_sub(begin))?;
        let first = if page == begin { from } else { 0 };
        Some((first, left.min(!PAGE_MASK)))
    }
}

/// Data triggers in a page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DataIn {
    /// Loads.
    pub load: bool,
    /// Stores.
    pub store: bool,
    /// Offsets of the first byte of a trigger, in bits 0..=15, and of the last, above.
    pub window: u64,
}

/// A set of triggers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Triggers {
    /// Addresses of instructions, sorted.
    execute: Vec<u64>,
    data: Vec<DataTrigger>,
}

impl Triggers {
    /// Triggers at the instructions at virtual addresses `execute`, in any mode and address space,
    /// and at accesses. A [`DataTrigger`] without bytes never matches.
    #[must_use]
    pub fn new(mut execute: Vec<u64>, mut data: Vec<DataTrigger>) -> Self {
        execute.sort_unstable();
        data.retain(|trigger| trigger.len != 0);
        Self { execute, data }
    }

    /// Whether an access matches.
    pub(crate) fn touched(&self, access: &MemoryAccess) -> bool {
        self.data.iter().any(|trigger| trigger.matches(access))
    }

    /// Whether there are any at accesses.
    pub(crate) fn has_data(&self) -> bool {
        !self.data.is_empty()
    }

    /// Data triggers in the page at virtual address `page`.
    pub(crate) fn data_in(&self, page: u64) -> DataIn {
        let (mut found, mut first, mut last) = (DataIn::default(), !PAGE_MASK, 0);
        for trigger in &self.data {
            if let Some(window) = trigger.window(page) {
                (first, last) = (first.min(window.0), last.max(window.1));
                found.load |= trigger.load;
                found.store |= trigger.store;
                found.window = first | last << 16;
            }
        }
        found
    }

    /// Addresses of instructions.
    pub(crate) fn execute(&self) -> &[u64] {
        &self.execute
    }

    /// Those in the page at virtual address `page`.
    pub(crate) fn execute_in(&self, page: u64) -> &[u64] {
        let first = self.execute.partition_point(|&at| at < page);
        let rest = &self.execute[first..];
        &rest[..rest.partition_point(|&at| at & PAGE_MASK == page)]
    }

    /// Whether one of them is among the `len` bytes from `pc` on, which no block leaves.
    #[inline]
    pub(crate) fn executes(&self, pc: u64, len: u64) -> bool {
        let first = self.execute.partition_point(|&at| at < pc);
        self.execute.get(first).is_some_and(|at| at - pc < len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(addr: u64, len: u64) -> Triggers {
        let trigger = DataTrigger {
            addr,
            len,
            load: false,
            store: true,
        };
        Triggers::new(Vec::new(), vec![trigger])
    }

    #[test]
    fn a_trigger_is_in_all_pages_of_its_bytes() {
        let pages = |addr, len| {
            let triggers = data(addr, len);
            let all = [0, 0x1000, 0x2000, 0x3000, !0xFFF];
            all.map(|page| {
                let found = triggers.data_in(page);
                found
                    .store
                    .then_some((found.window & 0xFFFF, found.window >> 16))
            })
        };
        let all = Some((0, 0xFFF));
        assert_eq!(pages(0x1000, 1), [None, Some((0, 0)), None, None, None]);
        let last = Some((0xFFF, 0xFFF));
        assert_eq!(pages(0x1FFF, 1), [None, last, None, None, None]);
        assert_eq!(pages(0x1FFF, 2), [None, last, Some((0, 0)), None, None]);
        let beyond = Some((0, 0));
        assert_eq!(pages(0x1FFF, 0x1002), [None, last, all, beyond, None]);
        // Addresses wrap around.
        assert_eq!(pages(u64::MAX, 2), [beyond, None, None, None, last]);
        assert_eq!(pages(0x10, u64::MAX), [all; 5]);
        assert_eq!(pages(0x10, 0), [None; 5]);
    }

    #[test]
    fn instructions_are_found_by_page_and_ahead() {
        let triggers = Triggers::new(vec![0x2002, 0x1FFE, 0x1000], Vec::new());
        assert_eq!(triggers.execute_in(0x1000), [0x1000, 0x1FFE]);
        assert_eq!(triggers.execute_in(0x2000), [0x2002]);
        assert!(triggers.execute_in(0).is_empty());
        assert!(triggers.executes(0x1FF0, 0x10) && !triggers.executes(0x1FF0, 0xE));
        assert!(!triggers.executes(0x2004, 0x100));
    }
}
