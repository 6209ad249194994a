//! Devices of the host that a guest has for itself (VFIO).
//!
//! ```text
//!   guest: loads and stores        MSI-X table           memory
//!            | no exits               | exits              ^ DMA, by the IOMMU:
//!            v                        v                    | bus address = guest physical address
//!   KVM: memory slots            Msix: routes, irqfds      |
//!            |                        |                    |
//!            +---------- VFIO: the device -----------------+
//! ```
//!
//! That is a PCI function. A platform device has registers at fixed places and wires.
//!
//! | file | subject |
//! |---|---|
//! | `device` | what VFIO offers, as a trait |
//! | `host` | the same with KVM |
//! | `handle`, `iommufd` | VFIO's and the IOMMU's interface |
//! | `function` | the device as a PCI function: BARs, resets |
//! | `space` | configuration space |
//! | `msix`, `pin` | interrupts: messages, wires |
//! | `platform` | the device as a platform device: registers, wires |
//!
//! Devices cannot reach each other's BARs, only guest RAM. A guest with such a device cannot be
//! saved: what the device knows would be lost.

pub mod device;
pub mod function;
pub mod handle;
#[cfg(target_arch = "riscv64")]
pub mod host;
pub mod iommufd;
pub mod msix;
pub mod pin;
pub mod platform;
pub mod space;
#[cfg(test)]
mod tests;
