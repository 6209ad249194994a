//! What a machine's code cache did.

use serde::Serialize;

/// Counts of decoding and compiling. They say how a result was reached and are no part of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct CodeStatistics {
    /// Blocks decoded, again after they were dropped included.
    pub blocks_decoded: u64,
    /// Instructions in them.
    pub instructions_decoded: u64,
    /// Times that all decoded blocks were dropped because there was no room.
    pub decoded_resets: u64,
    /// Blocks compiled, again after they were dropped included.
    pub blocks_compiled: u64,
    /// Bytes of code compiled.
    pub code_bytes: u64,
    /// Bytes of code in the buffer now.
    pub code_held: u64,
    /// Most bytes of code that it holds.
    pub code_capacity: u64,
    /// Times that all compiled code was dropped, with the decoded blocks or because there was no room.
    pub code_resets: u64,
}
