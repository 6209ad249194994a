//! The AIA of a guest: APLIC and IMSICs in KVM (`KVM_DEV_TYPE_RISCV_AIA`), or the IMSICs alone and
//! an APLIC in the VMM.
//!
//! ```text
//! device -- wire --> KVM_IRQ_LINE --> APLIC (KVM) ---- MSI --> interrupt file of a vCPU
//! device -- wire --> APLIC (VMM) -- irqfd with route -- MSI --> interrupt file of a vCPU
//! ```
//! The second way makes each interrupt one write of an eventfd, and in the guest's device tree
//! virtio devices are edge-triggered, so that no access to the APLIC is needed to end an interrupt.
//!
//! A vCPU's interrupt file is a guest interrupt file of the hart it runs on while one is free
//! there, else memory that KVM emulates.

pub mod aplic;
pub mod controller;
pub mod device;
#[cfg(target_arch = "riscv64")]
pub mod kvm;
pub mod line;
mod messages;
pub mod port;
pub mod registers;
pub mod routes;
mod state;
#[cfg(test)]
pub(crate) mod tests;
pub mod uapi;
