//! Counters of the engines. They describe the engine, not the result: they differ between engines,
//! and guests cannot see them.
//!
//! Work inside compiled code (TLB hits, direct jumps) is not counted: that would slow it down.

use serde::{Deserialize, Serialize};

use crate::memory::address::Access;

/// Statistics of a hart.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HartStatistics {
    /// TLB misses of loads, each a page walk.
    pub load_misses: u64,
    /// TLB misses of stores and AMOs, each a page walk.
    pub store_misses: u64,
    /// TLB misses of instruction fetches, each a page walk.
    pub fetch_misses: u64,
    /// Loads and stores that took the slow path although the TLB had their page: `cbo.zero`,
    /// misaligned ones, those that cross pages, stores to pages with code, and in the interpreter
    /// hits of the second way.
    pub slow_hits: u64,
    /// Times that compiled code was entered.
    pub entries: u64,
    /// Instructions that compiled code left to the interpreter, without `csr_helpers`.
    pub helpers: u64,
    /// CSR accesses that compiled code left to the interpreter.
    pub csr_helpers: u64,
    /// Blocks looked up by address because compiled code found none, including cold blocks.
    pub lookups: u64,
    /// Executions of blocks that were interpreted although there is a compiler.
    pub interpreted_blocks: u64,
    /// Traps from V=1 to HS-mode.
    pub guest_exits: u64,
}

impl HartStatistics {
    /// Counts a TLB miss.
    pub(crate) fn miss(&mut self, access: Access) {
        match access {
            Access::Read => self.load_misses += 1,
            Access::Write => self.store_misses += 1,
            Access::Exec => self.fetch_misses += 1,
        }
    }

    /// Adds the statistics of another hart.
    pub fn add(&mut self, other: &Self) {
        let Self {
            load_misses,
            store_misses,
            fetch_misses,
            slow_hits,
            entries,
            helpers,
            csr_helpers,
            lookups,
            interpreted_blocks,
            guest_exits,
        } = other;
        self.load_misses += load_misses;
        self.store_misses += store_misses;
        self.fetch_misses += fetch_misses;
        self.slow_hits += slow_hits;
        self.entries += entries;
        self.helpers += helpers;
        self.csr_helpers += csr_helpers;
        self.lookups += lookups;
        self.interpreted_blocks += interpreted_blocks;
        self.guest_exits += guest_exits;
    }
}
