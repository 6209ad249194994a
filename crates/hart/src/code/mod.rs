//! Guest code, decoded and compiled, shared by the harts of a machine.
//!
//! ```text
//! cache ── what is known by physical address, and when it must be forgotten
//!  ├── block, decoder     instructions of basic blocks
//!  ├── compiler           which blocks are compiled, and when
//!  │    └── tables        compiled code by page, for jumps out of a page
//!  ├── spared             blocks that must not be compiled, for a debugger
//!  └── changes            pages whose blocks were dropped, for harts to catch up with
//! view ── what one hart remembers of the above: jump cache, versions
//! ```

pub(crate) mod block;
pub(crate) mod cache;
mod changes;
mod compiler;
mod decoder;
mod jump_cache;
mod spared;
mod statistics;
pub(crate) mod tables;
pub(crate) mod view;

pub(crate) use cache::MAX_BLOCK;
pub use cache::{CodeCache, CodeLimits};
pub use compiler::HOT;
pub use statistics::CodeStatistics;
