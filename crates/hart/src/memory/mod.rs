//! Memory of a hart: from a virtual address to a byte of the host.
//!
//! ```text
//! access ── slow path of loads and stores: TLB again, RAM or bus
//!  ├── doorbells  all doorbell pages of a guest, for debuggers
//!  └── translate ── contexts, PMP, fills the TLB
//!       ├── walk    page tables of one or two stages
//!       ├── pmp     physical memory protection
//!       └── tlb     by context; which slots let stores hit a page
//! ram ── one mapping of the host
//!  ├── outside      virtual memory, found from outside
//!  ├── code_pages   pages with code, and which of them were written
//!  ├── populated    which pages can be other than zero
//!  ├── prefault     asks the host for memory ahead
//!  └── undo         copies of pages, to go back to a moment
//! ```

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod code_pages;
pub(crate) mod doorbells;
pub(crate) mod huge;
mod outside;
pub(crate) mod pmp;
mod populated;
mod prefault;
pub(crate) mod ram;
pub(crate) mod tlb;
pub(crate) mod translate;
mod undo;
mod walk;
