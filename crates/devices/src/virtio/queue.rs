//! Split virtqueues for devices: chains of buffers, checked before use.
//!
//! `virtio_queue::Queue` keeps the ring indices. Its descriptor iterator ends quietly at a broken
//! descriptor, which a device cannot tell from the end of a chain; [`QueueIo::pop`] therefore
//! collects a chain at once and refuses it as a whole if anything in it is wrong (virtio 1.2,
//! sections 2.7.5 to 2.7.8).

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemory, Permissions};

use crate::{DeviceEvents, DeviceMemory};

/// Maximum length of a chain, in descriptors. Drivers may not exceed the queue size (section
/// 2.7.5.3.1) and ours are smaller than this; the slack is for drivers that use longer indirect
/// tables, which QEMU accepts up to this length.
pub const MAX_DESCRIPTORS: usize = 1024;

/// Maximum number of chains returned in one call of a device, so that a guest that adds buffers
/// from another hart while they are consumed cannot extend the call forever. The transport then
/// requests a poll.
const CHAINS_PER_CALL: u32 = 1024;

/// The driver broke the protocol so that the queue's state can no longer be trusted: the device
/// needs a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverFault(
    /// What was wrong.
    pub &'static str,
);

/// One request or buffer from the driver. Reading and writing advance through the device-readable
/// and the device-writable part.
#[derive(Debug)]
pub struct Chain {
    queue: usize,
    head: u16,
    readable: Buffers,
    writable: Buffers,
}

impl Chain {
    /// Bytes left to read.
    pub fn readable(&self) -> u64 {
        self.readable.left
    }

    /// Bytes left to write.
    pub fn writable(&self) -> u64 {
        self.writable.left
    }

    /// Reads up to `data.len()` bytes from the driver and returns how many there were.
    pub fn read(&mut self, io: &QueueIo<'_>, data: &mut [u8]) -> Result<usize, DriverFault> {
        self.readable.advance(data.len(), |range, address| {
            io.memory.read_slice(&mut data[range], address)
        })
    }

    /// Writes up to `data.len()` bytes to the driver and returns how many fitted.
    pub fn write(&mut self, io: &QueueIo<'_>, data: &[u8]) -> Result<usize, DriverFault> {
        self.writable.advance(data.len(), |range, address| {
            io.memory.write_slice(&data[range], address)
        })
    }

    /// Skips up to `count` writable bytes, which are unchanged.
    pub fn skip_writable(&mut self, count: u64) {
        self.writable.skip(count);
    }

    /// Bytes from the start of the writable part to the current position: what to report as used
    /// length.
    pub fn written(&self) -> u32 {
        // The sum of all lengths of a chain fits 32 bits; see `collect`.
        self.writable.done as u32
    }
}

/// A sequence of buffers and the position in it.
#[derive(Debug, Default)]
struct Buffers {
    segments: Vec<(GuestAddress, u32)>,
    /// The segment of the current position and the offset in it.
    segment: usize,
    offset: u32,
    left: u64,
    done: u64,
}

impl Buffers {
    fn push(&mut self, address: GuestAddress, len: u32) {
        self.segments.push((address, len));
        self.left += u64::from(len);
    }

    /// Calls `copy` for each piece of the next `count` bytes; returns how many bytes there were.
    fn advance<E>(
        &mut self,
        count: usize,
        mut copy: impl FnMut(std::ops::Range<usize>, GuestAddress) -> Result<(), E>,
    ) -> Result<usize, DriverFault> {
        let mut done = 0;
        while done < count {
            let Some(&(address, len)) = self.segments.get(self.segment) else {
                break;
            };
            let piece = (count - done).min((len - self.offset) as usize);
            // `collect` has checked ranges: this fails behind an IOMMU, or if RAM changed since.
            let start = GuestAddress(address.0 + u64::from(self.offset));
            copy(done..done + piece, start).map_err(|_| DriverFault("buffer outside RAM"))?;
            done += piece;
            self.step(piece as u32, len);
        }
        Ok(done)
    }

