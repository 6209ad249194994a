//! KVM and the instruction `ugenvsei` behind a trait, so that other modules run in tests anywhere.

use std::io;
use std::os::fd::RawFd;
use vmm_sys_util::eventfd::EventFd;

/// Operations of KVM and the instruction that Xtrapless uses.
pub trait Port: Send + Sync {
    /// Obtains a grant for the calling thread to execute `ugenvsei` for all sources of this guest;
    /// `false` if KVM refuses.
    fn take_grant(&self) -> bool;
    /// Returns the calling thread's grant.
    fn return_grant(&self);
    /// Whether the calling thread may execute `ugenvsei` for this guest.
    fn granted(&self) -> bool;
    /// Executes `ugenvsei`. Only called if [`Port::granted`].
    fn ugenvsei(&self, operand: u64);
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u16, high: bool) -> io::Result<()>;
    /// Creates the eventfds of a source and passes them to KVM.
    fn add_irqfd(&self, source: u16, resample: bool) -> io::Result<()>;
    /// Passes an existing eventfd for a source to KVM.
    fn lend_irqfd(&self, source: u16, event: &EventFd) -> io::Result<()>;
    /// Takes an eventfd of [`lend_irqfd`](Self::lend_irqfd) away from KVM.
    fn take_back(&self, source: u16, event: &EventFd) -> io::Result<()>;
    /// Passes existing eventfds for a resampled source to KVM.
    fn lend_resampled(&self, source: u16, trigger: &EventFd, resample: &EventFd) -> io::Result<()>;
    /// Writes the eventfd of a source.
    fn write_irqfd(&self, source: u16) -> io::Result<()>;
    /// Descriptor that becomes readable when the guest completes a resampled source.
    fn resample_fd(&self, source: u16) -> Option<RawFd>;
    /// Reads the notification from that descriptor; `false` if there is none.
    fn take_resample(&self, source: u16) -> bool;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}
