//! Power control: the register of SiFive's test finisher (`sifive,test1`, `sifive,test0`), to which
//! Linux's `syscon-poweroff` and `syscon-reboot` drivers and OpenSBI write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::state::{Persist, StateError, StateReader, StateWriter};
use crate::{MmioDevice, value_le};

/// Written to power off (test passed).
pub const FINISHER_PASS: u16 = 0x5555;
/// Written to reset the machine.
pub const FINISHER_RESET: u16 = 0x7777;
/// Written, with an exit code in bits 31:16, to report a failure.
pub const FINISHER_FAIL: u16 = 0x3333;

/// Request of the guest to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerRequest {
    /// Power off, success.
    Off,
    /// Reset and boot again.
    Reboot,
    /// Stop with this exit code, which is the guest's to choose (0 is possible).
    Fail(u16),
}

/// The request last written and not yet taken, shared between the device and the machine. A clone
/// is another handle of the same latch.
#[derive(Debug, Clone, Default)]
pub struct PowerLatch(Arc<AtomicU32>);

impl PowerLatch {
    /// The pending request, which stays pending.
    #[inline]
    pub fn get(&self) -> Option<PowerRequest> {
        decode(self.0.load(Ordering::Acquire))
    }

    /// Takes the pending request away.
    pub fn take(&self) -> Option<PowerRequest> {
        decode(self.0.swap(0, Ordering::AcqRel))
    }
}

/// The latch holds the register's value; 0 is none of the commands and so means "nothing pending".
#[inline]
fn decode(value: u32) -> Option<PowerRequest> {
    match value as u16 {
        FINISHER_PASS => Some(PowerRequest::Off),
        FINISHER_RESET => Some(PowerRequest::Reboot),
        FINISHER_FAIL => Some(PowerRequest::Fail((value >> 16) as u16)),
        _ => None,
    }
}

/// The test finisher: one write-only register at offset 0. It reads as zero; other values written
/// are ignored.
#[derive(Debug, Default)]
pub struct Syscon {
    latch: PowerLatch,
}

impl Syscon {
    /// A device that reports to `latch`.
    pub fn new(latch: PowerLatch) -> Self {
        Self { latch }
    }
}

/// It has no registers; the request is in the latch.
impl Persist for Syscon {
    fn save(&self, _to: &mut StateWriter) {}

    fn restore(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl MmioDevice for Syscon {
    fn read(&mut self, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        // A command is 16 bits wide: a byte store cannot hold one.
        let value = value_le(data) as u32;
        if offset == 0 && data.len() >= 2 && decode(value).is_some() {
            self.latch.0.store(value, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_become_requests() {
        let latch = PowerLatch::default();
        let mut syscon = Syscon::new(latch.clone());
        for (value, request) in [
            (0x5555_u32, Some(PowerRequest::Off)),
            (0x7777, Some(PowerRequest::Reboot)),
            (0x0042_3333, Some(PowerRequest::Fail(0x42))),
            (0x1234, None),
        ] {
            syscon.write(0, &value.to_le_bytes());
            assert_eq!(latch.take(), request);
        }
        syscon.write(4, &0x5555_u32.to_le_bytes());
        syscon.write(0, &[0x55]);
        assert_eq!(latch.take(), None);
        syscon.write(0, &[0x55, 0x55]);
        assert_eq!(
            latch.get(),
            Some(PowerRequest::Off),
            "get leaves it pending"
        );
        assert_eq!(latch.take(), Some(PowerRequest::Off));
        assert_eq!(latch.take(), None);
    }
}
