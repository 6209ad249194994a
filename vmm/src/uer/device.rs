//! What devices do in a handler in user mode.

use crate::bus::BusDevice;

/// How a device answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It has made the access.
    Done,
    /// It has made the access, and [`RedirectedDevice::settle`] is to be called before the guest
    /// goes on.
    Settle,
    /// It has done nothing: the access is to be made by [`BusDevice`], in the vCPU's thread.
    Left,
}

/// A device that can answer in a handler.
pub trait RedirectedDevice: BusDevice {
    /// Loads `len` (1, 2, 4 or 8) bytes at `offset`. Called in the handler: no system calls, no
    /// allocations, no panics.
    fn load(&self, offset: u64, len: u8) -> (Answer, u64);

    /// Stores the low `len` bytes of `value` at `offset`. Called in the handler, as
    /// [`load`](Self::load).
    fn store(&self, offset: u64, len: u8, value: u64) -> Answer;

    /// Does what accesses have left to do. Called in the vCPU's thread.
    fn settle(&self);
}
