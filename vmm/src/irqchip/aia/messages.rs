//! Messages of the VMM's APLIC to interrupt files, by irqfds.

use crate::irqchip::aia::port::Port;
use crate::irqchip::injections::{Counters, count};
use crate::irqchip::messages::{Message, Messages, Route};
use crate::map;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use vmm_sys_util::eventfd::EventFd;

/// Maximum number of messages with an irqfd. Further ones are sent by `KVM_SIGNAL_MSI`, which
/// carries the whole message.
pub(super) const ROUTES: usize = 1024;

/// A message that has been sent before, and the event that makes KVM send it.
struct Known {
    message: Message,
    event: Arc<EventFd>,
}

/// Sends messages to interrupt files by irqfds.
pub(super) struct AplicMessages {
    port: Arc<dyn Port>,
    routes: Arc<dyn Messages>,
    vcpus: u16,
    counters: Arc<Counters>,
    known: Mutex<Vec<Known>>,
}

impl AplicMessages {
    pub(super) fn new(
        port: Arc<dyn Port>,
        routes: Arc<dyn Messages>,
        vcpus: u16,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            port,
            routes,
            vcpus,
            counters,
            known: Mutex::default(),
        }
    }

    pub(super) fn send(&self, hart: u32, identity: u32) {
        // There is no such interrupt file or identity.
        if hart >= u32::from(self.vcpus) || identity == 0 {
            return;
        }
        let message = Message {
            address: map::imsic(hart.into()),
            data: identity,
        };
        let done = match self.event(message) {
            Some(event) => {
                count(&self.counters.irqfd);
                event.write(1)
            }
            None => {
                count(&self.counters.ioctl);
                self.port.signal(message.address, message.data)
            }
        };
        if done.is_err() {
            count(&self.counters.failed);
        }
    }

    /// The event that makes KVM send `message`; `None` if there are too many of them.
    fn event(&self, message: Message) -> Option<Arc<EventFd>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|one| one.message == message) {
            return Some(Arc::clone(&found.event));
        }
        if known.len() >= ROUTES {
            return None;
        }
        count(&self.counters.routed);
        let route = self.routes.add(message).ok()?;
        let event = self.attached(route);
        if event.is_err() {
            self.routes.remove(route);
        }
        let event = Arc::new(event.ok()?);
        known.push(Known {
            message,
            event: Arc::clone(&event),
        });
        Some(event)
    }

    /// A new event that makes KVM send the message of `route`.
    fn attached(&self, route: Route) -> io::Result<EventFd> {
        let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
        self.routes.attach(route, &event)?;
        Ok(event)
    }
}
