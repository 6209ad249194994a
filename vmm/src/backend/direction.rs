//! One direction of a link between two guests: frames of one are copied to buffers of the other.
//! Uses neither allocation nor system calls, which a handler in user mode does not have.

use crate::backend::service::{Broken, Calls, Service, TURN};
use std::sync::Arc;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Bytes of the header before each frame (virtio 1.2, section 5.1.6.1, with `VIRTIO_F_VERSION_1`).
const HEADER: u64 = 12;
/// All zero but for the number of buffers, 1: no offload is negotiated.
const PLAIN: [u8; HEADER as usize] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
/// Minimum length of a frame: an Ethernet header.
const MIN_FRAME: u64 = 14;
/// Maximum length: a 64 KiB packet and its Ethernet header.
const MAX_FRAME: u64 = 65_536 + 18;
/// Maximum number of attempts without a moved frame although the queues have entries. Frames and
/// buffers that arrive alternately cause two.
const PROMISES: u32 = 4;
/// Maximum number of buffers of a frame: a table as long as the largest queue.
const PARTS: usize = 256;

/// A queue and the guest memory to which its addresses refer.
pub struct End {
    /// Memory of the guest.
    pub memory: Arc<GuestMemoryMmap>,
    /// The queue with its present state.
    pub queue: Queue,
    /// Buffers of the current frame: memory that is allocated before the handler runs.
    parts: Vec<Descriptor>,
}

impl End {
    /// A queue of a guest.
    pub fn new(memory: Arc<GuestMemoryMmap>, queue: Queue) -> Self {
        Self {
            memory,
            queue,
            parts: Vec::with_capacity(PARTS),
        }
    }

    /// Takes the next chain of buffers; its first descriptor.
    fn pop(&mut self) -> Option<u16> {
        let chain = self.queue.pop_descriptor_chain(&*self.memory)?;
        let head = chain.head_index();
        self.parts.clear();
        // At most the capacity, so that nothing is allocated.
        self.parts.extend(chain.take(PARTS));
        Some(head)
    }

    fn used(&mut self, head: u16, len: u32) -> Result<(), Broken> {
        self.queue
            .add_used(&*self.memory, head, len)
            .map_err(|_| Broken)
    }

    /// Enables or disables notifications. Returns whether there are entries already.
    fn notify_me(&mut self, wanted: bool) -> Result<bool, Broken> {
        if wanted {
            let more = self.queue.enable_notification(&*self.memory);
            more.map_err(|_| Broken)
        } else {
            let _ = self.queue.disable_notification(&*self.memory);
            Ok(false)
        }
    }

    fn wants_call(&mut self) -> Result<bool, Broken> {
        let wanted = self.queue.needs_notification(&*self.memory);
        wanted.map_err(|_| Broken)
    }

    /// Bytes of the buffers that the device reads, or writes.
    fn len(&self, written: bool) -> u64 {
        let parts = self.parts.iter().filter(|d| d.is_write_only() == written);
        parts.map(|d| u64::from(d.len())).sum()
    }
}

/// Why no frame was moved.
#[derive(PartialEq, Eq)]
enum Kept {
    /// There is none.
    Nothing,
    /// The receiver has no buffer.
    NoBuffer,
    /// The limit of the turn was reached.
    Turn,
}

/// The direction. Of [`Calls`], the first is the receiver, the second the sender.
pub struct Direction {
    /// Transmit queue.
    pub from: End,
    /// Receive queue.
    pub to: End,
    moved: (bool, bool),
}

impl Direction {
    /// From a transmit queue to a receive queue.
    pub fn new(from: End, to: End) -> Self {
        Self {
            from,
            to,
            moved: (false, false),
        }
    }

