//! KVM's table of messages by GSI, which can only be set as a whole.

use crate::irqchip::aia::port::Port;
use crate::irqchip::messages::{Message, Messages, Route};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vmm_sys_util::eventfd::EventFd;

/// Most routes of a guest: KVM's limit (`KVM_MAX_IRQ_ROUTES`).
const MOST: usize = 4096;

/// The table.
pub struct Routes {
    port: Arc<dyn Port>,
    /// By GSI.
    table: Mutex<Vec<Option<Message>>>,
}

impl Routes {
    /// An empty table.
    pub fn new(port: Arc<dyn Port>) -> Self {
        Self {
            port,
            table: Mutex::default(),
        }
    }

    /// A poisoned mutex still holds a table: each change is taken back if KVM refuses it.
    fn table(&self) -> MutexGuard<'_, Vec<Option<Message>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `message` in the place of `gsi`.
    fn set(
        &self,
        table: &mut [Option<Message>],
        gsi: usize,
        message: Option<Message>,
    ) -> io::Result<()> {
        let before = std::mem::replace(&mut table[gsi], message);
        let done = self.port.set_routes(table);
        if done.is_err() {
            table[gsi] = before;
        }
        done
    }
}

impl Messages for Routes {
    fn add(&self, message: Message) -> io::Result<Route> {
        let mut table = self.table();
        let free = table.iter().position(Option::is_none);
        let gsi = free.unwrap_or(table.len());
        if gsi == MOST {
            return Err(io::Error::other("there are too many messages"));
        }
        if gsi == table.len() {
            table.push(None);
        }
        self.set(&mut table, gsi, Some(message))?;
        Ok(Route(gsi as u32))
    }

    fn change(&self, route: Route, message: Message, _: Option<&EventFd>) -> io::Result<Route> {
        self.set(&mut self.table(), route.0 as usize, Some(message))
            .map(|()| route)
    }

    fn remove(&self, route: Route) {
        // KVM may keep it: nothing is attached to it.
        self.table()[route.0 as usize] = None;
    }

    fn attach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        self.port.attach(route.0, event)
    }

    fn detach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        self.port.detach(route.0, event)
    }
}
