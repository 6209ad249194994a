//! Interrupt architectures behind one trait.
//!
//! An interrupt architecture owns MMIO windows and CSRs, has device wires as inputs, and drives the
//! interrupt inputs ([`Lines`]) of every hart. It has no access to a hart's registers.
//!
//! ```text
//!  loads, stores, CSRs --> InterruptArchitecture --> Lines of each hart
//!  device wires ---------> (and InterruptFiles)  --> Effects: whose lines changed, steps taken
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `architecture` | [`InterruptArchitecture`] and related traits |
//! | `effects` | [`Effects`] of a call |
//! | `inspect` | state as [`Row`]s, for debuggers |
//! | `mmio` | [`Window`]s |
//! | [`fdt`] | device tree nodes shared by several architectures |
//! | [`plic`] | register model of the PLIC, usable on its own by a VMM |
//! | [`aclint`] | MSWI, MTIMER, SSWI |
//! | [`aclint_plic`] | both together as an [`InterruptArchitecture`] |
//! | [`aia`] | IMSICs and an APLIC: the Advanced Interrupt Architecture |
//! | [`trapless`] | ACLINT and PLIC with Xtrapless: interrupts reach vCPUs without traps |
//! | [`vei`] | any of them with Xvei: events and doorbells of guests reach the host without exits |
//! | `words`, `ring` | memory accesses and queues of the controllers of the last two |
//!
//! `examples/doorbell.rs` is a small complete architecture to start your own from.

pub mod aclint;
pub mod aclint_plic;
pub mod aia;
mod architecture;
mod effects;
#[cfg(test)]
mod fake_memory;
pub mod fdt;
mod inspect;
mod mmio;
pub mod plic;
mod ring;
pub mod trapless;
pub mod vei;
mod words;

pub use architecture::{
    Description, EXTERNAL_PHANDLE, InterruptArchitecture, InterruptFiles, Memory, Snapshot,
};
pub use effects::{Effects, Steps, all_harts};
pub use inspect::Row;
pub use mmio::{NoRegister, Window};
pub use trapless_isa::port::{
    ContextAccess, CsrAccess, CsrFault, CsrOp, DoorbellAccess, DoorbellFault, EventOrigin,
    Exchanged, FileAccess, FileId, FileRegister, Lines, MessageArrival, MmioAccess, NoFile,
    StepKind, VirtualStep,
};
