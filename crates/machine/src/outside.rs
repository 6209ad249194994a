//! What comes into a machine from outside, each at its virtual time. The same machine with the same
//! input does the same, so who keeps a record of it can repeat the run.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use trapless_devices::virtio::net::NetBackend;

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
}

/// The machine's end of a cable that leads out of it.
pub(crate) struct Cable {
    pub out: Uplink,
    pub frames: Frames,
}

impl NetBackend for Cable {
    fn send(&mut self, frame: &[u8]) {
        (self.out)(frame);
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.frames.pop().map(|next| *frame = next).is_some()
    }

    fn obstacle(&self) -> Option<&'static str> {
        Some("it is connected to a network outside (--net user); leave that out")
    }
}
