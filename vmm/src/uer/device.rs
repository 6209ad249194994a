//! What devices do in a handler in user mode.

use crate::bus::BusDevice;
use crate::uer::access::Access;

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
    /// Makes an access at `offset`; a load's result is the return value's second part. Called in
    /// the handler: no system calls, no allocations, no panics.
    fn access(&self, offset: u64, access: &Access) -> (Answer, u64);

    /// Does what accesses have left to do. Called in the vCPU's thread.
    fn settle(&self);
}
