//! State of a hart's triggers; `triggered` has the rules.

use std::sync::Arc;

use trapless_isa::inst::Inst;
use trapless_isa::page::PAGE_MASK;

use crate::memory::address::PageIndex;
use crate::observe::{MemoryAccess, Triggers};

/// Triggers of a hart, and matches.
#[derive(Default)]
pub(crate) struct TriggerState {
    /// The triggers for which pages are marked in the TLB.
    pub(super) set: Option<Arc<Triggers>>,
    /// Of the code cache's excluded places, when the fetch TLB was searched for them.
    pub(super) generation: u32,
    /// Whether they are checked: not while the instruction is observed anyway.
    pub(super) armed: bool,
    /// Whether the current instruction makes an access that matches.
    pub(super) hit: bool,
    /// Left before an instruction that matches, with this limit for blocks before.
    pub(super) paused: Option<u64>,
    /// That instruction and the rest of its block.
    pub(super) rest: Vec<Inst>,
    /// Pages with triggering addresses, virtual and physical, that came to the fetch TLB.
    pub(super) fetched: Vec<(u64, PageIndex)>,
}

impl TriggerState {
    /// Whether the hart was left before an instruction that matches.
    #[inline]
    pub fn paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether one of the `len` bytes at `pc` has the address of a trigger.
    #[inline]
    pub(super) fn ahead(&self, pc: u64, len: u64) -> bool {
        self.armed && self.set.as_ref().is_some_and(|set| set.executes(pc, len))
    }

    /// The virtual page that holds `va` has come to the fetch TLB.
    pub fn fetched(&mut self, va: u64, page: PageIndex) {
        let set = self.set.as_ref();
        if set.is_some_and(|set| !set.execute_in(va & PAGE_MASK).is_empty()) {
            self.fetched.push((va & PAGE_MASK, page));
        }
    }

    pub(super) fn touched(&self, access: &MemoryAccess) -> bool {
        self.set.as_ref().is_some_and(|set| set.touched(access))
    }
}
