//! The bus: which device answers which guest physical address, and the locks around the shared device models.

pub mod sbi_console;
pub mod test_device;
pub mod virtio;

use crate::irqchip::plic::{Interrupts, Wire};
use crate::map;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use trapless_devices::{
    Clock, IrqLine, MmioDevice, Persist, StateError, StateReader, StateWriter, Uart,
};
use vmm_sys_util::eventfd::EventFd;

/// A device's registers, as the bus sees them. Called from vCPU threads at the same time.
pub trait BusDevice: Send + Sync {
    /// Guest load of `data.len()` (1, 2, 4 or 8) bytes at `offset`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Guest store of `data.len()` (1, 2, 4 or 8) bytes at `offset`.
    fn write(&self, offset: u64, data: &[u8]);
}

struct Slot {
    name: String,
    base: u64,
    len: u64,
    device: Arc<dyn BusDevice>,
}

/// The guest physical addresses of all devices.
#[derive(Default)]
pub struct Bus(Vec<Slot>);

impl Bus {
    /// Adds a device at `base .. base + len`; `name` is for messages and statistics.
    ///
    /// # Panics
    /// If the window overlaps another one: the memory map is fixed, so this is a bug of the VMM.
    pub fn add(&mut self, name: &str, base: u64, len: u64, device: Arc<dyn BusDevice>) {
        let overlaps = |slot: &Slot| base < slot.base + slot.len && slot.base < base + len;
        assert!(
            !self.0.iter().any(overlaps),
            "{name} overlaps another device"
        );
        self.0.push(Slot {
            name: name.into(),
            base,
            len,
            device,
        });
    }

    /// Names of the slots, in the order of their numbers.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|slot| slot.name.clone()).collect()
    }

    /// The slot that answers all `len` bytes at `addr`, and the offset there.
    fn find(&self, addr: u64, len: usize) -> Option<(usize, u64)> {
        let fits = |slot: &Slot| {
            let offset = addr.checked_sub(slot.base)?;
            (offset.checked_add(len as u64)? <= slot.len).then_some(offset)
        };
        self.0
            .iter()
            .enumerate()
            .find_map(|(number, slot)| Some((number, fits(slot)?)))
    }

    /// Guest load; returns the slot that answered. Nobody there: the guest reads zeroes.
    pub fn read(&self, addr: u64, data: &mut [u8]) -> Option<u16> {
        data.fill(0);
        let (number, offset) = self.find(addr, data.len())?;
        self.0[number].device.read(offset, data);
        Some(number as u16)
    }

    /// Guest store; returns the slot that answered. Nobody there: the store has no effect.
    pub fn write(&self, addr: u64, data: &[u8]) -> Option<u16> {
        let (number, offset) = self.find(addr, data.len())?;
        self.0[number].device.write(offset, data);
        Some(number as u16)
    }
}

/// Little-endian value of 1 to 8 bytes.
pub fn value(data: &[u8]) -> u64 {
    data.iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Fills `data` with the low bytes of `value`.
pub fn fill(data: &mut [u8], value: u64) {
    let bytes = value.to_le_bytes();
    let len = data.len().min(bytes.len());
    data[..len].copy_from_slice(&bytes[..len]);
}

/// The context registers of a PLIC (threshold, claim and complete), as a window of their own: an interrupt
/// costs accesses here, whereas the registers before them are for set-up, and the statistics shall tell them apart.
pub struct ClaimWindow(pub Arc<Interrupts>);

impl BusDevice for ClaimWindow {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.0.read(map::PLIC_CONTEXTS + offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.0.write(map::PLIC_CONTEXTS + offset, data);
    }
}

impl BusDevice for Interrupts {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let word = self.load(offset, data.len() as u8);
        fill(data, u64::from(word));
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.store(offset, data.len() as u8, value(data) as u32);
    }
}

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        Wire::set(self, high);
    }
}

/// Host time for device models, in nanoseconds since it was started. Copies show the same time.
#[derive(Clone, Copy)]
pub struct HostClock(Instant);

impl HostClock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for HostClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A device model that the event loop serves.
pub trait Served: Send + Sync {
    /// Lets the device take in what its back-end or the clock has ready.
    fn poll(&self);
    /// Nanoseconds until it wants to be polled: 0 at once, `None` only when its back-end has something.
    fn due_in(&self) -> Option<u64>;
}

/// A device model behind a lock.
pub struct Locked<D> {
    device: Mutex<D>,
    /// Ends the event loop's wait when the device wants to be polled.
    wake: Arc<EventFd>,
    clock: HostClock,
}

impl<D: MmioDevice> Locked<D> {
    /// `wake` is the event loop's, `clock` the one the device goes by.
    pub fn new(device: D, wake: &Arc<EventFd>, clock: HostClock) -> Self {
        Self {
            device: Mutex::new(device),
            wake: Arc::clone(wake),
            clock,
        }
    }

    /// The device. A panic of another thread inside it leaves no unsafe state behind, so the poison is ignored.
    pub fn lock(&self) -> MutexGuard<'_, D> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `work` change the device and wakes the event loop if the device wants to be polled after that.
    pub fn with(&self, work: impl FnOnce(&mut D)) {
        let mut device = self.lock();
        work(&mut device);
        if device.needs_poll() || device.next_deadline().is_some() {
            let _ = self.wake.write(1);
        }
    }
}

