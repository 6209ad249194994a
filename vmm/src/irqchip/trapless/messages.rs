//! Messages of PCI functions to a guest with Xtrapless: the word is the number of a source, the
//! address that of the device tree. An irqfd makes the source pending; or the device does so, by a
//! message window, if the host's kernel can arrange that.

use crate::irqchip::messages::{Message, Messages, Route};
use crate::irqchip::trapless::chip::Chip;
use crate::map;
use std::io;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// Messages to sources of a chip. A route is a source.
pub(super) struct SourceMessages(pub(super) Arc<Chip>);

impl Messages for SourceMessages {
    fn add(&self, message: Message) -> io::Result<Route> {
        let source = u16::try_from(message.data).unwrap_or(0);
        if message.address != map::MESSAGES_BASE {
            return Err(io::Error::other("nothing takes messages there"));
        }
        self.0.add_message(source)?;
        Ok(Route(source.into()))
    }

    fn change(
        &self,
        route: Route,
        message: Message,
        attached: Option<&EventFd>,
    ) -> io::Result<Route> {
        let next = self.add(message)?;
        if let Some(event) = attached {
            self.detach(route, event)?;
            self.attach(next, event)?;
        }
        Ok(next)
    }

    fn remove(&self, _: Route) {}

    fn attach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        self.0.port.lend_irqfd(route.0 as u16, event)
    }

    fn detach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        self.0.port.take_back(route.0 as u16, event)
    }
}
