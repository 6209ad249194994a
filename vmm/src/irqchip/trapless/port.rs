//! What Xtrapless needs of KVM and of the instruction, so that the rest knows no system call and is tested on any host.

use std::io;
use std::os::fd::RawFd;

/// The system's side of Xtrapless.
pub trait Port: Send + Sync {
    /// Lets the calling thread execute `ugenvsei` for all sources of this guest; `false` if KVM refuses.
    fn take_grant(&self) -> bool;
    /// Gives the calling thread's grant back.
    fn return_grant(&self);
    /// Whether the calling thread may execute `ugenvsei` for this guest.
    fn granted(&self) -> bool;
    /// Executes `ugenvsei`. Only called if [`Port::granted`].
    fn ugenvsei(&self, operand: u64);
    /// `KVM_IRQ_LINE`.
    fn irq_line(&self, source: u16, high: bool) -> io::Result<()>;
    /// Creates the eventfds of a source and hands them to KVM.
    fn add_irqfd(&self, source: u16, resample: bool) -> io::Result<()>;
    /// Writes the eventfd of a source.
    fn write_irqfd(&self, source: u16) -> io::Result<()>;
    /// Descriptor that becomes readable when a resampled source was completed.
    fn resample_fd(&self, source: u16) -> Option<RawFd>;
    /// Takes the notification off that descriptor; `false` if there is none.
    fn take_resample(&self, source: u16) -> bool;
    /// Sets an attribute of the KVM device.
    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()>;
    /// Reads an attribute of the KVM device.
    fn get(&self, group: u32, attribute: u64) -> io::Result<u64>;
}