    fn skip(&mut self, mut count: u64) {
        while count > 0 {
            let Some(&(_, len)) = self.segments.get(self.segment) else {
                return;
            };
            let piece = count.min(u64::from(len - self.offset));
            count -= piece;
            self.step(piece as u32, len);
        }
    }

    /// Moves on by `piece` bytes of the current segment, which is `len` long.
    fn step(&mut self, piece: u32, len: u32) {
        self.left -= u64::from(piece);
        self.done += u64::from(piece);
        self.offset += piece;
        if self.offset == len {
            self.segment += 1;
            self.offset = 0;
        }
    }
}

/// A device's access to its queues for the time of one call.
pub struct QueueIo<'a> {
    memory: &'a DeviceMemory,
    queues: &'a mut [Queue],
    events: &'a mut dyn DeviceEvents,
    device: &'static str,
    /// One bit for each queue with buffers returned since the call began.
    used: u64,
    budget: u32,
    backlog: bool,
}

impl<'a> QueueIo<'a> {
    pub(super) fn new(
        memory: &'a DeviceMemory,
        queues: &'a mut [Queue],
        events: &'a mut dyn DeviceEvents,
        device: &'static str,
    ) -> Self {
        Self {
            memory,
            queues,
            events,
            device,
            used: 0,
            budget: CHAINS_PER_CALL,
            backlog: false,
        }
    }

    /// Takes the next chain that the driver made available, `None` if there is none or the queue is
    /// not set up.
    ///
    /// When it returns `None` for an empty queue, the driver will notify the device of the next
    /// buffer.
    pub fn pop(&mut self, queue: usize) -> Result<Option<Chain>, DriverFault> {
        let Some(ring) = self.queues.get_mut(queue).filter(|ring| ring.ready()) else {
            return Ok(None);
        };
        loop {
            if self.budget == 0 {
                self.backlog = true;
                return Ok(None);
            }
            let mut available = ring
                .iter(self.memory)
                .map_err(|_| DriverFault("available ring index out of range"))?;
            if let Some(chain) = available.next() {
                self.budget -= 1;
                return collect(self.memory, chain, queue, ring.size()).map(Some);
            }
            // Enable notifications, then check again: a buffer may have been added in between
            // (section 2.7.10).
            let more = ring
                .enable_notification(self.memory)
                .map_err(|_| DriverFault("used ring outside RAM"))?;
            if !more {
                return Ok(None);
            }
            self.budget -= 1;
        }
    }

    /// Returns the last popped chain unused: the next [`Self::pop`] returns it again.
    pub fn unpop(&mut self, chain: Chain) {
        if let Some(ring) = self.queues.get_mut(chain.queue) {
            ring.go_to_previous_position();
        }
    }

    /// Returns a chain to the driver; the used length is the number of bytes written to it.
    pub fn complete(&mut self, chain: Chain) -> Result<(), DriverFault> {
        let fault = DriverFault("used ring outside RAM");
        let ring = self.queues.get_mut(chain.queue).ok_or(fault)?;
        self.used |= 1 << chain.queue;
        ring.add_used(self.memory, chain.head, chain.written())
            .map_err(|_| fault)
    }

    /// Requests a poll soon: the device left input in its back-end to bound this call.
    pub fn poll_again(&mut self) {
        self.backlog = true;
    }

    /// Reports an error of the driver after which the device can continue.
    pub fn guest_error(&mut self, what: &'static str) {
        self.events.guest_error(self.device, what);
    }

    /// The queues for whose completed chains the driver wants an interrupt, one bit each; called
    /// once, at the end of a call.
    pub(super) fn wanted_interrupts(&mut self) -> Result<u64, DriverFault> {
        let mut wanted = 0;
        for (index, ring) in self.queues.iter_mut().enumerate() {
            if self.used & 1 << index != 0 {
                let needed = ring
                    .needs_notification(self.memory)
                    .map_err(|_| DriverFault("available ring outside RAM"))?;
                wanted |= u64::from(needed) << index;
            }
        }
        Ok(wanted)
    }

