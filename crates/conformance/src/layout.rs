//! Memory of a program, by offsets from the base of RAM.
//!
//! ```text
//! 00_0000  code
//! 10_0000  contexts of harts, 4 KiB each
//! 11_0000  tohost, fromhost, signature
//! 12_0000  words that programs use as they like
//! 13_0000  queues of harts, 4 KiB each
//! 14_0000  tables and files of the domains
//! 20_0000  large structures (a domain table of 65536 entries, a queue of 4096)
//! ```

/// Bytes of RAM that programs use, from the base.
pub const RAM_SIZE: u64 = 0x60_0000;
/// Room for code.
pub const CODE_SIZE: u64 = 0x10_0000;
/// Contexts of harts.
pub const CONTEXTS: u64 = 0x10_0000;
/// Distance of contexts.
pub const CONTEXT: u64 = 0x1000;
/// Word that ends the run.
pub const TOHOST: u64 = 0x11_0000;
/// Its counterpart, unused.
pub const FROMHOST: u64 = 0x11_0040;
/// Number of the check that failed, what was found, what was expected, hart.
pub const SIGNATURE: u64 = 0x11_0080;
/// Bytes of the signature.
pub const SIGNATURE_SIZE: u64 = 32;
/// Words for programs.
pub const WORDS: u64 = 0x12_0000;
/// Queues of harts.
pub const QUEUES: u64 = 0x13_0000;
/// Domain table of [`DOMAINS`](crate::script::world::DOMAINS).
pub const TABLES: u64 = 0x14_0000;
/// Bytes of tables and files, which are 0 at the beginning.
pub const TABLES_SIZE: u64 = 0x8_0000;
/// Large structures, which programs clear themselves.
pub const LARGE: u64 = 0x20_0000;

/// Offsets in the context of a hart.
pub mod context {
    /// Address of the block that the hart is to execute; 0: none.
    pub const BLOCK: i32 = 0;
    /// Where M-mode continues after a block in another mode.
    pub const RESUME: i32 = 8;
    /// The interrupt that was taken: [`TAKEN`] | level << 8 | cause, or 0.
    pub const INTERRUPT: i32 = 16;
    /// The last exception: [`TAKEN`] | cause, or 0.
    pub const EXCEPTION: i32 = 24;
    /// How many exceptions there were.
    pub const EXCEPTIONS: i32 = 32;
    /// Not 0: an interrupt that HS-mode takes is disabled, and the block goes on.
    pub const GO_ON: i32 = 56;
    /// Passes that are left of loops, by depth.
    pub const LOOPS: i32 = 64;
    /// Something was taken.
    pub const TAKEN: u64 = 1 << 16;
}
