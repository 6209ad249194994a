//! Setup of every vhost device when its driver is ready: the guest's memory, the addresses of the
//! queues, and eventfds.

use crate::error::{Error, Result};
use std::sync::Arc;
use trapless_devices::virtio::VirtioDevice;
use vhost::{VhostBackend, VringConfigData};
use virtio_queue::{Queue, QueueT};
use vmm_sys_util::eventfd::EventFd;

/// The eventfds of a device, for both directions.
#[derive(Clone)]
pub struct Events {
    /// A notification of each queue.
    pub kicks: Vec<Arc<EventFd>>,
    /// Used buffers of any queue: this transport has one interrupt.
    pub call: Arc<EventFd>,
}

impl Events {
    /// The eventfds of a device with so many queues.
    ///
    /// # Errors
    /// [`Error::Failed`] if there are no descriptors.
    pub fn new(queues: usize) -> Result<Self> {
        let event = || {
            EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
                .map(Arc::new)
                .map_err(|e| Error::failed("eventfd", e))
        };
        Ok(Self {
            kicks: (0..queues).map(|_| event()).collect::<Result<_>>()?,
            call: event()?,
        })
    }

    /// Signals a notification of `queue`.
    pub fn kick(&self, queue: usize) {
        if let Some(kick) = self.kicks.get(queue) {
            let _ = kick.write(1);
        }
    }
}

/// A device whose queues are served outside this process.
pub trait ServedElsewhere: VirtioDevice + 'static {
    /// Its eventfds.
    fn events(&self) -> &Events;
}

/// Passes `queue`, the one with this number, to `backend`. `address` converts guest physical
/// addresses for it.
///
/// # Errors
/// Those of the back end.
pub fn hand_over(
    backend: &impl VhostBackend,
    (number, queue): (usize, &Queue),
    address: impl Fn(u64) -> vhost::Result<u64>,
    events: &Events,
) -> vhost::Result<()> {
    let kick = events.kicks.get(number).ok_or(vhost::Error::InvalidQueue)?;
    let ring = VringConfigData {
        queue_max_size: queue.max_size(),
        queue_size: queue.size(),
        flags: 0,
        desc_table_addr: address(queue.desc_table())?,
        used_ring_addr: address(queue.used_ring())?,
        avail_ring_addr: address(queue.avail_ring())?,
        log_addr: None,
    };
    backend.set_vring_num(number, queue.size())?;
    backend.set_vring_addr(number, &ring)?;
    backend.set_vring_base(number, queue.next_avail())?;
    backend.set_vring_call(number, &events.call)?;
    backend.set_vring_kick(number, kick)
}
