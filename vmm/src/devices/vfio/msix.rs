//! MSI-X of a passed device (PCI Express Base 5.0, sections 6.1.4 and 7.7.2): the guest writes a
//! table that only this process sees; what is in it goes to KVM. When the device interrupts, this
//! process has no part: the kernel writes the vector's event, or has no use for it if the hardware
//! interrupts the guest.

use crate::devices::vfio::device::Device;
use crate::irqchip::messages::{Message, Messages, Route};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// ID of the capability.
pub const ID: u8 = 0x11;
/// Its length in bytes.
pub const LEN: usize = 12;
/// Bytes of an entry of the table.
const ENTRY: u64 = 16;

/// Bits of message control.
pub const MASK_ALL: u16 = 1 << 14;
/// MSI-X is enabled.
pub const ENABLE: u16 = 1 << 15;
/// Number of the last vector.
const LAST: u16 = 0x7ff;

/// Where the table and the pending bits are, as the capability says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of vectors.
    pub vectors: u16,
    /// BAR of the table, and its part of it.
    pub table: (u8, Range<u64>),
    /// BAR of the pending bits, and their part of it.
    pub pending: (u8, Range<u64>),
}

impl Place {
    /// Reads the capability.
    pub fn of(capability: &[u8; LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| capability[at + n]));
        let vectors = (u16::from_le_bytes([capability[2], capability[3]]) & LAST) + 1;
        let part = |at: usize, len: u64| {
            let start = u64::from(word(at) & !7);
            ((word(at) & 7) as u8, start..start + len)
        };
        Self {
            vectors,
            table: part(4, u64::from(vectors) * ENTRY),
            pending: part(8, u64::from(vectors).div_ceil(64) * 8),
        }
    }
}

/// A vector.
struct Vector {
    message: Message,
    masked: bool,
    event: EventFd,
    /// KVM's route, and its message.
    route: Option<(Route, Message)>,
    /// Whether the event is attached to the route.
    attached: bool,
}

impl Vector {
    fn new() -> io::Result<Self> {
        Ok(Self {
            message: RESET,
            masked: true,
            event: EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?,
            route: None,
            attached: false,
        })
    }

    fn bytes(&self) -> [u8; ENTRY as usize] {
        let mut bytes = [0; ENTRY as usize];
        bytes[..8].copy_from_slice(&self.message.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.message.data.to_le_bytes());
        bytes[12] = self.masked.into();
        bytes
    }

    fn set(&mut self, bytes: [u8; ENTRY as usize]) {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        self.message = Message {
            // Messages are aligned words: the lowest two bits of the address are zero.
            address: (u64::from(word(4)) << 32 | u64::from(word(0))) & !3,
            data: word(8),
        };
        self.masked = word(12) & 1 != 0;
    }

    /// Gives KVM the message if the vector is `open`, else takes it away.
    fn settle(&mut self, open: bool, messages: &dyn Messages) -> io::Result<()> {
        if !open {
            return self.detach(messages);
        }
        let route = match self.route {
            None => messages.add(self.message)?,
            Some((route, known)) if known == self.message => route,
            Some((route, _)) => {
                let attached = self.attached.then_some(&self.event);
                let changed = messages.change(route, self.message, attached);
                if changed.is_err() {
                    // Not the former message, either.
                    let _ = self.detach(messages);
                }
                changed?
            }
        };
        self.route = Some((route, self.message));
        if !self.attached {
            messages.attach(route, &self.event)?;
            self.attached = true;
        }
        Ok(())
    }

    fn detach(&mut self, messages: &dyn Messages) -> io::Result<()> {
        match (std::mem::take(&mut self.attached), self.route) {
            (true, Some((route, _))) => messages.detach(route, &self.event),
            _ => Ok(()),
        }
    }

    /// Whether it has interrupted while it was masked.
    fn pending(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `poll` is one descriptor that outlives the call, which does not wait.
        !self.attached && unsafe { libc::poll(&mut poll, 1, 0) } == 1
    }
}

/// After reset.
const RESET: Message = Message {
    address: 0,
    data: 0,
};

/// The table, and message control.
pub struct Msix {
    place: Place,
    vectors: Vec<Vector>,
    enabled: bool,
    masked: bool,
    device: Arc<dyn Device>,
    messages: Arc<dyn Messages>,
    /// An error has been printed: a guest can cause as many as it wants to.
    complained: bool,
}

