//! KVM's side of AIA behind a trait, so that other modules run in tests anywhere.

use crate::irqchip::messages::Message;
use std::io;
use vmm_sys_util::eventfd::EventFd;

/// KVM's side of AIA.
pub trait Port: Send + Sync {
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u32, high: bool) -> io::Result<()>;
    /// Routes GSI n to message n, and no others (`KVM_SET_GSI_ROUTING`).
    fn set_routes(&self, messages: &[Option<Message>]) -> io::Result<()>;
    /// Attaches an event to a GSI (`KVM_IRQFD`).
    fn attach(&self, gsi: u32, event: &EventFd) -> io::Result<()>;
    /// Takes an event off a GSI.
    fn detach(&self, gsi: u32, event: &EventFd) -> io::Result<()>;
    /// `KVM_SIGNAL_MSI`.
    fn signal(&self, address: u64, data: u32) -> io::Result<()>;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}
