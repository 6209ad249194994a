//! A level-triggered wire that a device may drive in a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trapless_devices::IrqLine;

/// The wire. Changes made in a handler are deferred to [`settle`](Self::settle), if they need
/// system calls. Driven under the device's lock.
pub struct DeferredLine {
    inner: Box<dyn IrqLine>,
    /// Whether `inner` needs no system calls.
    silent: bool,
    /// Whether a handler drives it.
    in_handler: AtomicBool,
    level: AtomicBool,
    /// Whether `inner` has another level.
    waiting: AtomicBool,
}

impl DeferredLine {
    /// A wire in front of `inner`, which is `silent` if it needs neither system calls nor locks.
    pub fn new(inner: Box<dyn IrqLine>, silent: bool) -> Arc<Self> {
        Arc::new(Self {
            inner,
            silent,
            in_handler: AtomicBool::new(false),
            level: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
        })
    }

    /// Calls `work`, which may drive the wire, in a handler.
    pub fn in_handler<T>(&self, work: impl FnOnce() -> T) -> T {
        self.in_handler.store(!self.silent, Ordering::Relaxed);
        let result = work();
        self.in_handler.store(false, Ordering::Relaxed);
        result
    }

    /// Whether there is a deferred change.
    pub fn waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Makes the deferred change.
    pub fn settle(&self) {
        if self.waiting.swap(false, Ordering::Relaxed) {
            self.inner.set(self.level.load(Ordering::Relaxed));
        }
    }
}

/// The device's end.
pub struct DeviceEnd(pub Arc<DeferredLine>);

impl IrqLine for DeviceEnd {
    fn set(&self, high: bool) {
        let line = &self.0;
        // Under the device's lock it is not changed otherwise in between.
        let changed = line.level.load(Ordering::Relaxed) != high;
        line.level.store(high, Ordering::Relaxed);
        if line.in_handler.load(Ordering::Relaxed) {
            if changed {
                // A second change returns to the level of `inner`.
                line.waiting.fetch_xor(true, Ordering::Relaxed);
            }
        } else if changed || !line.silent {
            line.waiting.store(false, Ordering::Relaxed);
            line.inner.set(high);
        }
    }
}

// SAFETY: `inner` is driven by one thread at a time, the one that holds the device's lock.
unsafe impl Sync for DeferredLine {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<bool>>>);

    impl IrqLine for Log {
        fn set(&self, high: bool) {
            self.0.lock().unwrap().push(high);
        }
    }

    #[test]
    fn what_a_handler_changes_waits_to_be_settled() {
        let log = Log::default();
        let line = DeferredLine::new(Box::new(log.clone()), false);
        let end = DeviceEnd(Arc::clone(&line));
        line.in_handler(|| end.set(false));
        assert!(!line.waiting(), "it is low");
        line.in_handler(|| end.set(true));
        assert!(line.waiting() && log.0.lock().unwrap().is_empty());
        line.settle();
        line.settle();
        assert_eq!(*log.0.lock().unwrap(), [true]);
        // A later change in another thread overtakes what waits.
        line.in_handler(|| end.set(false));
        end.set(true);
        line.settle();
        assert_eq!(*log.0.lock().unwrap(), [true, true]);
    }

    #[test]
    fn a_silent_wire_is_driven_at_once() {
        let log = Log::default();
        let line = DeferredLine::new(Box::new(log.clone()), true);
        line.in_handler(|| DeviceEnd(Arc::clone(&line)).set(true));
        assert_eq!(*log.0.lock().unwrap(), [true]);
        assert!(!line.waiting());
    }
}
