//! The link between guest and gateway as a device of smoltcp.

use std::collections::VecDeque;

use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Maximum number of queued frames in one direction; further ones are dropped.
const HELD: usize = 1024;
/// Maximum length of a frame: an Ethernet header and 1500 bytes.
pub const MAX_FRAME: usize = 1514;

/// Queued frames.
#[derive(Default)]
pub struct Link {
    from_guest: VecDeque<Vec<u8>>,
    to_guest: VecDeque<Vec<u8>>,
}

impl Link {
    /// A frame of the guest for the stack.
    pub fn receive_frame(&mut self, frame: &[u8]) {
        if self.from_guest.len() < HELD {
            self.from_guest.push_back(frame.to_vec());
        }
    }

    /// A frame for the guest.
    pub fn send_frame(&mut self, frame: Vec<u8>) {
        if self.to_guest.len() < HELD {
            self.to_guest.push_back(frame);
        }
    }

    /// The next frame for the guest.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.to_guest.pop_front()
    }
}

/// A frame of the guest.
pub struct Received(Vec<u8>);

/// Room for a frame to the guest.
pub struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let frame = self.from_guest.pop_front()?;
        Some((Received(frame), Sending(&mut self.to_guest)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        (self.to_guest.len() < HELD).then_some(Sending(&mut self.to_guest))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MAX_FRAME;
        capabilities
    }
}

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.push_back(frame);
        result
    }
}
