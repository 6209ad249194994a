//! File system device (virtio 1.2, section 5.11): FUSE requests to a server of a shared folder, in
//! sequence.

use virtio_bindings::virtio_ids::VIRTIO_ID_FS;

use super::queue::{Chain, DriverFault, QueueIo};
use super::{VirtioDevice, read_space};
use crate::state::{StateError, StateReader, StateWriter};

/// Maximum length of a request and of a reply in bytes: 1 MiB of data, names and headers.
pub const MAX_MESSAGE: usize = (1 << 20) + (16 << 10);
/// Maximum length of a tag in bytes: the name by which a guest mounts the folder.
pub const MAX_TAG: usize = 36;

/// Urgent requests, and all others.
const QUEUES: [u16; 2] = [64, 256];
/// Offset of the number of queues for requests in the configuration.
const REQUEST_QUEUES: usize = MAX_TAG;

/// Handles the requests of a guest. All data of a shared folder passes here, so recording the
/// replies suffices to replay a run.
pub trait FileServer: Send {
    /// Handles a FUSE message, which is not trusted, and writes the reply with its header to
    /// `answer`, which is empty: at most `room` bytes. It stays empty if the guest expects none.
    fn answer(&mut self, request: &[u8], room: usize, answer: &mut Vec<u8>);

    /// The guest has reset the device: closes its files.
    fn reset(&mut self);

    /// Why a machine with this server cannot be saved; `None`: it can.
    fn obstacle(&self) -> Option<&'static str> {
        Some("it shares a folder (--share), whose files it may change; leave that out")
    }

    /// Appends the state that determines further replies.
    fn save(&self, to: &mut StateWriter) {
        let _ = to;
    }

    /// Restores the state written by [`save`](Self::save).
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a server.
    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let _ = from;
        Ok(())
    }
}

/// A virtio file system device.
pub struct Fs {
    server: Box<dyn FileServer>,
    config: [u8; MAX_TAG + 4],
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Fs {
    /// A device that guests mount by `tag` (truncated to [`MAX_TAG`] bytes), served by `server`.
    pub fn new(server: Box<dyn FileServer>, tag: &str) -> Self {
        let mut config = [0; MAX_TAG + 4];
        for (to, from) in config[..MAX_TAG].iter_mut().zip(tag.bytes()) {
            *to = from;
        }
        config[REQUEST_QUEUES] = 1;
        Self {
            server,
            config,
            request: Vec::new(),
            answer: Vec::new(),
        }
    }

    fn serve(&mut self, mut chain: Chain, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        let Some(len) = usize::try_from(chain.readable())
            .ok()
            .filter(|len| *len <= MAX_MESSAGE)
        else {
            return Err(DriverFault("file system request beyond 1 MiB"));
        };
        self.request.resize(len, 0);
        chain.read(io, &mut self.request)?;
        let room = chain.writable().min(MAX_MESSAGE as u64) as usize;
        self.answer.clear();
        self.server.answer(&self.request, room, &mut self.answer);
        self.answer.truncate(room);
        chain.write(io, &self.answer)?;
        io.complete(chain)
    }
}

impl VirtioDevice for Fs {
    fn device_id(&self) -> u32 {
        VIRTIO_ID_FS
    }

    fn name(&self) -> &'static str {
        "virtio-fs"
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &[u16] {
        &QUEUES
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        read_space(&self.config, offset, data);
    }

    fn notify(&mut self, queue: usize, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        while let Some(chain) = io.pop(queue)? {
            self.serve(chain, io)?;
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.server.reset();
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.server.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        self.server.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.server.restore(from)
    }
}
