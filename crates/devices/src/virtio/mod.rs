//! Virtio 1.2 devices with split virtqueues. The memory-mapped transport is here, that of PCI in
//! `crates/pci`.
//!
//! ```text
//!   VirtioMmio<D>      registers and interrupt                              (mmio.rs)
//!       |              registers served without the device                  (shadow.rs)
//!   Common<D>          status handshake, features, set-up of queues         (common.rs)
//!       |  QueueIo     descriptor chains, checked against RAM              (queue.rs)
//!       v
//!   D: VirtioDevice    Block, Console, Fs, Net, Rng: requests only
//! ```

use virtio_queue::Queue;

use crate::state::{StateError, StateReader, StateWriter};

pub mod block;
pub mod common;
pub mod console;
pub mod fs;
pub mod mmio;
pub mod net;
pub mod queue;
pub mod rng;
pub mod shadow;

pub use common::{Common, QueueField, Signal};
pub use mmio::{EmptySlot, VirtioMmio};
pub use queue::{Chain, DriverFault, QueueIo};
pub use shadow::Shadow;

/// The part of a virtio device besides the transport: its requests and its configuration.
///
/// A device is only called with queues between DRIVER_OK and the next reset. It has no access to
/// addresses or rings; [`QueueIo`] gives it chains that were checked against RAM.
pub trait VirtioDevice: Send {
    /// Device type (virtio 1.2, section 5).
    fn device_id(&self) -> u32;

    /// A short name for messages.
    fn name(&self) -> &'static str;

    /// Feature bits of the device type (bits 0 to 23). The transport adds the general ones.
    fn features(&self) -> u64;

    /// The largest size of each queue: powers of two, at most 32768.
    fn queue_sizes(&self) -> &[u16];

    /// Reads configuration space at `offset`; bytes beyond its end are left as they are (zero).
    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let _ = (offset, data);
    }

    /// Writes configuration space at `offset`; read-only fields are ignored.
    fn write_config(&mut self, offset: u64, data: &[u8]) {
        let _ = (offset, data);
    }

    /// The driver set DRIVER_OK having accepted `features`.
    fn activate(&mut self, features: u64) {
        let _ = features;
    }

    /// Follows [`activate`](Self::activate) with the queues as the driver has set them up, for a
    /// device whose queues are served outside this process.
    ///
    /// # Errors
    /// [`DriverFault`] if that is not possible: the device needs a reset then.
    fn start(&mut self, queues: &[Queue]) -> Result<(), DriverFault> {
        let _ = queues;
        Ok(())
    }

    /// The driver made buffers available in `queue`, an index into [`Self::queue_sizes`].
    fn notify(&mut self, queue: usize, io: &mut QueueIo<'_>) -> Result<(), DriverFault>;

    /// The back-end may have input; also called without a change.
    fn poll(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        let _ = io;
        Ok(())
    }

    /// Whether the back-end has input that another device has brought, so that it has to be polled.
    fn waits(&self) -> bool {
        false
    }

    /// The driver reset the device: clear state of requests and negotiation, keep the back-end.
    fn reset(&mut self) {}

    /// Why a machine with this device cannot be saved; `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// Appends the state besides the queues and the accepted features, which
    /// [`VirtioDevice::activate`] gets again.
    fn save(&self, to: &mut StateWriter) {
        let _ = to;
    }

    /// Restores the state written by [`VirtioDevice::save`].
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a device.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let _ = from;
        Ok(())
    }
}

/// Copies `space[offset..]` into `data` as far as both reach.
pub(crate) fn read_space(space: &[u8], offset: u64, data: &mut [u8]) {
    let rest = usize::try_from(offset)
        .ok()
        .and_then(|start| space.get(start..));
    for (to, from) in data.iter_mut().zip(rest.unwrap_or_default()) {
        *to = *from;
    }
}
