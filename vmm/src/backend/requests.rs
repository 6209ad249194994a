//! Requests of a block device's driver (virtio 1.2, section 5.2.6), served without allocation and
//! system calls: a handler in user mode has neither.

use crate::backend::disk::{Disk, SECTOR};
use std::ops::Deref;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{DescriptorChain, Queue, QueueT};
use vm_memory::volatile_memory::VolatileSlice;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Bytes of a request's header.
const HEADER: usize = 16;
const READ: u32 = 0;
const WRITE: u32 = 1;
const IDENTIFY: u32 = 8;

const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

/// What the driver is told when it asks for an identity.
const IDENTITY: &[u8; 20] = b"trapless-backend\0\0\0\0";

/// The queue of a disk, and what its requests are about.
pub struct Requests<M> {
    /// Guest memory.
    pub memory: M,
    /// The queue, as it goes on.
    pub queue: Queue,
    /// The disk.
    pub disk: Disk,
}

/// A chain of the driver's that cannot be served: memory or a queue that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

impl<M: Deref<Target = GuestMemoryMmap>> Requests<M> {
    /// Serves what the driver has made available. With `rearm` it is asked to notify of more.
    /// Returns whether it wants to be interrupted.
    ///
    /// # Errors
    /// [`Broken`] if the driver has set up a queue that does not work.
    pub fn serve(&mut self, rearm: bool) -> Result<bool, Broken> {
        let memory = &*self.memory;
        let mut used = false;
        loop {
            let _ = self.queue.disable_notification(memory);
            while let Some(chain) = self.queue.pop_descriptor_chain(memory) {
                let head = chain.head_index();
                let len = serve_one(memory, chain, &self.disk);
                self.queue.add_used(memory, head, len).map_err(|_| Broken)?;
                used = true;
            }
            if !rearm || !self.queue.enable_notification(memory).map_err(|_| Broken)? {
                break;
            }
        }
        if !used {
            return Ok(false);
        }
        self.queue.needs_notification(memory).map_err(|_| Broken)
    }
}

type Chain<'a> = DescriptorChain<&'a GuestMemoryMmap>;

/// Serves a request and returns how many bytes of its buffers were written.
fn serve_one(memory: &GuestMemoryMmap, chain: Chain<'_>, disk: &Disk) -> u32 {
    let Some(last) = chain.clone().filter(Descriptor::is_write_only).last() else {
        return 0;
    };
    let Some(status_at) = last.len().checked_sub(1) else {
        return 0;
    };
    let (status, moved) = match request(memory, chain, disk) {
        Ok(moved) => (OK, moved),
        Err(status) => (status, 0),
    };
    let place = GuestAddress(last.addr().0.wrapping_add(status_at.into()));
    match memory.write_obj(status, place) {
        Ok(()) => moved + 1,
        Err(_) => 0,
    }
}

fn request(memory: &GuestMemoryMmap, chain: Chain<'_>, disk: &Disk) -> Result<u32, u8> {
    let first = chain.clone().next().ok_or(IO_ERROR)?;
    if first.is_write_only() || (first.len() as usize) < HEADER {
        return Err(IO_ERROR);
    }
    let word: u32 = memory.read_obj(first.addr()).map_err(|_| IO_ERROR)?;
    let sector_at = GuestAddress(first.addr().0.wrapping_add(8));
    let sector: u64 = memory.read_obj(sector_at).map_err(|_| IO_ERROR)?;
    let from = sector.checked_mul(SECTOR).ok_or(IO_ERROR)?;
    match u32::from_le(word) {
        READ => {
            let data = Data::writable(memory, chain);
            data.each(|at, guest| {
                let host = disk.slice(from.checked_add(at)?, guest.len())?;
                host.copy_to_volatile_slice(guest);
                Some(())
            })
        }
        WRITE if disk.read_only() => Err(IO_ERROR),
        WRITE => {
            let data = Data::readable(memory, chain);
            let checked = data.each(|at, guest| {
                let host = disk.slice(from.checked_add(at)?, guest.len())?;
                guest.copy_to_volatile_slice(host);
                Some(())
            });
            checked.map(|_| 0)
        }
        IDENTIFY => {
            let data = Data::writable(memory, chain);
            data.each(|at, guest| {
                let rest = IDENTITY.get(at as usize..)?;
                guest.copy_from(&rest[..rest.len().min(guest.len())]);
                Some(())
            })
        }
        _ => Err(UNSUPPORTED),
    }
}

/// The data of a request: what is between header and status.
struct Data<'a> {
    memory: &'a GuestMemoryMmap,
    chain: Chain<'a>,
    written: bool,
    /// Bytes of header at the beginning.
    skip: u64,
    bytes: u64,
}

impl<'a> Data<'a> {
    fn new(memory: &'a GuestMemoryMmap, chain: Chain<'a>, written: bool) -> Self {
        let parts = chain.clone().filter(|d| d.is_write_only() == written);
        let all: u64 = parts.map(|d| u64::from(d.len())).sum();
        let (skip, around) = if written {
            (0, 1)
        } else {
            (HEADER as u64, HEADER as u64)
        };
        Self {
            memory,
            chain,
            written,
            skip,
            bytes: all.saturating_sub(around),
        }
    }

    /// What the device writes.
    fn writable(memory: &'a GuestMemoryMmap, chain: Chain<'a>) -> Self {
        Self::new(memory, chain, true)
    }

    /// What the driver has written.
    fn readable(memory: &'a GuestMemoryMmap, chain: Chain<'a>) -> Self {
        Self::new(memory, chain, false)
    }

    /// Moves the data piece by piece: its place in the data, and its memory. Returns the number of
    /// bytes.
    fn each(
        self,
        mut move_one: impl FnMut(u64, VolatileSlice<'_>) -> Option<()>,
    ) -> Result<u32, u8> {
        if self.bytes % SECTOR != 0 && self.bytes != IDENTITY.len() as u64 {
            return Err(IO_ERROR);
        }
        let (mut skip, mut done) = (self.skip, 0);
        for part in self.chain.filter(|d| d.is_write_only() == self.written) {
            let skipped = skip.min(part.len().into());
            skip -= skipped;
            let len = (u64::from(part.len()) - skipped).min(self.bytes - done);
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
