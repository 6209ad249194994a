//! One RISC-V hart with the hypervisor extension.
//!
//! ```text
//! engine/run ── attend: interrupts, deadlines, WFI
//!  ├── engine/interp   blocks, one instruction after the other
//!  ├── engine/native   blocks that run often, compiled
//!  ├── engine/triggered  both, for an observer of few instructions
//!  └── engine/trap     traps and their returns
//! csr/                 CSRs and their access rights, interrupts, counters
//! memory/              TLB, page walks, PMP, RAM
//! code/                decoded and compiled blocks
//! fpu/                 arithmetic of F and D
//! observe/             profiles, statistics, comparisons, threads of kernels
//! checkpoint           state of a hart in files
//! hart, config         the parts of a hart; its extensions, options and cost model
//! platform, inputs     interface to the machine; interrupt inputs
//! syndrome             information of an exception for its handler
//! ```
//!
//! A hart knows RAM and the trait [`platform::Platform`], and no device.
//!
//! Comments cite the unprivileged and privileged specifications of edition 20250508 by section
//! name. Terms of this project's own are in `docs/glossary.md`.

mod checkpoint;
mod code;
mod config;
mod csr;
mod engine;
mod fpu;
mod hart;
mod inputs;
mod memory;
mod observe;
pub mod platform;
mod syndrome;

pub use checkpoint::HartState;
pub use code::{CodeCache, CodeLimits, CodeStatistics, Tiers};
pub use config::{AiaConfig, CACHE_BLOCK, CostModel, HartConfig};
pub use engine::run::{Observer, Stop};
pub use hart::Hart;
pub use memory::doorbells::{DoorbellPage, DoorbellPages};
pub use memory::pmp::Pmp;
pub use memory::ram::{Ram, RamError};
pub use observe::{Activity, DataTrigger, HartStatistics, MemoryAccess, Meter, Snapshot, Triggers};
