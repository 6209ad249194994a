//! What comes into a machine from outside, each at its virtual time. The same machine with the same
//! input does the same, so who keeps a record of it can repeat the run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use trapless_devices::virtio::net::NetBackend;
use trapless_devices::{StateError, StateReader, StateWriter};

/// Something from outside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Somebody types this on the console.
    Console(Vec<u8>),
    /// A frame comes through the network cable ([`Peripherals::plug_cable`]).
    ///
    /// [`Peripherals::plug_cable`]: crate::Peripherals::plug_cable
    Frame(Vec<u8>),
    /// Nothing, but time does not jump over it while all harts wait: whoever waits for something
    /// from outside looks then.
    Tick,
}

/// Takes the frames that a guest sends out of its machine.
pub type Uplink = Box<dyn FnMut(&[u8]) + Send>;

/// Frames beyond this many that no driver takes are dropped, as a switch does.
const MAX_FRAMES: usize = 1024;
/// Longest frame in bytes.
const MAX_FRAME: usize = 1 << 16;

/// Frames that have come and wait for the driver.
#[derive(Clone, Default)]
pub(crate) struct Frames(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Frames {
    /// A frame comes.
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

/// The machine's end of a cable that leads out of it.
pub(crate) struct Cable {
    /// Where the guest's frames go. `None`: nobody takes them, and what comes is input of a record.
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
