//! Interface of devices to handlers in user mode.

use crate::bus::BusDevice;

/// Result of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The access was made.
    Done,
    /// The access was made, and [`RedirectedDevice::settle`] is to be called before the guest
    /// continues.
    Settle,
    /// Nothing was done: the access is to be made by [`BusDevice`], in the vCPU's thread.
    Left,
}

/// A device that can be accessed in a handler.
pub trait RedirectedDevice: BusDevice {
    /// Loads `len` (1, 2, 4 or 8) bytes at `offset`. Called in the handler: no system calls, no
    /// allocations, no panics.
    fn load(&self, offset: u64, len: u8) -> (Answer, u64);

    /// Stores the low `len` bytes of `value` at `offset`. Called in the handler, as
    /// [`load`](Self::load).
    fn store(&self, offset: u64, len: u8, value: u64) -> Answer;

    /// Completes work left by accesses. Called in the vCPU's thread.
    fn settle(&self);
}
