//! Input of a machine from outside, each at its virtual time. The same machine with the same input
//! does the same, so a record of the input replays the run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use trapless_devices::virtio::net::NetBackend;
use trapless_devices::{StateError, StateReader, StateWriter};

/// Input from outside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Bytes typed on the console.
    Console(Vec<u8>),
    /// A frame from the network ([`Peripherals::plug_cable`]).
    ///
    /// [`Peripherals::plug_cable`]: crate::Peripherals::plug_cable
    Frame(Vec<u8>),
    /// No input, but a time that is not skipped while all harts wait: sources of input are polled
    /// then.
    Tick,
}

/// Callback for frames that a guest sends to the outside.
pub type Uplink = Box<dyn FnMut(&[u8]) + Send>;

/// Maximum number of queued frames; further ones are dropped, as a switch does.
const MAX_FRAMES: usize = 1024;
/// Maximum length of a frame in bytes.
const MAX_FRAME: usize = 1 << 16;

/// Received frames that are queued for the driver.
#[derive(Clone, Default)]
pub(crate) struct Frames(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Frames {
    /// Queues a frame.
    pub fn push(&self, frame: Vec<u8>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() < MAX_FRAMES {
            queue.push_back(frame);
        }
    }

    fn pop(&self) -> Option<Vec<u8>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }

    fn save(&self, to: &mut StateWriter) {
        let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to.number(queue.len() as u64);
        for frame in &*queue {
            to.bytes(frame);
        }
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.clear();
        for _ in 0..from.number::<u64>()? {
            queue.push_back(from.bytes(MAX_FRAME)?.into());
        }
        Ok(())
    }
}

/// Why a machine with such a cable cannot go back to a state that it had.
pub(crate) const CONNECTED: &str =
    "it is connected to a network outside (--net user); leave that out";

/// The machine's end of its network connection.
pub(crate) struct Cable {
    /// Receiver of the guest's frames. `None`: they are dropped, and incoming frames come from a
    /// record.
    pub out: Option<Uplink>,
    pub frames: Frames,
}

impl NetBackend for Cable {
    fn send(&mut self, frame: &[u8]) {
        if let Some(out) = &mut self.out {
            out(frame);
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.frames.pop().map(|next| *frame = next).is_some()
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.out.is_some().then_some(CONNECTED)
    }

    fn save(&self, to: &mut StateWriter) {
        self.frames.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.frames.restore(from)
    }
}
