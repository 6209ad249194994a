//! Statistics of a machine's code cache.

use serde::Serialize;

/// Counts of decoding and compiling. They describe the engine, not the result.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct CodeStatistics {
    /// Blocks decoded, including repetitions after they were dropped.
    pub blocks_decoded: u64,
    /// Instructions in them.
    pub instructions_decoded: u64,
    /// Times that all decoded blocks were dropped because there was no room.
    pub decoded_resets: u64,
    /// Blocks compiled, including repetitions after they were dropped.
    pub blocks_compiled: u64,
    /// Regions compiled: loops of blocks, once more.
    pub regions_compiled: u64,
    /// Bytes of code compiled.
    pub code_bytes: u64,
    /// Bytes of code in the buffer now.
    pub code_held: u64,
    /// Capacity of the buffer in bytes.
    pub code_capacity: u64,
    /// Times that all compiled code was dropped, with the decoded blocks or because there was no
    /// room.
    pub code_resets: u64,
}