impl Msix {
    /// The table of `device`, which is disabled.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new(
        place: Place,
        device: Arc<dyn Device>,
        messages: Arc<dyn Messages>,
    ) -> io::Result<Self> {
        let vectors = (0..place.vectors).map(|_| Vector::new());
        Ok(Self {
            vectors: vectors.collect::<io::Result<_>>()?,
            place,
            enabled: false,
            masked: false,
            device,
            messages,
            complained: false,
        })
    }

    /// Whether the device interrupts by messages.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        if !std::mem::replace(&mut self.complained, true) {
            eprintln!("trapless-vmm: {}: {what}", self.device.name());
        }
    }

    /// Message control is now `value`. To enable messages, INTx has to be disabled.
    pub fn control(&mut self, value: u16) {
        let (enable, masked) = (value & ENABLE != 0, value & MASK_ALL != 0);
        if (enable, masked) == (self.enabled, self.masked) {
            return;
        }
        self.masked = masked;
        if enable != self.enabled {
            self.enabled = enable;
            if enable {
                self.enable();
            } else {
                self.disable();
            }
        }
        self.settle();
    }

    fn enable(&mut self) {
        let events: Vec<&EventFd> = self.vectors.iter().map(|vector| &vector.event).collect();
        let all = events.len();
        match self.device.enable_msix(&events) {
            Ok(some) if some < all => self.complain(format_args!(
                "only {some} of {all} vectors interrupt: the host has no more"
            )),
            Ok(_) => {}
            Err(e) => self.complain(format_args!("VFIO refuses MSI-X: {e}")),
        }
    }

    fn disable(&mut self) {
        self.settle();
        self.device.disable_msix();
        for vector in &mut self.vectors {
            // What is pending is lost, as in hardware.
            let _ = vector.event.read();
            if let Some((route, _)) = vector.route.take() {
                self.messages.remove(route);
            }
        }
    }

    fn settle(&mut self) {
        for index in 0..self.vectors.len() {
            self.settle_one(index);
        }
    }

    fn settle_one(&mut self, index: usize) {
        let open = self.enabled && !self.masked;
        let vector = &mut self.vectors[index];
        let open = open && !vector.masked;
        if let Err(e) = vector.settle(open, &*self.messages) {
            self.complain(format_args!("KVM refuses a message: {e}"));
        }
    }

    /// Reads if the whole access is to the table or the pending bits.
    pub fn read(&self, bar: u8, offset: u64, data: &mut [u8]) -> bool {
        if let Some(at) = within(&self.place.table, bar, offset, data.len()) {
            for (at, byte) in (at..).zip(data) {
                let vector = &self.vectors[(at / ENTRY) as usize];
                *byte = vector.bytes()[(at % ENTRY) as usize];
            }
            return true;
        }
        let Some(at) = within(&self.place.pending, bar, offset, data.len()) else {
            return false;
        };
        for (at, byte) in (at as usize..).zip(data) {
            let eight = self.vectors.iter().skip(8 * at).take(8).enumerate();
            *byte = eight.fold(0, |bits, (n, vector)| {
                bits | u8::from(vector.pending()) << n
            });
        }
        true
    }

    /// Writes if the whole access is to the table, or drops it if it is to the pending bits, which
    /// are read-only.
    pub fn write(&mut self, bar: u8, offset: u64, data: &[u8]) -> bool {
        let Some(start) = within(&self.place.table, bar, offset, data.len()) else {
            return within(&self.place.pending, bar, offset, data.len()).is_some();
        };
        let end = start + data.len() as u64;
        for (at, byte) in (start..).zip(data) {
            let vector = &mut self.vectors[(at / ENTRY) as usize];
            let mut bytes = vector.bytes();
            bytes[(at % ENTRY) as usize] = *byte;
            vector.set(bytes);
        }
        for index in start / ENTRY..end.div_ceil(ENTRY) {
            self.settle_one(index as usize);
        }
        true
    }

    /// As after a reset of the device.
    pub fn reset(&mut self) {
        self.control(0);
        for vector in &mut self.vectors {
            vector.message = RESET;
            vector.masked = true;
        }
    }
}

impl Drop for Msix {
    fn drop(&mut self) {
        self.reset();
    }
}

/// Offset in `part` of an access to it that has at least one byte.
fn within(part: &(u8, Range<u64>), bar: u8, offset: u64, len: usize) -> Option<u64> {
    let end = offset.checked_add(len as u64)?;
    let inside = part.0 == bar && offset >= part.1.start && end <= part.1.end && len > 0;
    inside.then(|| offset - part.1.start)
}
