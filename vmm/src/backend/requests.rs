//! Requests of a block device's driver (virtio 1.2, section 5.2.6). Uses neither allocation nor
//! system calls, which a handler in user mode does not have.

use crate::backend::disk::{Disk, SECTOR};
use crate::backend::service::{Broken, Calls, Service, TURN};
use std::ops::Deref;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueT};
use vm_memory::volatile_memory::VolatileSlice;
use vm_memory::{ByteValued, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

const READ: u32 = 0;
const WRITE: u32 = 1;
const IDENTIFY: u32 = 8;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// Serial number of the disk.
const IDENTITY: &[u8; 20] = b"trapless-backend\0\0\0\0";

/// Maximum number of buffers of a request with Linux's tables: header, data, status.
const PARTS: usize = 256;
/// Maximum number of data segments of a request, as reported to the driver.
pub const SEGMENTS: u32 = 126;

/// A request's header, little-endian.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Header {
    kind: u32,
    reserved: u32,
    sector: u64,
}

// SAFETY: three integers without padding.
unsafe impl ByteValued for Header {}

/// The queue of a disk, and the state of its requests.
pub struct Requests<M> {
    /// Guest memory.
    memory: M,
    /// The queue with its present state.
    queue: Queue,
    disk: Disk,
    /// Buffers of the current request: memory that is allocated before the handler runs.
    parts: Vec<Descriptor>,
}

impl<M: Deref<Target = GuestMemoryMmap>> Requests<M> {
    /// Requests in `queue` to `disk`.
    pub fn new(memory: M, queue: Queue, disk: Disk) -> Self {
        Self {
            memory,
            queue,
            disk,
            parts: Vec::with_capacity(PARTS),
        }
    }

    /// Where the queue is.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }
}

impl<M: Deref<Target = GuestMemoryMmap> + Send + 'static> Service for Requests<M> {
    fn serve(&mut self, rearm: bool) -> Result<Calls, Broken> {
        let memory = &*self.memory;
        let (mut served, mut promised) = (0, false);
        let more = loop {
            let _ = self.queue.disable_notification(memory);
            let before = self.queue.next_avail();
            while served < TURN {
                let Some(chain) = self.queue.pop_descriptor_chain(memory) else {
                    break;
                };
                let head = chain.head_index();
                self.parts.clear();
                // At most the capacity, so that nothing is allocated.
                self.parts.extend(chain.take(PARTS));
                let len = serve_one(memory, &self.parts, &self.disk);
                self.queue.add_used(memory, head, len).map_err(|_| Broken)?;
                served += 1;
            }
            if served == TURN {
                break true;
            }
            // An index that is out of range: there are requests, but none can be taken.
            if promised && self.queue.next_avail() == before {
                return Err(Broken);
            }
            if !rearm || !self.queue.enable_notification(memory).map_err(|_| Broken)? {
                break false;
            }
            promised = true;
        };
        let wanted = served > 0 && self.queue.needs_notification(memory).map_err(|_| Broken)?;
        Ok(Calls::FIRST.when(wanted) | Calls::MORE.when(more))
    }
}

/// Serves a request and returns how many bytes of its buffers were written.
fn serve_one(memory: &GuestMemoryMmap, parts: &[Descriptor], disk: &Disk) -> u32 {
    // The status is the last byte that the device can write.
    let Some(last) = parts.last().filter(|last| last.is_write_only()) else {
        return 0;
    };
    let Some(status_at) = last.len().checked_sub(1) else {
        return 0;
    };
    let (status, moved) = match request(memory, parts, disk) {
        Ok(moved) => (OK, moved),
        Err(status) => (status, 0),
    };
    let place = GuestAddress(last.addr().0.wrapping_add(status_at.into()));
    match memory.write_obj(status, place) {
        Ok(()) => moved + 1,
        Err(_) => 0,
    }
}

fn request(memory: &GuestMemoryMmap, parts: &[Descriptor], disk: &Disk) -> Result<u32, u8> {
    let first = parts.first().ok_or(IO_ERROR)?;
    if first.is_write_only() || (first.len() as usize) < size_of::<Header>() {
        return Err(IO_ERROR);
    }
    let header: Header = memory.read_obj(first.addr()).map_err(|_| IO_ERROR)?;
    let sector = u64::from_le(header.sector);
    let from = sector.checked_mul(SECTOR).ok_or(IO_ERROR)?;
    let data = |written| Data {
        memory,
        parts,
        written,
    };
    match u32::from_le(header.kind) {
        READ => data(true).each(SECTOR, |at, guest| {
            let host = disk.slice(from.checked_add(at)?, guest.len())?;
            host.copy_to_volatile_slice(guest);
            Some(())
        }),
        WRITE if disk.read_only() => Err(IO_ERROR),
        WRITE => {
            let read = data(false).each(SECTOR, |at, guest| {
                let host = disk.slice(from.checked_add(at)?, guest.len())?;
                guest.copy_to_volatile_slice(host);
                Some(())
            });
            read.map(|_| 0)
        }
        IDENTIFY => data(true).each(IDENTITY.len() as u64, |at, guest| {
            let rest = IDENTITY.get(at as usize..)?;
            guest.copy_from(&rest[..rest.len().min(guest.len())]);
            Some(())
        }),
        _ => Err(UNSUPPORTED),
    }
}

/// The data of a request, between header and status.
struct Data<'a> {
    memory: &'a GuestMemoryMmap,
    parts: &'a [Descriptor],
    /// The device writes it.
    written: bool,
}

impl Data<'_> {
    /// Moves the data, whose length is a multiple of `unit`, by segments: offset in the data, and
    /// memory. Returns the number of bytes.
    fn each(
        self,
        unit: u64,
        mut move_one: impl FnMut(u64, VolatileSlice<'_>) -> Option<()>,
    ) -> Result<u32, u8> {
        let parts = || {
            self.parts
                .iter()
                .filter(|d| d.is_write_only() == self.written)
        };
        let all: u64 = parts().map(|d| u64::from(d.len())).sum();
        let (mut skip, around) = if self.written {
            (0, 1)
        } else {
            (size_of::<Header>() as u64, size_of::<Header>() as u64)
        };
        let bytes = all.saturating_sub(around);
        if bytes % unit != 0 {
            return Err(IO_ERROR);
        }
        let mut done = 0;
        for part in parts() {
            let skipped = skip.min(part.len().into());
            skip -= skipped;
            let len = (u64::from(part.len()) - skipped).min(bytes - done);
            if len == 0 {
                continue;
            }
            let place = GuestAddress(part.addr().0.wrapping_add(skipped));
            let guest = self.memory.get_slice(place, len as usize);
            move_one(done, guest.map_err(|_| IO_ERROR)?).ok_or(IO_ERROR)?;
            done += len;
        }
        u32::try_from(done).map_err(|_| IO_ERROR)
    }
}
