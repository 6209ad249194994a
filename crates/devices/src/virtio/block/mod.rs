//! Block device (virtio 1.2, section 5.2): one request queue, 512-byte sectors, write-back cache
//! with flush.

mod disk;
mod overlay;

pub use disk::{Disk, DiskError, RawDisk};
pub use overlay::Overlay;

use virtio_bindings::virtio_blk::*;
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;

use super::queue::{Chain, DriverFault, QueueIo};
use super::{VirtioDevice, read_space};
use crate::state::{StateError, StateReader, StateWriter};

/// Size of a sector in bytes: the unit of addresses and of the capacity, whatever the disk's block
/// size.
pub const SECTOR: u64 = 512;
/// Most bytes that one request may transfer; a longer one fails with an I/O error. Linux asks for
/// 1.25 MiB at most unless its `max_sectors_kb` is raised.
pub const MAX_TRANSFER: u64 = 16 << 20;

const QUEUE_SIZE: u16 = 256;
/// Data segments of a request: the queue less the header and the status byte.
const SEG_MAX: u32 = QUEUE_SIZE as u32 - 2;
/// Limits of one discard or write-zeroes request: the bytes to clear (as many as a transfer) and
/// the ranges.
const MAX_CLEAR_SECTORS: u32 = (MAX_TRANSFER / SECTOR) as u32;
const MAX_CLEAR_RANGES: u32 = 16;
const CHUNK: usize = 64 << 10;
const HEADER: usize = 16;
const ID: usize = VIRTIO_BLK_ID_BYTES as usize;

/// A virtio block device on a [`Disk`].
pub struct Block {
    disk: Box<dyn Disk>,
    id: [u8; ID],
    config: [u8; 60],
    chunk: Vec<u8>,
}

/// Status of a failed request.
enum Failure {
    /// Status VIRTIO_BLK_S_IOERR.
    Io,
    /// Status VIRTIO_BLK_S_UNSUPP.
    Unsupported,
    Fault(DriverFault),
}

