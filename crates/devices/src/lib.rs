//! UART, virtio devices, RTC and power: shared by the machine and the VMM.
//!
//! ```text
//!   machine (one host thread)          VMM (a thread per vCPU + an event loop)
//!            \                              /
//!             MmioDevice: read, write, poll, next_deadline
//!            /          |            |            \
//!          Uart    GoldfishRtc    Syscon      VirtioMmio<D: VirtioDevice>
//!                                                 D = Block, Console, Net, Rng
//!                                                     |
//!                               back-ends: files, overlays, Peer, Tap, seeded or host entropy
//! ```
//!
//! A device is passive: it acts only inside a call of [`MmioDevice`], never from a thread or a
//! timer of its own, so the caller decides when things happen. The machine calls
//! [`MmioDevice::poll`] at fixed virtual times and stays deterministic; the VMM calls it when a
//! file descriptor becomes readable. The VMM puts each device behind a lock.
//!
//! Everything from the guest (offsets, widths, ring contents, descriptors) is untrusted: it may
//! only stop the device to which it was sent.

pub mod ats;
pub mod dma;
pub mod rtc;
pub mod state;
pub mod syscon;
pub mod uart;
pub mod virtio;

pub use dma::{DeviceId, DeviceMemory, Dma};
pub use rtc::GoldfishRtc;
pub use state::{Persist, StateError, StateReader, StateWriter};
pub use syscon::{PowerLatch, PowerRequest, Syscon};
pub use uart::Uart;

/// The guest's RAM. Devices hold an `Arc` of it; a hart (or KVM) maps the same host memory.
pub type GuestRam = vm_memory::GuestMemoryMmap<()>;

/// A device reached through a window of physical addresses. Offsets are relative to the window.
///
/// Any offset and any length is allowed: unimplemented registers read as zero and ignore writes.
pub trait MmioDevice: Send {
    /// A load of `data.len()` bytes (1, 2, 4 or 8, little-endian). Every byte of `data` is written.
    fn read(&mut self, offset: u64, data: &mut [u8]);

    /// A store of `data.len()` bytes (1, 2, 4 or 8, little-endian).
    fn write(&mut self, offset: u64, data: &[u8]);

    /// Handles available input of a back-end or the clock: bytes, packets, an expired alarm.
    fn poll(&mut self) {}

    /// The time at which `poll` has to be called next, in nanoseconds of the device's [`Clock`].
    /// `None`: no time is set.
    fn next_deadline(&self) -> Option<u64> {
        None
    }

    /// Whether the device interrupted its work to bound one call, and needs `poll` soon.
    fn needs_poll(&self) -> bool {
        false
    }

    /// Whether the device can write guest memory by itself.
    fn writes_memory(&self) -> bool {
        false
    }
}

/// A level-triggered interrupt wire. Setting the present level is allowed and has no effect.
pub trait IrqLine: Send {
    /// Drives the wire high (asserted) or low.
    fn set(&self, high: bool);

    /// A new condition occurred while the wire was high for another one. Level-triggered inputs are
    /// not affected, which is the default; edge-triggered ones see an edge.
    fn again(&self) {}
}

/// Time source of devices: virtual time in the machine, host time in the VMM.
pub trait Clock: Send {
    /// Nanoseconds since a fixed origin; never goes backwards.
    fn now_ns(&self) -> u64;
}

/// Callbacks for errors of guests that a device notices. The default ignores them.
pub trait DeviceEvents: Send {
    /// The driver of `device` broke a rule; `what` is a short constant text.
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        let _ = (device, what);
    }
}

/// Ignores all events.
impl DeviceEvents for () {}

/// A wire that is not connected.
impl IrqLine for () {
    fn set(&self, _high: bool) {}
}

/// Copies the little-endian `value` into a load of any length; bytes beyond the eighth are zero.
pub fn fill_le(data: &mut [u8], value: u64) {
    data.fill(0);
    for (byte, part) in data.iter_mut().zip(value.to_le_bytes()) {
        *byte = part;
    }
}

/// The little-endian value of a store; bytes beyond the eighth are ignored.
pub fn value_le(data: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (part, byte) in bytes.iter_mut().zip(data) {
        *part = *byte;
    }
    u64::from_le_bytes(bytes)
}
