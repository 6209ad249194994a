//! Registers of the transport that the driver reads, and clears bits in, without a call of the
//! device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use virtio_bindings::virtio_mmio::*;

/// Memory that serves a guest's loads, and in which its acknowledgements clear bits.
pub trait Shadow: Send + Sync {
    /// The register at `offset`, one of [`SHADOWED`].
    fn register(&self, offset: u32) -> &AtomicU32;
}

/// Registers in the shadow. The others depend on a selector, or change when they are read.
pub const SHADOWED: [u32; 7] = [
    VIRTIO_MMIO_MAGIC_VALUE,
    VIRTIO_MMIO_VERSION,
    VIRTIO_MMIO_DEVICE_ID,
    VIRTIO_MMIO_VENDOR_ID,
    VIRTIO_MMIO_INTERRUPT_STATUS,
    VIRTIO_MMIO_STATUS,
    VIRTIO_MMIO_CONFIG_GENERATION,
];

/// Constant value of `InterruptStatus` if interrupts come from outside this process, which cannot
/// write there: used buffers. The driver then checks its queues.
pub const ALWAYS: u32 = VIRTIO_MMIO_INT_VRING;

/// Stores to the first of these registers clear bits of the second.
pub const ACKNOWLEDGEMENT: (u32, u32) = (VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INTERRUPT_STATUS);

/// `InterruptStatus`: in the shadow if there is one.
pub(super) enum InterruptStatus {
    /// Only the device changes it.
    Own(u32),
    /// The guest clears bits of it at any time.
    Shared(Arc<dyn Shadow>),
    /// It is always [`ALWAYS`].
    Fixed(Arc<dyn Shadow>),
}

impl InterruptStatus {
    pub fn get(&self) -> u32 {
        match self {
            Self::Own(value) => *value,
            Self::Shared(shadow) => status_of(&**shadow).load(Ordering::SeqCst),
            Self::Fixed(_) => ALWAYS,
        }
    }

    /// Sets bits, after data for the driver has been written.
    pub fn set(&mut self, bits: u32) {
        match self {
            Self::Own(value) => *value |= bits,
            Self::Shared(shadow) => {
                status_of(&**shadow).fetch_or(bits, Ordering::SeqCst);
            }
            Self::Fixed(_) => {}
        }
    }

    pub fn clear(&mut self, bits: u32) {
        match self {
            Self::Own(value) => *value &= !bits,
            Self::Shared(shadow) => {
                status_of(&**shadow).fetch_and(!bits, Ordering::SeqCst);
            }
            Self::Fixed(_) => {}
        }
    }

    /// Makes the status always [`ALWAYS`], if there is a shadow.
    pub fn fix(&mut self) {
        if let Self::Shared(shadow) = self {
            status_of(&**shadow).store(ALWAYS, Ordering::SeqCst);
            *self = Self::Fixed(Arc::clone(shadow));
        }
    }

    /// Writes another register to the shadow, if there is one.
    pub fn publish(&self, register: u32, value: u32) {
        if let Self::Shared(shadow) | Self::Fixed(shadow) = self {
            shadow.register(register).store(value, Ordering::SeqCst);
        }
    }
}

fn status_of(shadow: &dyn Shadow) -> &AtomicU32 {
    shadow.register(VIRTIO_MMIO_INTERRUPT_STATUS)
}
