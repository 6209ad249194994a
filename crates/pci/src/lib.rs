//! PCI Express as QEMU's `virt` machine has it: a root complex with generic ECAM, whose functions
//! are integrated endpoints on bus 0.
//!
//! ```text
//!   harts                                          memory, interrupt files
//!     | loads, stores                                        ^
//!   Host         ECAM, windows, INTx wires                   |  Dma: a device's own accesses
//!     |                                                      |  and its messages (an IOMMU is one)
//!   Device       function 0 and, with SR-IOV, virtual ones   |
//!     |                                                      |
//!   Endpoint     configuration space, BARs, FLR, MSI-X ------+
//!     |                                                      |
//!   Function     VirtioPci<D>, Nvme, EndpointTest -------------+
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `map` | windows of the host and their places |
//! | `fdt` | device tree node |
//! | `host` | who answers which address; interrupt wires |
//! | `device` | the functions of a device |
//! | `sriov` | how virtual functions appear, and where they answer |
//! | `endpoint` | what all functions have in common |
//! | `config` | configuration space |
//! | `msix` | MSI-X table and pending bits |
//! | `msi` | the older kind of messages |
//! | `ats` | translations that functions remember, and pages that they ask for |
//! | `port` | what a function reaches: interrupts, and memory if it is bus master |
//! | `function` | what a function has of its own |
//! | `virtio` | the PCI transport of virtio devices |
//! | `nvme` | a disk as NVM Express has it |
//! | `endpoint_test` | what Linux's tests of endpoints drive |
//!
//! Specifications: PCI Express Base 5.0, PCI Firmware 3.2 (ECAM), virtio 1.2 section 4.1. Like all
//! devices, functions act only inside a call, and whatever comes from a guest is untrusted: it may
//! stop the function that it was sent to, and nothing else.

mod ats;
mod config;
mod device;
mod endpoint;
mod endpoint_test;
pub mod fdt;
mod function;
mod host;
mod map;
mod msi;
mod msix;
pub mod nvme;
mod port;
mod sriov;
pub mod virtio;

pub use ats::Asked;
pub use config::{Bar, BarKind, Capability, Identity};
pub use endpoint_test::EndpointTest;
pub use function::{Function, Layout};
pub use host::{Attachment, Host, MAX_DEVICES, PINS, Parts};
pub use map::Windows;
pub use port::Port;
pub use sriov::MAX_VIRTUAL_FUNCTIONS;