    /// Whether the call was interrupted by its limit.
    pub(super) fn backlog(&self) -> bool {
        self.backlog
    }
}

/// Refuses a buffer that is not in RAM. Behind an IOMMU that is found when it is accessed: looking
/// at each page of 4 GiB that nothing may ever access would take the guest one descriptor. Only
/// the end of the address space must not be in the middle of a buffer.
fn check(
    memory: &DeviceMemory,
    address: GuestAddress,
    len: u32,
    access: Permissions,
) -> Result<(), DriverFault> {
    let fits = if memory.is_translated() {
        address.0.checked_add(u64::from(len)).is_some()
    } else {
        memory.check_range(address, len as usize, access)
    };
    if fits {
        Ok(())
    } else {
        Err(DriverFault("buffer outside RAM"))
    }
}

/// Collects and checks all descriptors of a chain.
fn collect(
    memory: &DeviceMemory,
    descriptors: virtio_queue::DescriptorChain<&DeviceMemory>,
    queue: usize,
    size: u16,
) -> Result<Chain, DriverFault> {
    let head = descriptors.head_index();
    if head >= size {
        return Err(DriverFault("descriptor index out of range"));
    }
    let (mut readable, mut writable) = (Buffers::default(), Buffers::default());
    let mut complete = false;
    for descriptor in descriptors.take(MAX_DESCRIPTORS) {
        complete = !descriptor.has_next();
        if descriptor.len() == 0 {
            continue;
        }
        let (address, len) = (descriptor.addr(), descriptor.len());
        if descriptor.is_write_only() {
            check(memory, address, len, Permissions::Write)?;
            writable.push(address, len);
        } else {
            if writable.left != 0 {
                return Err(DriverFault(
                    "device-readable buffer after a device-writable one",
                ));
            }
            check(memory, address, len, Permissions::Read)?;
            readable.push(address, len);
        }
    }
    if !complete {
        // The iterator stops at the queue size, at a bad index or address, at 4 GiB and at a bad
        // indirect table.
        return Err(DriverFault(
            "descriptor chain loops, is too long or leaves the table",
        ));
    }
    Ok(Chain {
        queue,
        head,
        readable,
        writable,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use virtio_queue::desc::{RawDescriptor, split::Descriptor};
    use virtio_queue::mock::MockSplitQueue;

    use super::*;
    use crate::GuestRam;

    #[test]
    fn call_that_takes_too_many_chains_is_cut_and_says_so() {
        let ram = Arc::new(GuestRam::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap());
        let memory = DeviceMemory::from(ram.clone());
        let ring = MockSplitQueue::new(&*ram, 16);
        let chains = [RawDescriptor::from(Descriptor::new(0x8000, 4, 0, 0)); 3];
        ring.build_multiple_desc_chains(&chains).unwrap();
        let mut queues: [Queue; 1] = [ring.create_queue().unwrap()];
        let mut events = ();
        let mut io = QueueIo::new(&memory, &mut queues, &mut events, "test");
        io.budget = 2;
        for head in 0..2 {
            assert_eq!(io.pop(0).unwrap().unwrap().head, head);
        }
        assert!(!io.backlog());
        assert!(io.pop(0).unwrap().is_none());
        assert!(io.backlog());
        let mut io = QueueIo::new(&memory, &mut queues, &mut events, "test");
        let third = io.pop(0).unwrap().unwrap();
        assert_eq!(third.head, 2);
        io.unpop(third);
        assert_eq!(io.pop(0).unwrap().unwrap().head, 2, "unpop gives it back");
        assert!(io.pop(0).unwrap().is_none());
        assert!(!io.backlog());
    }
}
