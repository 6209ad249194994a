//! What lies between PCI functions and the rest of the machine: their accesses reach RAM, and their
//! messages the interrupt architecture when the bus is free.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::{DeviceId, Dma, GuestRam};
use trapless_iommu::Step;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

/// Who the IOMMU itself is where messages name a device: no function has such a routing ID.
pub(crate) const IOMMU: DeviceId = DeviceId(0xff_ffff);

/// A word that a device wrote outside RAM.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    pub device: DeviceId,
    pub addr: u64,
    pub data: u32,
}

/// Steps of the IOMMU for the sinks.
pub(crate) type Steps = Queue<Step>;

/// What devices have done that the bus does not know of yet, in that order. It takes all at the end
/// of the access or poll that made them do it.
#[derive(Clone)]
pub(crate) struct Queue<T>(Arc<Waiting<T>>);

struct Waiting<T> {
    /// There are some.
    any: AtomicBool,
    items: Mutex<Vec<T>>,
}

/// Messages on their way.
pub(crate) type Messages = Queue<Message>;

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Arc::new(Waiting {
            any: AtomicBool::new(false),
            items: Mutex::default(),
        }))
    }
}

impl<T> Queue<T> {
    pub fn push(&self, item: T) {
        self.lock().push(item);
        self.0.any.store(true, Relaxed);
    }

    /// Takes all out.
    pub fn take(&self) -> Vec<T> {
        // This is asked after each access of a hart.
        if !self.0.any.load(Relaxed) {
            return Vec::new();
        }
        self.0.any.store(false, Relaxed);
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Devices see physical addresses.
pub(crate) struct Direct {
    pub ram: Arc<GuestRam>,
    pub messages: Messages,
}

impl Dma for Direct {
    fn locate(
        &self,
        _device: DeviceId,
        address: u64,
        len: u64,
        _access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        Ok(Extent { address, len })
    }

    fn message(&self, device: DeviceId, address: u64, data: u32) {
        post(&self.ram, &self.messages, device, address, data);
    }
}

/// Writes a word to a physical address for a device.
pub(crate) fn post(ram: &GuestRam, messages: &Messages, device: DeviceId, addr: u64, data: u32) {
    if GuestMemoryBackend::address_in_range(ram, GuestAddress(addr)) {
        // It is aligned, so that all of it is in RAM.
        let _ = ram.write_slice(&data.to_le_bytes(), GuestAddress(addr));
    } else {
        messages.push(Message { device, addr, data });
    }
}
