//! What a serial port transmits in handlers in user mode, until a thread writes it out.

use crate::devices::locked::{HostClock, Served};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trapless_devices::Clock;

/// Bytes that wait at most; more are written by the vCPU's thread.
const ROOM: usize = 64 << 10;
const NEVER: u64 = u64::MAX;
/// How long bytes wait, in nanoseconds.
const DELAY: u64 = 1_000_000;

/// The buffer. Handlers and threads use it under the port's lock, the event loop at any time.
pub struct Transmit {
    waiting: spin::Mutex<Vec<u8>>,
    out: std::sync::Mutex<Box<dyn Write + Send>>,
    clock: HostClock,
    /// When the event loop comes by itself; [`NEVER`] if it does not.
    due: AtomicU64,
}

impl Transmit {
    /// A buffer in front of `out`, and the event loop's clock.
    pub fn new(out: Box<dyn Write + Send>, clock: HostClock) -> Arc<Self> {
        Arc::new(Self {
            waiting: spin::Mutex::new(Vec::with_capacity(ROOM)),
            out: out.into(),
            clock,
            due: AtomicU64::new(NEVER),
        })
    }

    /// Whether a handler can transmit a byte now, without waiting or allocating.
    pub fn ready(&self) -> bool {
        self.waiting.try_lock().is_some_and(|w| w.len() < ROOM)
    }

    /// Whether there is something to write out, or it is being looked at.
    pub fn waits(&self) -> bool {
        self.waiting.try_lock().is_none_or(|w| !w.is_empty())
    }

    /// Whether the event loop has to be woken, so that it comes for what waits.
    pub fn forgotten(&self) -> bool {
        self.due.load(Ordering::SeqCst) == NEVER
    }

    /// The event loop is to come. It has to be woken to see that.
    pub fn expect(&self) {
        let due = self.clock.now_ns() + DELAY;
        self.due.store(due, Ordering::SeqCst);
    }

    /// Writes out what waits.
    pub fn flush(&self) {
        self.write_out();
    }

    /// As [`flush`](Self::flush); `false` if there was nothing.
    fn write_out(&self) -> bool {
        // Only one at a time, or bytes change places.
        let mut out = self
            .out
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let empty = Vec::with_capacity(ROOM);
        let bytes = std::mem::replace(&mut *self.waiting.lock(), empty);
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        !bytes.is_empty()
    }
}

impl Served for Transmit {
    fn poll(&self) {
        if self.write_out() {
            self.expect();
        } else {
            // Whoever transmits next wakes the loop; what came since is not forgotten.
            self.due.store(NEVER, Ordering::SeqCst);
            self.flush();
        }
    }

    fn due_in(&self) -> Option<u64> {
        match self.due.load(Ordering::SeqCst) {
            NEVER => None,
            due => Some(due.saturating_sub(self.clock.now_ns())),
        }
    }
}

impl Drop for Transmit {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The port's end.
pub struct PortEnd(pub Arc<Transmit>);

impl Write for PortEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting.lock();
        if waiting.len() + bytes.len() > ROOM {
            drop(waiting);
            // In a thread: a handler has asked `ready`.
            self.0.flush();
            waiting = self.0.waiting.lock();
        }
        waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