    /// Moves as many frames as possible, at most `turn`.
    fn move_frames(&mut self, turn: &mut usize) -> Result<Kept, Broken> {
        loop {
            if *turn == 0 {
                return Ok(Kept::Turn);
            }
            let Some(buffer) = self.to.pop() else {
                return Ok(Kept::NoBuffer);
            };
            let Some(frame) = self.from.pop() else {
                self.to.queue.go_to_previous_position();
                return Ok(Kept::Nothing);
            };
            match copy(&self.from, &self.to) {
                Some(len) => {
                    self.to.used(buffer, len)?;
                    self.moved.0 = true;
                }
                // Dropped, as on any network.
                None => self.to.queue.go_to_previous_position(),
            }
            self.from.used(frame, 0)?;
            self.moved.1 = true;
            *turn -= 1;
        }
    }
}

impl Service for Direction {
    fn serve(&mut self, rearm: bool) -> Result<Calls, Broken> {
        self.moved = (false, false);
        let (mut empty, mut turn) = (0, TURN);
        let more = loop {
            self.from.notify_me(false)?;
            self.to.notify_me(false)?;
            let before = self.from.queue.next_avail();
            let kept = self.move_frames(&mut turn)?;
            empty = if self.from.queue.next_avail() == before {
                empty + 1
            } else {
                0
            };
            // An index that is out of range.
            if empty > PROMISES {
                return Err(Broken);
            }
            // Notifications are enabled first for buffers, then for frames.
            let again = match kept {
                Kept::Turn => break true,
                _ if !rearm => false,
                Kept::Nothing => self.from.notify_me(true)?,
                Kept::NoBuffer => self.to.notify_me(true)?,
            };
            if !again {
                break false;
            }
        };
        let receiver = self.moved.0 && self.to.wants_call()?;
        let sender = self.moved.1 && self.from.wants_call()?;
        Ok(Calls::FIRST.when(receiver) | Calls::SECOND.when(sender) | Calls::MORE.when(more))
    }
}

/// Copies the frame that was taken from one end into the buffers that were taken from the other.
/// Returns how many bytes were written; `None` if it is not a frame, or does not fit.
fn copy(from: &End, to: &End) -> Option<u32> {
    let frame = from.len(false).checked_sub(HEADER)?;
    let total = frame + HEADER;
    if !(MIN_FRAME..=MAX_FRAME).contains(&frame) || total > to.len(true) {
        return None;
    }
    let mut room = Pieces::new(to, true);
    let mut plain = &PLAIN[..];
    while !plain.is_empty() {
        let slice = room.next(plain.len())?;
        let (now, rest) = plain.split_at(slice.len());
        slice.copy_from(now);
        plain = rest;
    }
    let mut data = Pieces::new(from, false);
    data.skip(HEADER)?;
    let mut left = frame as usize;
    while left > 0 {
        let source = data.next(left)?;
        let mut done = 0;
        while done < source.len() {
            let target = room.next(source.len() - done)?;
            let piece = source.subslice(done, target.len()).ok()?;
            piece.copy_to_volatile_slice(target);
            done += target.len();
        }
        left -= done;
    }
    u32::try_from(total).ok()
}

/// The memory of buffers, piece by piece.
struct Pieces<'a> {
    end: &'a End,
    written: bool,
    part: usize,
    done: u64,
}

impl<'a> Pieces<'a> {
    fn new(end: &'a End, written: bool) -> Self {
        Self {
            end,
            written,
            part: 0,
            done: 0,
        }
    }

    /// Place and length of the next piece of at most `most` bytes, not empty.
    fn advance(&mut self, most: u64) -> Option<(GuestAddress, u64)> {
        loop {
            let part = self.end.parts.get(self.part)?;
            let left = u64::from(part.len()) - self.done;
            if part.is_write_only() != self.written || left == 0 {
                self.part += 1;
                self.done = 0;
                continue;
            }
            let place = GuestAddress(part.addr().0.wrapping_add(self.done));
            let len = left.min(most);
            self.done += len;
            return Some((place, len));
        }
    }

    fn next(&mut self, most: usize) -> Option<vm_memory::VolatileSlice<'a>> {
        let (place, len) = self.advance(most as u64)?;
        self.end.memory.get_slice(place, len as usize).ok()
    }

    fn skip(&mut self, mut bytes: u64) -> Option<()> {
        while bytes > 0 {
            bytes -= self.advance(bytes)?.1;
        }
        Some(())
    }
}
