//! Guest code, decoded and compiled, shared by the harts of a machine.
//!
//! ```text
//! cache ── blocks by physical address, and their invalidation
//!  ├── block, decoder     instructions of basic blocks
//!  ├── compiler           which blocks are compiled, and when
//!  │    └── tables        compiled code by page, for jumps out of a page
//!  ├── excluded           blocks that must not be compiled, for a debugger
//!  └── changes            pages whose blocks were dropped, for harts to catch up with
//! view ── caches of one hart: jump cache, versions
//! ```

pub(crate) mod block;
pub(crate) mod cache;
mod changes;
mod compiler;
mod decoder;
mod excluded;
mod jump_cache;
mod statistics;
pub(crate) mod tables;
pub(crate) mod view;

pub(crate) use cache::MAX_BLOCK;
pub use cache::{CodeCache, CodeLimits};
pub use compiler::Tiers;
pub use statistics::CodeStatistics;
