//! A device in its slot whose queues are served outside this process.

use crate::bus::BusDevice;
use crate::devices::locked::{Locked, Served};
use crate::devices::state::Stateful;
use crate::devices::virtio::slot::Slot;
use crate::devices::virtio::vhost::queues::{Events, ServedElsewhere};
use std::sync::Arc;
use trapless_devices::virtio::VirtioMmio;
use trapless_devices::{StateError, StateReader, StateWriter};
use vmm_sys_util::eventfd::EventFd;

/// The device. Notifications signal the eventfds of its queues.
pub struct Elsewhere<D> {
    device: Arc<Locked<VirtioMmio<D>>>,
    events: Events,
}

impl<D: ServedElsewhere> Elsewhere<D> {
    /// Puts `device`, with these eventfds, into a slot.
    pub fn new(device: Arc<Locked<VirtioMmio<D>>>, events: Events) -> Self {
        Self { device, events }
    }
}

impl<D: ServedElsewhere> BusDevice for Elsewhere<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.device.read(offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.device.write(offset, data);
    }
}

impl<D: ServedElsewhere> Served for Elsewhere<D> {
    fn poll(&self) {
        self.device.poll();
    }

    fn due_in(&self) -> Option<u64> {
        self.device.due_in()
    }
}

impl<D: ServedElsewhere> Stateful for Elsewhere<D> {
    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}

impl<D: ServedElsewhere> Slot for Elsewhere<D> {
    fn queues(&self) -> usize {
        self.events.kicks.len()
    }

    fn kicks(&self) -> &[Arc<EventFd>] {
        &self.events.kicks
    }

    fn notify(&self, queue: u32) {
        self.events.kick(queue as usize);
    }
}
