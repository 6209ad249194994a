//! Messages of the VMM's APLIC to interrupt files, by irqfds.

use crate::irqchip::aia::port::Port;
use crate::irqchip::injections::{Counters, count};
use crate::map;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of messages with an irqfd. Further ones are sent by `KVM_SIGNAL_MSI`, which
/// carries the whole message.
pub(super) const ROUTES: usize = 1024;

/// Sends messages to interrupt files by irqfds.
pub(super) struct Messages {
    pub(super) port: Arc<dyn Port>,
    pub(super) vcpus: u16,
    pub(super) counters: Arc<Counters>,
    /// Address and data by GSI.
    pub(super) routes: Mutex<Vec<(u64, u32)>>,
}

impl Messages {
    pub(super) fn send(&self, hart: u32, identity: u32) {
        // There is no such interrupt file or identity.
        if hart >= u32::from(self.vcpus) || identity == 0 {
            return;
        }
        let message = (map::imsic(hart.into()), identity);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = routes.iter().position(|route| *route == message);
        let gsi = known.or_else(|| {
            if routes.len() >= ROUTES {
                return None;
            }
            routes.push(message);
            count(&self.counters.routed);
            if self.port.add_route(&routes).is_err() {
                routes.pop();
                return None;
            }
            Some(routes.len() - 1)
        });
        drop(routes);
        let done = match gsi {
            Some(gsi) => {
                count(&self.counters.irqfd);
                self.port.write_irqfd(gsi)
            }
            None => {
                count(&self.counters.ioctl);
                self.port.signal(message.0, message.1)
            }
        };
        if done.is_err() {
            count(&self.counters.failed);
        }
    }
}
