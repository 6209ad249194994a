//! Suppression of events and output while a machine re-executes a part of its run.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use trapless_devices::DeviceEvents;

/// Whether the machine is before a point that it has reached already. Events and output of that
/// part have been reported.
#[derive(Clone, Default)]
pub(crate) struct Past(Arc<AtomicBool>);

impl Past {
    pub fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub fn set(&self, past: bool) {
        self.0.store(past, Relaxed);
    }
}

/// Reports driver errors once, not again during re-execution.
pub(crate) struct OnlyNewEvents {
    pub events: Box<dyn DeviceEvents>,
    pub past: Past,
}

impl DeviceEvents for OnlyNewEvents {
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        if !self.past.get() {
            self.events.guest_error(device, what);
        }
    }
}

/// Writes output once, not again during re-execution.
pub(crate) struct OnlyNew {
    out: Box<dyn Write + Send>,
    past: Past,
}

impl OnlyNew {
    pub fn boxed(out: Box<dyn Write + Send>, past: &Past) -> Box<dyn Write + Send> {
        let past = past.clone();
        Box::new(Self { out, past })
    }
}

impl Write for OnlyNew {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.past.get() {
            return Ok(bytes.len());
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
