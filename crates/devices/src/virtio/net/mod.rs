//! Network device (virtio 1.2, section 5.1): one receive and one transmit queue, no offloads.

mod peer;
mod switch;
#[cfg(target_os = "linux")]
mod tap;

pub use peer::Peer;
pub use switch::{SwitchPort, switch};
#[cfg(target_os = "linux")]
pub use tap::{Tap, TapError};

use std::collections::VecDeque;

use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::{VIRTIO_NET_F_MAC, VIRTIO_NET_F_STATUS, VIRTIO_NET_S_LINK_UP};

use crate::state::{StateError, StateReader, StateWriter};

use super::queue::{DriverFault, QueueIo};
use super::{VirtioDevice, read_space};

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
/// Largest size of the receive and the transmit queue.
pub const QUEUE_SIZES: [u16; 2] = [256, 256];
/// Device type.
pub const DEVICE: u32 = VIRTIO_ID_NET;
/// Features of the device type: no offloads.
pub const FEATURES: u64 = 1 << VIRTIO_NET_F_MAC | 1 << VIRTIO_NET_F_STATUS;
/// struct virtio_net_hdr with `num_buffers`, as VIRTIO_F_VERSION_1 has it (section 5.1.6.1).
const HEADER: usize = 12;
/// The same without it, for drivers that did not negotiate that feature (section 5.1.6.1).
const LEGACY_HEADER: usize = 10;
const NUM_BUFFERS_OFFSET: usize = 10;
/// Maximum length of a frame: a 64 KiB packet and its Ethernet header. Longer ones are dropped.
pub const MAX_FRAME: usize = 65_536 + 18;
/// Minimum length of a frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;
/// Maximum number of frames that a back-end of this module queues for the guest; further ones are
/// dropped, as a switch does.
const HELD_FRAMES: usize = 256;
/// Maximum number of frames taken from a back-end in one call, so that a flood cannot block it.
const FRAMES_PER_CALL: usize = 512;

/// The other end of the network cable. A frame begins with the Ethernet header and has no checksum
/// at its end.
pub trait NetBackend: Send {
    /// Sends a frame of the guest, or drops it if that is not possible.
    fn send(&mut self, frame: &[u8]);

    /// Puts the next frame for the guest into `frame`, replacing what it held. `false`: there is
    /// none now.
    ///
    /// Called when the device is polled and when the guest provides buffers, and not while the
    /// guest has none: frames are then queued here.
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool;

    /// Whether there is a frame for the guest that another device has sent.
    fn waits(&self) -> bool {
        false
    }

    /// From now on the driver takes frames, or does not any more.
    fn driver_ready(&mut self, ready: bool) {
        let _ = ready;
    }

    /// Why a machine with this back-end cannot be saved; `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        None
    }

    /// Appends frames that are queued only here.
    fn save(&self, to: &mut StateWriter) {
        let _ = to;
    }

    /// Restores the state written by [`save`](Self::save).
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a back-end.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let _ = from;
        Ok(())
    }
}

/// Returns every frame to the guest, unchanged.
#[derive(Debug, Default)]
pub struct Loopback(VecDeque<Vec<u8>>);

impl NetBackend for Loopback {
    fn send(&mut self, frame: &[u8]) {
        if self.0.len() < HELD_FRAMES {
            self.0.push_back(frame.to_vec());
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        next_held(&mut self.0, frame)
    }
}

fn next_held(held: &mut VecDeque<Vec<u8>>, frame: &mut Vec<u8>) -> bool {
    held.pop_front().map(|next| *frame = next).is_some()
}

/// Reads configuration space of a card with address `mac` whose link is up.
pub fn read_config(mac: [u8; 6], offset: u64, data: &mut [u8]) {
    let mut config = [0; 8];
    config[..6].copy_from_slice(&mac);
    config[6..].copy_from_slice(&(VIRTIO_NET_S_LINK_UP as u16).to_le_bytes());
    read_space(&config, offset, data);
}

/// A virtio network device on a [`NetBackend`].
pub struct Net {
    backend: Box<dyn NetBackend>,
    mac: [u8; 6],
    /// Bytes of the header before each frame, as negotiated.
    header: usize,
    /// A header and a frame for the guest, kept while the guest has no buffer; empty: none.
    pending: Vec<u8>,
    frame: Vec<u8>,
}

impl Net {
    /// A network card with address `mac`, connected to `backend`.
    pub fn new(backend: Box<dyn NetBackend>, mac: [u8; 6]) -> Self {
        Self {
            backend,
            mac,
            header: HEADER,
            pending: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Moves frames to the guest while it has buffers. Without buffers the back-end is not drained.
    fn receive(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        for _ in 0..FRAMES_PER_CALL {
            if self.pending.is_empty() && !self.next_frame() {
                return Ok(());
            }
            let Some(mut chain) = io.pop(RECEIVE)? else {
                return Ok(());
            };
            if chain.writable() < self.pending.len() as u64 {
                io.guest_error("receive buffer too small for a frame, which is dropped");
                self.pending.clear();
                io.unpop(chain);
                continue;
            }
            chain.write(io, &self.pending)?;
            self.pending.clear();
            io.complete(chain)?;
        }
        io.poll_again();
        Ok(())
    }

    /// Fetches the next frame and puts a header before it.
    fn next_frame(&mut self) -> bool {
        while self.backend.receive(&mut self.frame) {
            if (MIN_FRAME..=MAX_FRAME).contains(&self.frame.len()) {
                self.pending.resize(self.header, 0);
                // The frame is in one buffer; the count is set even without mergeable buffers.
                if let Some(buffers) = self.pending.get_mut(NUM_BUFFERS_OFFSET) {
                    *buffers = 1;
                }
                self.pending.extend_from_slice(&self.frame);
                return true;
            }
        }
        false
    }

    fn transmit(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        while let Some(mut chain) = io.pop(TRANSMIT)? {
            let len = chain.readable();
            let header = self.header;
            if (header + MIN_FRAME..=header + MAX_FRAME).contains(&(len as usize)) {
                self.frame.resize(len as usize, 0);
                chain.read(io, &mut self.frame)?;
                // No offload was negotiated, so the header is ignored.
                self.backend.send(&self.frame[header..]);
            } else {
                io.guest_error("frame too short or too long, dropped");
            }
            io.complete(chain)?;
        }
        Ok(())
    }
}

impl VirtioDevice for Net {
    fn device_id(&self) -> u32 {
        DEVICE
    }

    fn name(&self) -> &'static str {
        "virtio-net"
    }

    fn features(&self) -> u64 {
        FEATURES
    }

    fn queue_sizes(&self) -> &[u16] {
        &QUEUE_SIZES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        read_config(self.mac, offset, data);
    }

    fn activate(&mut self, features: u64) {
        let modern = features & 1 << VIRTIO_F_VERSION_1 != 0;
        self.header = if modern { HEADER } else { LEGACY_HEADER };
        self.backend.driver_ready(true);
    }

    fn notify(&mut self, queue: usize, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        if queue == TRANSMIT {
            self.transmit(io)?;
        }
        // A peer replies at once; and new receive buffers allow queued frames to be delivered.
        self.receive(io)
    }

    fn poll(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        self.receive(io)
    }

    fn waits(&self) -> bool {
        // With one pending it is the guest who has to do something.
        self.pending.is_empty() && self.backend.waits()
    }

    fn reset(&mut self) {
        self.pending.clear();
        self.backend.driver_ready(false);
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.backend.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        to.bytes(&self.pending);
        self.backend.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.pending = from.bytes(HEADER + MAX_FRAME)?.to_vec();
        self.backend.restore(from)
    }
}
