//! The AIA of one guest, which receives its wires.

use crate::irqchip::aia::aplic::UserAplic;
use crate::irqchip::aia::messages::AplicMessages;
use crate::irqchip::aia::port::Port;
use crate::irqchip::aia::routes::Routes;
use crate::irqchip::injections::{Counters, count};
use crate::irqchip::messages::Messages;
use std::sync::Arc;
use trapless_intc::aia::aplic::Message;

/// The AIA of one guest.
pub struct Aia {
    pub(super) port: Arc<dyn Port>,
    pub(super) vcpus: u16,
    pub(super) ids: u32,
    /// The APLIC, unless KVM has it.
    pub(super) aplic: Option<Arc<UserAplic>>,
    pub(super) routes: Arc<dyn Messages>,
    /// Counts since the guest's start.
    pub counters: Arc<Counters>,
}

impl Aia {
    /// Wraps an AIA that KVM has for `vcpus` vCPUs, with `ids` identities in each interrupt file;
    /// with an APLIC of the VMM if `split`, for which KVM's has no sources.
    pub fn new(port: Arc<dyn Port>, vcpus: u16, ids: u32, split: bool) -> Self {
        let counters = Arc::<Counters>::default();
        let routes: Arc<dyn Messages> = Arc::new(Routes::new(Arc::clone(&port)));
        let messages = AplicMessages::new(
            Arc::clone(&port),
            Arc::clone(&routes),
            vcpus,
            Arc::clone(&counters),
        );
        let send = move |message: Message| messages.send(message.hart, message.identity);
        Self {
            port,
            vcpus,
            ids,
            routes,
            aplic: split.then(|| Arc::new(UserAplic::new(vcpus, Box::new(send)))),
            counters,
        }
    }

    /// The APLIC, unless KVM has it.
    pub fn aplic(&self) -> Option<&Arc<UserAplic>> {
        self.aplic.as_ref()
    }

    /// Identities of each interrupt file.
    pub fn ids(&self) -> u32 {
        self.ids
    }

    /// Drives the wire of `source`.
    pub(super) fn drive(&self, source: u32, high: bool) {
        if let Some(aplic) = &self.aplic {
            return aplic.drive(source, high);
        }
        count(&self.counters.ioctl);
        if self.port.irq_line(source, high).is_err() {
            count(&self.counters.failed);
        }
    }

    /// Makes an edge-triggered source pending.
    pub(super) fn pulse(&self, source: u32) {
        match &self.aplic {
            Some(aplic) => aplic.pulse(source),
            None => {
                self.drive(source, true);
                self.drive(source, false);
            }
        }
    }
}
