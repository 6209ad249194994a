//! A virtio device in its slot.

use crate::bus::BusDevice;
use crate::devices::locked::{Locked, Served};
use crate::devices::state::Stateful;
use crate::error::Result;
use std::sync::Arc;
use trapless_devices::virtio::{Shadow, VirtioDevice, VirtioMmio};
use vmm_sys_util::eventfd::EventFd;

/// Offset of QueueNotify (virtio 1.2, section 4.2.2).
pub const QUEUE_NOTIFY: u64 = 0x50;

/// Offset of Status, and its bit DRIVER_OK.
const STATUS: u64 = 0x70;
const DRIVER_OK: u8 = 4;

/// Source of shadows of registers.
pub trait ShadowSource {
    /// A shadow of the registers at guest physical address `base`, a multiple of 4096. Interrupts
    /// that the driver acknowledges are cleared in it, unless `fixed`.
    ///
    /// # Errors
    /// [`Error::Failed`](crate::error::Error::Failed) if KVM refuses it.
    fn shadow(&self, base: u64, fixed: bool) -> Result<Arc<dyn Shadow>>;
}

/// A virtio device in its slot.
pub trait Slot: BusDevice + Served + Stateful {
    /// Number of queues.
    fn queues(&self) -> usize;
    /// Eventfds that KVM signals for notifications of each queue, if the queues are served outside
    /// this process; else none.
    fn kicks(&self) -> &[Arc<EventFd>] {
        &[]
    }
    /// Handles a write of `queue` to QueueNotify.
    fn notify(&self, queue: u32);

    /// Checks all queues, for notifications that were pending when the guest was saved. A spurious
    /// one does no harm.
    fn notify_all(&self) {
        let mut status = [0; 4];
        self.read(STATUS, &mut status);
        if status[0] & DRIVER_OK != 0 {
            (0..self.queues() as u32).for_each(|queue| self.notify(queue));
        }
    }
}

impl<D: VirtioDevice> Slot for Locked<VirtioMmio<D>> {
    fn queues(&self) -> usize {
        self.lock().device().queue_sizes().len()
    }

    fn notify(&self, queue: u32) {
        self.with(|device| device.notify(queue));
    }
}
