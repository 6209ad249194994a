//! Console device with a single port (virtio 1.2, section 5.3): queue 0 to the guest, queue 1 from
//! it.

use std::collections::VecDeque;
use std::io::Write;

use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;

use crate::state::{StateError, StateReader, StateWriter};

use super::queue::{DriverFault, QueueIo};
use super::{VirtioDevice, read_space};

/// VIRTIO_CONSOLE_F_SIZE: columns and rows are valid.
const F_SIZE: u64 = 1 << 0;
/// VIRTIO_CONSOLE_F_EMERG_WRITE: a byte written to the configuration is output at once, before any
/// set-up.
const F_EMERG_WRITE: u64 = 1 << 2;
const EMERG_WRITE_OFFSET: u64 = 8;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const QUEUE_SIZE: u16 = 64;
/// Input held while the guest has no buffers for it, in bytes.
const INPUT_LIMIT: usize = 4096;
/// Maximum number of bytes of one buffer of the guest; a longer one is truncated.
const MAX_OUTPUT: u64 = 1 << 20;
const CHUNK: usize = 4096;

/// A virtio console. Output that cannot be written is lost.
pub struct Console {
    out: Box<dyn Write + Send>,
    input: VecDeque<u8>,
    columns: u16,
    rows: u16,
}

impl Console {
    /// A console of 80 by 25 characters that writes to `out`.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out,
            input: VecDeque::new(),
            columns: 80,
            rows: 25,
        }
    }

    /// Sets the size in characters. Call [`super::VirtioMmio::config_changed`] afterwards.
    pub fn set_size(&mut self, columns: u16, rows: u16) {
        (self.columns, self.rows) = (columns, rows);
    }

    /// Takes input for the guest and returns how many bytes were taken; keep the rest and offer it
    /// again later. It reaches the guest at the next poll.
    pub fn enqueue(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(INPUT_LIMIT - self.input.len());
        self.input.extend(&bytes[..taken]);
        taken
    }

    fn receive(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        while !self.input.is_empty() {
            let Some(mut chain) = io.pop(RECEIVE)? else {
                break;
            };
            if chain.writable() == 0 {
                io.guest_error("receive buffer without room");
            }
            let taken = chain.write(io, self.input.make_contiguous())?;
            self.input.drain(..taken);
            io.complete(chain)?;
        }
        Ok(())
    }

    fn transmit(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        while let Some(mut chain) = io.pop(TRANSMIT)? {
            if chain.readable() > MAX_OUTPUT {
                io.guest_error("output buffer beyond 1 MiB is cut");
            }
            let mut left = chain.readable().min(MAX_OUTPUT) as usize;
            let mut chunk = [0; CHUNK];
            while left > 0 {
                let read = chain.read(io, &mut chunk[..left.min(CHUNK)])?;
                let _ = self.out.write_all(&chunk[..read]);
                left -= read;
            }
            io.complete(chain)?;
        }
        let _ = self.out.flush();
        Ok(())
    }
}

impl VirtioDevice for Console {
    fn device_id(&self) -> u32 {
        VIRTIO_ID_CONSOLE
    }

    fn name(&self) -> &'static str {
        "virtio-console"
    }

    fn features(&self) -> u64 {
        F_SIZE | F_EMERG_WRITE
    }

    fn queue_sizes(&self) -> &[u16] {
        &[QUEUE_SIZE, QUEUE_SIZE]
    }

    fn read_config(&self, offset: u64, data: &mut [u8]) {
        let mut config = [0; 12];
        config[0..2].copy_from_slice(&self.columns.to_le_bytes());
        config[2..4].copy_from_slice(&self.rows.to_le_bytes());
        config[4..8].copy_from_slice(&1_u32.to_le_bytes());
        read_space(&config, offset, data);
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) {
        if let (EMERG_WRITE_OFFSET, Some(byte)) = (offset, data.first()) {
            let _ = self.out.write_all(&[*byte]).and_then(|()| self.out.flush());
        }
    }

    fn notify(&mut self, queue: usize, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        if queue == TRANSMIT {
            self.transmit(io)
        } else {
            self.receive(io)
        }
    }

    fn poll(&mut self, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        self.receive(io)
    }

    fn save(&self, to: &mut StateWriter) {
        let (first, second) = self.input.as_slices();
        to.bytes(&[first, second].concat());
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.input = from.bytes(INPUT_LIMIT)?.iter().copied().collect();
        Ok(())
    }
}