impl<D: MmioDevice> BusDevice for Locked<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.lock().read(offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.with(|device| device.write(offset, data));
    }
}

impl<D: MmioDevice> Served for Locked<D> {
    fn poll(&self) {
        self.with(MmioDevice::poll);
    }

    fn due_in(&self) -> Option<u64> {
        let device = self.lock();
        if device.needs_poll() {
            return Some(0);
        }
        let now = self.clock.now_ns();
        device.next_deadline().map(|at| at.saturating_sub(now))
    }
}

/// What is saved and restored with a guest. The guest does not run meanwhile.
pub trait Stateful {
    /// Appends the state.
    fn save(&self, to: &mut StateWriter);
    /// Takes over a state.
    ///
    /// # Errors
    /// [`StateError`] if it does not fit.
    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

impl<D: MmioDevice + Persist> Stateful for Locked<D> {
    fn save(&self, to: &mut StateWriter) {
        self.lock().save(to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.lock().restore(from)
    }
}

/// Appends type-ahead.
pub fn save_input(input: &VecDeque<u8>, to: &mut StateWriter) {
    let (first, second) = input.as_slices();
    to.bytes(&[first, second].concat());
}

/// Reads type-ahead. More than one read of the terminal beyond the limit is never held.
///
/// # Errors
/// [`StateError`] if there is more.
pub fn restore_input(from: &mut StateReader<'_>) -> Result<VecDeque<u8>, StateError> {
    Ok(from.bytes(2 * TYPE_AHEAD)?.iter().copied().collect())
}

/// Where typed bytes go.
pub trait InputSink: Send + Sync {
    /// Hands over bytes; the sink keeps what the guest does not take yet.
    fn push(&self, bytes: &[u8]);
    /// Whether more than a screenful waits for the guest, so that reading should pause.
    fn full(&self) -> bool;
}

/// Bytes typed ahead that a console keeps.
pub const TYPE_AHEAD: usize = 4096;

/// The serial port with its type-ahead: the UART's own FIFO has only 64 bytes.
pub struct SerialPort {
    uart: Mutex<(Uart, VecDeque<u8>)>,
}

impl SerialPort {
    /// Wraps the UART.
    pub fn new(uart: Uart) -> Self {
        Self {
            uart: Mutex::new((uart, VecDeque::new())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Uart, VecDeque<u8>)> {
        self.uart.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refill(uart: &mut Uart, ahead: &mut VecDeque<u8>) {
    if !ahead.is_empty() && uart.input_capacity() > 0 {
        let taken = uart.enqueue(ahead.make_contiguous());
        ahead.drain(..taken);
    }
}

impl BusDevice for SerialPort {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let (uart, ahead) = &mut *self.lock();
        uart.read(offset, data);
        refill(uart, ahead);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let (uart, ahead) = &mut *self.lock();
        uart.write(offset, data);
        refill(uart, ahead);
    }
}

impl Stateful for SerialPort {
    fn save(&self, to: &mut StateWriter) {
        let (uart, ahead) = &*self.lock();
        uart.save(to);
        save_input(ahead, to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (uart, ahead) = &mut *self.lock();
        uart.restore(from)?;
        *ahead = restore_input(from)?;
        Ok(())
    }
}

impl InputSink for SerialPort {
    fn push(&self, bytes: &[u8]) {
        let (uart, ahead) = &mut *self.lock();
        ahead.extend(bytes);
        refill(uart, ahead);
    }

    fn full(&self) -> bool {
        self.lock().1.len() >= TYPE_AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Mutex<[u8; 16]>);

    impl BusDevice for Memory {
        fn read(&self, offset: u64, data: &mut [u8]) {
            let at = offset as usize;
            data.copy_from_slice(&self.0.lock().unwrap()[at..at + data.len()]);
        }
        fn write(&self, offset: u64, data: &[u8]) {
            let at = offset as usize;
            self.0.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        }
    }

    fn bus() -> Bus {
        let mut bus = Bus::default();
        for (name, base) in [("a", 0x1000), ("b", 0x1010)] {
            bus.add(name, base, 16, Arc::new(Memory(Mutex::new([0; 16]))));
        }
        bus
    }

    #[test]
    fn accesses_reach_the_device_that_holds_all_their_bytes() {
        let bus = bus();
        assert_eq!(bus.write(0x1018, &[1, 2, 3, 4, 5, 6, 7, 8]), Some(1));
        let mut data = [0; 4];
        assert_eq!(bus.read(0x101c, &mut data), Some(1));
        assert_eq!(value(&data), 0x0807_0605);
        assert_eq!(bus.read(0x100e, &mut data), None, "crosses from a to b");
        assert_eq!(data, [0; 4]);
        assert_eq!(bus.write(u64::MAX, &[0; 8]), None);
        assert_eq!(bus.write(0xfff, &[0; 2]), None);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn overlapping_windows_are_a_bug() {
        bus().add("c", 0x101f, 4, Arc::new(Memory(Mutex::new([0; 16]))));
    }
}
