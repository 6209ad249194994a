//! Where message-signalled interrupts of PCI functions go.

use std::io;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// A message: the word that a function writes, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Guest physical address.
    pub address: u64,
    /// The word.
    pub data: u32,
}

/// A message that KVM can send for a function, by its number (GSI).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route(pub u32);

/// Takes messages of PCI functions to the guest. What they mean is the guest's business: those to
/// other addresses than of its own files do nothing.
pub trait Messages: Send + Sync {
    /// Adds a route for `message`.
    ///
    /// # Errors
    /// The error that KVM returned, or that there are too many.
    fn add(&self, message: Message) -> io::Result<Route>;

    /// Gives a route, to which `attached` is attached if given, another message. Returns the route
    /// that is in its place.
    ///
    /// # Errors
    /// The error that KVM returned, or that there is no such message; the route is as before.
    fn change(
        &self,
        route: Route,
        message: Message,
        attached: Option<&EventFd>,
    ) -> io::Result<Route>;

    /// Removes a route without an event.
    fn remove(&self, route: Route);

    /// Makes KVM send the route's message whenever `event` is written, by the kernel or a process.
    /// An event that has been written already counts.
    ///
    /// # Errors
    /// The error that KVM returned.
    fn attach(&self, route: Route, event: &EventFd) -> io::Result<()>;

    /// Ends that.
    ///
    /// # Errors
    /// The error that KVM returned.
    fn detach(&self, route: Route, event: &EventFd) -> io::Result<()>;
}

/// The guest's controller of messages.
#[derive(Clone)]
pub struct MessageController {
    /// Phandle of its node in the device tree: `msi-parent` of the PCI host.
    pub phandle: u32,
    /// The way to it.
    pub messages: Arc<dyn Messages>,
}
