//! All doorbell pages (Xvei) of the guest whose page tables a hart has, for debuggers.

use trapless_isa::Priv;
use trapless_isa::csr::envcfg;
use trapless_isa::page::{PAGE_SHIFT, PPN};

use super::address::Access;
use super::walk::{
    NOT_IN_POINTERS, PTE_N, PTE_R, PTE_RESERVED, PTE_TYPE, PTE_TYPE_DOORBELL, PTE_X, levels,
    target, valid,
};
use crate::hart::Hart;

/// Maximum number of tables that are searched: those of 128 GiB of pages. Software can make tables
/// that refer to each other in a cycle.
const TABLES: usize = 1 << 16;
/// Maximum number of pages.
const PAGES: usize = 1 << 10;
/// Entries of a table; the root has four times as many.
const ENTRIES: u64 = 512;

/// A page of a guest whose leaf is of type `DOORBELL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoorbellPage {
    /// Guest physical address.
    pub gpa: u64,
    /// Physical address of the page that describes the doorbells.
    pub page: u64,
}

/// The doorbell pages that a hart's `hgatp` leads to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DoorbellPages {
    /// By guest physical address.
    pub pages: Vec<DoorbellPage>,
    /// Whether the search stopped early, after 65 536 tables or 1024 pages.
    pub more: bool,
}

impl Hart {
    /// The doorbell pages of the guest that `hgatp` names; none on harts without Xvei. No side
    /// effects: no TLB entry, no accessed bit, no virtual time.
    #[must_use]
    pub fn doorbell_pages(&self) -> DoorbellPages {
        let mut found = DoorbellPages::default();
        let atp = self.csr.hgatp;
        let levels = levels(atp);
        if !self.config.extensions.xvei || levels == 0 {
            return found;
        }
        let root = (atp & PPN & !3) << PAGE_SHIFT;
        // Tables to search: address, level, first guest physical address.
        let mut tables = vec![(root, levels - 1, 0)];
        let mut searched = 0;
        while let Some((table, level, first)) = tables.pop() {
            if searched == TABLES || found.pages.len() >= PAGES {
                found.more = true;
                break;
            }
            searched += 1;
            let entries = if level + 1 == levels {
                4 * ENTRIES
            } else {
                ENTRIES
            };
            let below = tables.len();
            for index in 0..entries {
                let gpa = first | index << (PAGE_SHIFT + 9 * level);
                let Some(pte) = self.doorbell_pte(table + index * 8) else {
                    continue;
                };
                let at = target(pte);
                if pte & (PTE_R | PTE_X) != 0 {
                    if level == 0 && pte & PTE_TYPE == PTE_TYPE_DOORBELL && pte & PTE_N == 0 {
                        found.pages.push(DoorbellPage { gpa, page: at });
                    }
                } else if level != 0 && pte & NOT_IN_POINTERS == 0 {
                    tables.push((at, level - 1, gpa));
                }
            }
            // The lowest addresses first.
            tables[below..].reverse();
        }
        found
    }

    /// A valid entry of a G-stage table.
    fn doorbell_pte(&self, addr: u64) -> Option<u64> {
        let readable = self.csr.pmp.permits(addr, 8, Priv::S, Access::Read);
        let pte = readable.then(|| self.ram.load(addr, 8))??;
        let pbmt = self.csr.menvcfg & envcfg::PBMTE != 0;
        valid(pte, PTE_RESERVED & !PTE_TYPE, pbmt).then_some(pte)
    }
}
