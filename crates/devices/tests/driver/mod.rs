//! A small virtio driver for tests: it reaches the device through its registers and through rings
//! in guest RAM, as a kernel does, and leaves every step open to misuse.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use trapless_devices::virtio::{VirtioDevice, VirtioMmio};
use trapless_devices::{
    DeviceEvents, GuestRam, IrqLine, MmioDevice, Persist, StateError, StateReader, StateWriter,
};
use vm_memory::{Bytes, GuestAddress};

pub const RAM: u64 = 0x8000_0000;
pub const RAM_SIZE: u64 = 1 << 20;
/// Queue `n` lies at `RAM + n * QUEUE_STEP`: descriptors, then the available and the used ring.
pub const QUEUE_STEP: u64 = 0x4000;
pub const AVAIL: u64 = 0x2000;
pub const USED: u64 = 0x3000;
/// Where tests put their buffers.
pub const DATA: u64 = RAM + 0x2_0000;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const VERSION_1: u64 = 1 << 32;
pub const EVENT_IDX: u64 = 1 << 29;

pub const DRIVER_OK: u32 = 4;
pub const FEATURES_OK: u32 = 8;
pub const NEEDS_RESET: u32 = 64;

/// A descriptor: address, length, flags, next.
pub type Descriptor = (u64, u32, u16, u16);

#[derive(Clone, Default)]
pub struct Wire(Arc<AtomicBool>);

impl Wire {
    pub fn high(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Ordering::Relaxed);
    }
}

