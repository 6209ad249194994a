//! KVM's side of AIA behind a trait, so that other modules run in tests anywhere.

use std::io;

/// KVM's side of AIA.
pub trait Port: Send + Sync {
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u32, high: bool) -> io::Result<()>;
    /// Routes GSI n to message n, an address and data (`KVM_SET_GSI_ROUTING`), and attaches an
    /// irqfd to the last GSI, which is new.
    fn add_route(&self, messages: &[(u64, u32)]) -> io::Result<()>;
    /// Writes the irqfd of a GSI.
    fn write_irqfd(&self, gsi: usize) -> io::Result<()>;
    /// `KVM_SIGNAL_MSI`.
    fn signal(&self, address: u64, data: u32) -> io::Result<()>;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}
