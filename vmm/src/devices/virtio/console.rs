//! The virtio console with its type-ahead.

use crate::devices::input::{InputSink, TYPE_AHEAD, restore_input, save_input};
use crate::devices::locked::{Locked, Served};
use crate::devices::state::Stateful;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trapless_devices::virtio::VirtioMmio;
use trapless_devices::virtio::console::Console;
use trapless_devices::{StateError, StateReader, StateWriter};

/// Input of the virtio console.
pub struct ConsoleInput {
    device: Arc<Locked<VirtioMmio<Console>>>,
    ahead: Mutex<VecDeque<u8>>,
}

impl ConsoleInput {
    /// The input of `device`.
    pub fn new(device: Arc<Locked<VirtioMmio<Console>>>) -> Self {
        Self {
            device,
            ahead: Mutex::default(),
        }
    }

    fn ahead(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes as much as the console accepts; returns how much remains.
    fn drain(&self, more: &[u8]) -> usize {
        let mut ahead = self.ahead();
        ahead.extend(more);
        if !ahead.is_empty() {
            let taken = self
                .device
                .lock()
                .device_mut()
                .enqueue(ahead.make_contiguous());
            ahead.drain(..taken);
            self.device.poll();
        }
        ahead.len()
    }
}

impl Stateful for ConsoleInput {
    fn save(&self, to: &mut StateWriter) {
        save_input(&self.ahead(), to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        *self.ahead() = restore_input(from)?;
        Ok(())
    }
}

impl InputSink for ConsoleInput {
    fn push(&self, bytes: &[u8]) {
        self.drain(bytes);
    }

    fn full(&self) -> bool {
        self.drain(&[]) >= TYPE_AHEAD
    }
}
