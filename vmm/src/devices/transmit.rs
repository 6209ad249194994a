//! Buffer of bytes that a serial port transmits in handlers in user mode, until a thread writes
//! them.

use crate::devices::locked::{HostClock, Served};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use trapless_devices::Clock;

/// Maximum number of buffered bytes; further ones are written by the vCPU's thread.
const ROOM: usize = 64 << 10;
const NEVER: u64 = u64::MAX;
/// Maximum delay of buffered bytes, in nanoseconds.
const DELAY: u64 = 1_000_000;

/// The buffer. Handlers and threads use it under the port's lock, the event loop at any time.
pub struct Transmit {
    waiting: spin::Mutex<Vec<u8>>,
    /// Its length, for use without the lock.
    length: AtomicUsize,
    out: std::sync::Mutex<Box<dyn Write + Send>>,
    clock: HostClock,
    /// When the event loop will poll by itself; [`NEVER`] if it will not.
    due: AtomicU64,
}

impl Transmit {
    /// A buffer in front of `out`, and the event loop's clock.
    pub fn new(out: Box<dyn Write + Send>, clock: HostClock) -> Arc<Self> {
        Arc::new(Self {
            waiting: spin::Mutex::new(Vec::with_capacity(ROOM)),
            length: AtomicUsize::new(0),
            out: out.into(),
            clock,
            due: AtomicU64::new(NEVER),
        })
    }

    /// Whether a handler can transmit a byte now without allocating. Only the port adds bytes.
    pub fn ready(&self) -> bool {
        self.length.load(Ordering::Relaxed) < ROOM
    }

    /// Whether there are bytes to write.
    pub fn waits(&self) -> bool {
        self.length.load(Ordering::Relaxed) != 0
    }

    /// Whether the event loop must be woken to write buffered bytes. To be called after a byte has
    /// been added: the lock orders both, so that either the loop sees the byte or this sees that
    /// the loop will not poll.
    pub fn forgotten(&self) -> bool {
        self.due.load(Ordering::Relaxed) == NEVER
    }

    /// Schedules a poll of the event loop, which must be woken for that.
    pub fn expect(&self) {
        let due = self.clock.now_ns() + DELAY;
        self.due.store(due, Ordering::SeqCst);
    }

    /// Writes buffered bytes.
    pub fn flush(&self) {
        self.write_out();
    }

    /// As [`flush`](Self::flush); `false` if there was nothing.
    fn write_out(&self) -> bool {
        // One writer at a time, to keep the order of bytes.
        let mut out = self
            .out
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let empty = Vec::with_capacity(ROOM);
        let bytes = {
            let mut waiting = self.waiting.lock();
            self.length.store(0, Ordering::Relaxed);
            std::mem::replace(&mut *waiting, empty)
        };
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        !bytes.is_empty()
    }
}

impl Served for Transmit {
    fn poll(&self) {
        if self.write_out() {
            self.expect();
        } else {
            // The next transmission wakes the loop; bytes added since are not lost.
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

impl PortEnd {
    fn add(&self, bytes: &[u8]) {
        let mut waiting = self.0.waiting.lock();
        if waiting.len() + bytes.len() > ROOM {
            drop(waiting);
            // In a thread, since a handler has checked `ready` before.
            self.0.flush();
            waiting = self.0.waiting.lock();
        }
        match bytes {
            // In a handler.
            [byte] => waiting.push(*byte),
            _ => waiting.extend_from_slice(bytes),
        }
        self.0.length.store(waiting.len(), Ordering::Relaxed);
    }
}

impl Write for PortEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    // In one call, without the loop of the standard library.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
