//! Device models behind locks, shared by vCPU threads and the event loop.

use crate::bus::BusDevice;
use crate::devices::state::Stateful;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use trapless_devices::{Clock, MmioDevice, Persist, StateError, StateReader, StateWriter};
use vmm_sys_util::eventfd::EventFd;

/// Host time for device models, in nanoseconds since it was started. Copies show the same time.
#[derive(Clone, Copy)]
pub struct HostClock(Instant);

impl HostClock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for HostClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A device model that the event loop polls.
pub trait Served: Send + Sync {
    /// Lets the device process data of its back end or expired timers.
    fn poll(&self);
    /// Nanoseconds until it must be polled: 0 at once, `None` only when its back end has data.
    fn due_in(&self) -> Option<u64>;
}

/// A device model behind a lock.
pub struct Locked<D> {
    device: Mutex<D>,
    /// Wakes the event loop when the device must be polled.
    wake: Arc<EventFd>,
    clock: HostClock,
}

impl<D: MmioDevice> Locked<D> {
    /// `wake` is the event loop's, `clock` the device's.
    pub fn new(device: D, wake: &Arc<EventFd>, clock: HostClock) -> Self {
        Self {
            device: Mutex::new(device),
            wake: Arc::clone(wake),
            clock,
        }
    }

    /// The device. A panic of another thread inside it leaves no unsafe state behind, so poisoning
    /// is ignored.
    pub fn lock(&self) -> MutexGuard<'_, D> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` on the device and wakes the event loop if the device must be polled after that.
    pub fn with(&self, work: impl FnOnce(&mut D)) {
        let mut device = self.lock();
        work(&mut device);
        if device.needs_poll() || device.next_deadline().is_some() {
            let _ = self.wake.write(1);
        }
    }
}

impl<D: MmioDevice> BusDevice for Locked<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.lock().read(offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.with(|device| device.write(offset, data));
    }
}

impl<D: MmioDevice> Served for Locked<D> {
    fn poll(&self) {
        self.with(MmioDevice::poll);
    }

    fn due_in(&self) -> Option<u64> {
        let device = self.lock();
        if device.needs_poll() {
            return Some(0);
        }
        let now = self.clock.now_ns();
        device.next_deadline().map(|at| at.saturating_sub(now))
    }
}

impl<D: MmioDevice + Persist> Stateful for Locked<D> {
    fn save(&self, to: &mut StateWriter) {
        self.lock().save(to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.lock().restore(from)
    }
}