#[derive(Clone, Default)]
pub struct Errors(pub Arc<Mutex<Vec<&'static str>>>);

impl DeviceEvents for Errors {
    fn guest_error(&mut self, _device: &'static str, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

/// What a console writes.
#[derive(Clone, Default)]
pub struct Output(pub Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub struct Driver<D> {
    pub device: VirtioMmio<D>,
    pub ram: Arc<GuestRam>,
    pub wire: Wire,
    pub errors: Errors,
    /// Of each queue.
    size: u16,
    free: [u16; 2],
    used: [u16; 2],
}

impl<D: VirtioDevice> Driver<D> {
    /// A device after power-on.
    pub fn new(device: D) -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_SIZE as usize)]).unwrap();
        let (ram, wire, errors) = (Arc::new(ram), Wire::default(), Errors::default());
        let device = VirtioMmio::new(
            device,
            ram.clone(),
            Box::new(wire.clone()),
            Box::new(errors.clone()),
        );
        Self {
            device,
            ram,
            wire,
            errors,
            size: 16,
            free: [0; 2],
            used: [0; 2],
        }
    }

    /// A device with queues of `size`, set up with all offered features except EVENT_IDX.
    pub fn started(device: D, size: u32) -> Self {
        let mut driver = Self::new(device);
        driver.set_up(size, !EVENT_IDX);
        driver
    }

    pub fn read(&mut self, register: u64) -> u32 {
        let mut data = [0xff; 4];
        self.device.read(register, &mut data);
        u32::from_le_bytes(data)
    }

    pub fn write(&mut self, register: u64, value: u32) {
        self.device.write(register, &value.to_le_bytes());
    }

    pub fn config<const N: usize>(&mut self, offset: u64) -> [u8; N] {
        let mut data = [0xff; N];
        self.device.read(0x100 + offset, &mut data);
        data
    }

    pub fn offered(&mut self) -> u64 {
        self.write(0x14, 0);
        let low = self.read(0x10);
        self.write(0x14, 1);
        u64::from(self.read(0x10)) << 32 | u64::from(low)
    }

    pub fn accept(&mut self, features: u64) {
        self.write(0x24, 0);
        self.write(0x20, features as u32);
        self.write(0x24, 1);
        self.write(0x20, (features >> 32) as u32);
    }

    pub fn status(&mut self) -> u32 {
        self.read(0x70)
    }

    /// The initialization sequence of virtio 1.2, section 3.1.1.
    pub fn set_up(&mut self, size: u32, wanted: u64) {
        self.write(0x70, 0);
        self.write(0x70, 1);
        self.write(0x70, 1 | 2);
        let features = self.offered() & wanted;
        self.accept(features);
        self.write(0x70, 1 | 2 | FEATURES_OK);
        assert_eq!(self.status(), 1 | 2 | FEATURES_OK);
        for queue in 0..2 {
            self.write(0x30, queue);
            if self.read(0x34) != 0 {
                self.set_up_queue(size, RAM + u64::from(queue) * QUEUE_STEP);
            }
        }
        self.write(0x70, 1 | 2 | FEATURES_OK | DRIVER_OK);
        self.size = size as u16;
        (self.free, self.used) = ([0; 2], [0; 2]);
    }

    /// Sets the selected queue up at `base`.
    pub fn set_up_queue(&mut self, size: u32, base: u64) {
        self.write(0x38, size);
        for (register, address) in [
            (0x80, base),
            (0x90, base.wrapping_add(AVAIL)),
            (0xa0, base.wrapping_add(USED)),
        ] {
            self.write(register, address as u32);
            self.write(register + 4, (address >> 32) as u32);
        }
        self.write(0x44, 1);
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.ram.write_slice(bytes, GuestAddress(address)).unwrap();
    }

    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.ram
            .read_slice(&mut bytes, GuestAddress(address))
            .unwrap();
        bytes
    }

    pub fn get_u16(&self, address: u64) -> u16 {
        self.ram.read_obj(GuestAddress(address)).unwrap()
    }

    pub fn put_descriptor(&self, table: u64, index: u16, descriptor: Descriptor) {
        let (address, len, flags, next) = descriptor;
        let bytes = [
            &address.to_le_bytes()[..],
            &len.to_le_bytes(),
            &flags.to_le_bytes(),
            &next.to_le_bytes(),
        ]
        .concat();
        self.put(table + u64::from(index) * 16, &bytes);
    }

    /// Makes the chain that starts at `head` available in `queue`, without a notification.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let avail = RAM + queue as u64 * QUEUE_STEP + AVAIL;
        let index = self.get_u16(avail + 2);
        self.put(
            avail + 4 + u64::from(index % self.size) * 2,
            &head.to_le_bytes(),
        );
        self.put(avail + 2, &index.wrapping_add(1).to_le_bytes());
    }

    /// Offers the parts (address, length, flags) as one chain at the next free descriptors.
    pub fn submit(&mut self, queue: usize, parts: &[(u64, u32, u16)]) {
        let head = self.free[queue];
        for (n, &(address, len, flags)) in parts.iter().enumerate() {
            let index = (head + n as u16) % self.size;
            let (more, next) = if n + 1 < parts.len() {
                (NEXT, (index + 1) % self.size)
            } else {
                (0, 0)
            };
            self.put_descriptor(
                RAM + queue as u64 * QUEUE_STEP,
                index,
                (address, len, flags | more, next),
            );
        }
        self.free[queue] = (head + parts.len() as u16) % self.size;
        self.offer(queue, head);
    }

    pub fn notify(&mut self, queue: usize) {
        self.write(0x50, queue as u32);
    }

    /// The next chain the device returned in `queue`: its head and the used length.
    pub fn next_used(&mut self, queue: usize) -> Option<(u32, u32)> {
        let used = RAM + queue as u64 * QUEUE_STEP + USED;
        if self.get_u16(used + 2) == self.used[queue] {
            return None;
        }
        let entry = self.get(used + 4 + u64::from(self.used[queue] % self.size) * 8, 8);
        self.used[queue] = self.used[queue].wrapping_add(1);
        let word = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
        Some((word(0), word(4)))
    }

    /// Takes the interrupt: its causes, acknowledged.
    pub fn take_interrupt(&mut self) -> u32 {
        let causes = self.read(0x60);
        assert_eq!(
            self.wire.high(),
            causes != 0,
            "the wire is the interrupt status"
        );
        self.write(0x64, causes);
        assert!(!self.wire.high());
        causes
    }

    /// Saves the device and continues with `device`, restored, on a wire that is low at first.
    pub fn replace(&mut self, device: D) -> Result<(), StateError> {
        let mut writer = StateWriter::default();
        self.device.save(&mut writer);
        self.restore(device, &writer.into_bytes())
    }

    pub fn restore(&mut self, device: D, state: &[u8]) -> Result<(), StateError> {
        self.wire = Wire::default();
        let (wire, errors) = (Box::new(self.wire.clone()), Box::new(self.errors.clone()));
        self.device = VirtioMmio::new(device, self.ram.clone(), wire, errors);
        let mut reader = StateReader::new(state);
        self.device.restore(&mut reader)?;
        reader.end()
    }

    pub fn last_error(&self) -> &'static str {
        self.errors.0.lock().unwrap().last().copied().unwrap_or("")
    }
}