impl From<DriverFault> for Failure {
    fn from(fault: DriverFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<std::io::Error> for Failure {
    fn from(_: std::io::Error) -> Self {
        // The driver only gets "I/O error"; the protocol has no field for the cause.
        Self::Io
    }
}

impl Block {
    /// A device on `disk` with the id `serial` (truncated to 20 bytes).
    pub fn new(disk: Box<dyn Disk>, serial: &str) -> Self {
        let mut id = [0; ID];
        for (to, from) in id.iter_mut().zip(serial.bytes()) {
            *to = from;
        }
        let mut config = [0; 60];
        config[0..8].copy_from_slice(&disk.sectors().to_le_bytes());
        config[12..16].copy_from_slice(&SEG_MAX.to_le_bytes());
        config[20..24].copy_from_slice(&(SECTOR as u32).to_le_bytes());
        config[36..40].copy_from_slice(&MAX_CLEAR_SECTORS.to_le_bytes());
        config[40..44].copy_from_slice(&MAX_CLEAR_RANGES.to_le_bytes());
        // Discard in units of a page, which is also the unit of an overlay.
        config[44..48].copy_from_slice(&8_u32.to_le_bytes());
        config[48..52].copy_from_slice(&MAX_CLEAR_SECTORS.to_le_bytes());
        config[52..56].copy_from_slice(&MAX_CLEAR_RANGES.to_le_bytes());
        Self {
            disk,
            id,
            config,
            chunk: vec![0; CHUNK],
        }
    }

    /// The disk behind the device.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    fn serve(&mut self, mut chain: Chain, io: &mut QueueIo<'_>) -> Result<(), DriverFault> {
        let mut header = [0; HEADER];
        if chain.read(io, &mut header)? != HEADER {
            return Err(DriverFault("block request without a complete header"));
        }
        // The last writable byte is the status; those before it are for data.
        let Some(room) = chain.writable().checked_sub(1) else {
            return Err(DriverFault("block request without a status byte"));
        };
        let (kind, sector) = (value(&header, 0, 4) as u32, value(&header, 8, 8));
        let status = match self.execute(kind, sector, room, &mut chain, io) {
            Ok(()) => VIRTIO_BLK_S_OK,
            Err(Failure::Io) => VIRTIO_BLK_S_IOERR,
            Err(Failure::Unsupported) => VIRTIO_BLK_S_UNSUPP,
            Err(Failure::Fault(fault)) => return Err(fault),
        };
        chain.skip_writable(chain.writable() - 1);
        chain.write(io, &[status as u8])?;
        io.complete(chain)
    }

    fn execute(
        &mut self,
        kind: u32,
        sector: u64,
        room: u64,
        chain: &mut Chain,
        io: &mut QueueIo<'_>,
    ) -> Result<(), Failure> {
        match kind {
            VIRTIO_BLK_T_IN => {
                let mut at = self.check_range(sector, room, io)?;
                let mut left = room as usize;
                while left > 0 {
                    let chunk = &mut self.chunk[..left.min(CHUNK)];
                    self.disk.read(at, chunk)?;
                    chain.write(io, chunk)?;
                    at += chunk.len() as u64;
                    left -= chunk.len();
                }
            }
            VIRTIO_BLK_T_OUT => {
                let mut left = chain.readable() as usize;
                let mut at = self.check_range(sector, left as u64, io)?;
                self.check_writable(io)?;
                while left > 0 {
                    let chunk = &mut self.chunk[..left.min(CHUNK)];
                    chain.read(io, chunk)?;
                    self.disk.write(at, chunk)?;
                    at += chunk.len() as u64;
                    left -= chunk.len();
                }
            }
            VIRTIO_BLK_T_FLUSH => self.disk.flush()?,
            VIRTIO_BLK_T_GET_ID => {
                let len = ID.min(room as usize);
                chain.write(io, &self.id[..len])?;
            }
            VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES => self.clear(kind, chain, io)?,
            _ => return Err(Failure::Unsupported),
        }
        Ok(())
    }

    /// Discard and write-zeroes: ranges of 16 bytes each. Both leave zeroes here.
    fn clear(&mut self, kind: u32, chain: &mut Chain, io: &mut QueueIo<'_>) -> Result<(), Failure> {
        const RANGE: usize = 16;
        self.check_writable(io)?;
        let ranges = chain.readable() / RANGE as u64;
        if chain.readable() % RANGE as u64 != 0 || !(1..=MAX_CLEAR_RANGES.into()).contains(&ranges)
        {
            io.guest_error("discard or write-zeroes request with a bad number of ranges");
            return Err(Failure::Io);
        }
        let mut total = 0;
        for _ in 0..ranges {
            let mut range = [0; RANGE];
            chain.read(io, &mut range)?;
            let (sector, sectors, flags) = (
                value(&range, 0, 8),
                value(&range, 8, 4),
                value(&range, 12, 4),
            );
            let unmap = u64::from(VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
            let known = if kind == VIRTIO_BLK_T_WRITE_ZEROES {
                unmap
            } else {
                0
            };
            if flags & !known != 0 {
                return Err(Failure::Unsupported);
            }
            let len = sectors * SECTOR;
            total += len;
            if total > MAX_TRANSFER {
                io.guest_error("discard or write-zeroes request beyond the limit");
                return Err(Failure::Io);
            }
            let at = self.check_range(sector, len, io)?;
            self.disk.write_zeroes(at, len)?;
        }
        Ok(())
    }

    /// The byte offset of `sector`, if `len` bytes from there are a legal transfer.
    fn check_range(&self, sector: u64, len: u64, io: &mut QueueIo<'_>) -> Result<u64, Failure> {
        let end = sector.checked_add(len / SECTOR);
        if len % SECTOR != 0
            || len > MAX_TRANSFER
            || end.is_none_or(|end| end > self.disk.sectors())
        {
            io.guest_error("block request beyond the disk, too long or not in whole sectors");
            return Err(Failure::Io);
        }
        Ok(sector * SECTOR)
    }

    fn check_writable(&self, io: &mut QueueIo<'_>) -> Result<(), Failure> {
        if self.disk.read_only() {
            io.guest_error("write to a read-only disk");
            return Err(Failure::Io);
        }
        Ok(())
    }
}

impl VirtioDevice for Block {
    fn device_id(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn name(&self) -> &'static str {
        "virtio-blk"
    }

    fn features(&self) -> u64 {
        let common =
            1 << VIRTIO_BLK_F_SEG_MAX | 1 << VIRTIO_BLK_F_BLK_SIZE | 1 << VIRTIO_BLK_F_FLUSH;
        let clear = 1 << VIRTIO_BLK_F_DISCARD | 1 << VIRTIO_BLK_F_WRITE_ZEROES;
        common
            | if self.disk.read_only() {
                1 << VIRTIO_BLK_F_RO
            } else {
                clear
            }
    }

    fn queue_sizes(&self) -> &[u16] {
        &[QUEUE_SIZE]
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

    fn obstacle(&self) -> Option<&'static str> {
        self.disk.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        self.disk.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.disk.restore(from)
    }
}

/// The little-endian field of `len` bytes (at most 8) at `start`.
fn value(bytes: &[u8], start: usize, len: usize) -> u64 {
    crate::value_le(&bytes[start..start + len])
}
