//! Counters of our own engine in a row, besides its time.

use trapless_machine::EngineStatistics;

/// A count at a moment of a run.
pub struct Count {
    /// Name in the notes of a session.
    pub name: &'static str,
    /// Its value.
    pub of: fn(&EngineStatistics) -> u64,
}

/// Instructions of all harts.
pub const INSTRUCTIONS: &str = "instructions";
/// Traps from guests to HS-mode.
pub const GUEST_EXITS: &str = "guest exits";
/// Blocks compiled.
pub const BLOCKS_COMPILED: &str = "blocks compiled";

/// Counts that are shown for each 1 000 instructions: name, head of the column, key in the file.
pub const PER_THOUSAND: [(&str, &str, &str); 3] = [
    (
        "TLB misses",
        "TLB misses /1000",
        "tlb_misses_per_1000_instructions",
    ),
    (
        "compiled code entered",
        "entries /1000",
        "compiled_code_entered_per_1000_instructions",
    ),
    ("helpers", "helpers /1000", "helpers_per_1000_instructions"),
];

/// All of them.
pub const COUNTS: [Count; 6] = [
    Count {
        name: INSTRUCTIONS,
        of: |s| s.instructions,
    },
    Count {
        name: GUEST_EXITS,
        of: |s| s.harts.guest_exits,
    },
    Count {
        name: BLOCKS_COMPILED,
        of: |s| s.code.blocks_compiled,
    },
    Count {
        name: PER_THOUSAND[0].0,
        of: EngineStatistics::tlb_misses,
    },
    Count {
        name: PER_THOUSAND[1].0,
        of: |s| s.harts.entries,
    },
    Count {
        name: PER_THOUSAND[2].0,
        of: |s| s.harts.helpers + s.harts.csr_helpers,
    },
];
