//! Virtio devices behind PCI (virtio 1.2, section 4.1): the modern interface, laid out as QEMU's
//! `virtio-*-pci` devices have it.
//!
//! ```text
//!   BAR 1   MSI-X: a vector for each queue, and one for the configuration
//!   BAR 4   0x0000 common configuration    0x1000 ISR status
//!           0x2000 device configuration    0x3000 notification, a word for each queue
//! ```

mod registers;

use trapless_devices::virtio::{Common, Signal, VirtioDevice};
use trapless_devices::{
    DeviceEvents, DeviceMemory, StateError, StateReader, StateWriter, fill_le, value_le,
};

use virtio_bindings::virtio_config::VIRTIO_F_SR_IOV;

use crate::config::{Bar, BarKind, Capability, Identity};
use crate::function::{Function, Layout};
use crate::msix::MAX_VECTORS;
use crate::port::Port;
use registers::Register;

/// Vendor of all virtio devices.
const VENDOR: u16 = 0x1af4;
/// Device type 0.
const FIRST_DEVICE: u16 = 0x1040;
/// Modern devices have subsystems from here on.
const SUBSYSTEM: u16 = 0x1100;
/// ID of vendor-specific capabilities.
const VENDOR_SPECIFIC: u8 = 9;

const MSIX_BAR: u8 = 1;
const BAR: u8 = 4;
/// Length of each part of the BAR.
const PART: u64 = 0x1000;
/// Bytes of the notification area for each queue.
const NOTIFY_STEP: u32 = 4;
/// What the driver has for no vector.
const NO_VECTOR: u16 = 0xffff;

/// Bits of the ISR status.
const ISR_QUEUE: u8 = 1;
const ISR_CONFIG: u8 = 2;

/// A virtio device behind PCI.
pub struct VirtioPci<D> {
    common: Common<D>,
    isr: u8,
    config_vector: u16,
    queue_vectors: Vec<u16>,
}

impl<D: VirtioDevice> VirtioPci<D> {
    /// `device`, which reaches only `memory`; guest errors go to `events`.
    ///
    /// # Panics
    /// As [`Common::new`].
    pub fn new(device: D, memory: DeviceMemory, events: Box<dyn DeviceEvents>) -> Self {
        let common = Common::new(device, memory, events);
        let queues = common.queue_count();
        Self {
            common,
            isr: 0,
            config_vector: NO_VECTOR,
            queue_vectors: vec![NO_VECTOR; queues],
        }
    }

    /// Has virtual functions, which the driver may switch on (VIRTIO_F_SR_IOV, section 6).
    #[must_use]
    pub fn with_virtual_functions(mut self) -> Self {
        self.common.offer(1 << VIRTIO_F_SR_IOV);
        self
    }

    /// The device, to hand it input. Call [`Function::poll`] afterwards.
    pub fn device_mut(&mut self) -> &mut D {
        self.common.device_mut()
    }

    fn vectors(&self) -> u16 {
        (self.queue_vectors.len() as u16 + 1).min(MAX_VECTORS)
    }

    /// A vector as the driver sets it: one that there is not is refused.
    fn checked(&self, vector: u16) -> u16 {
        match vector < self.vectors() {
            true => vector,
            false => NO_VECTOR,
        }
    }

    /// Tells the driver (sections 4.1.4.5 and 4.1.5.1.2).
    fn tell(&mut self, signal: Signal, port: &mut Port) {
        if signal.is_none() {
            return;
        }
        if signal.config {
            self.isr |= ISR_CONFIG;
        }
        if port.uses_messages() {
            let queues = self.queue_vectors.iter().enumerate();
            let queues = queues.filter(|(queue, _)| signal.queues >> queue & 1 != 0);
            let config = signal.config.then_some(self.config_vector);
            // Queues may share a vector, which is one message.
            let mut vectors: Vec<u16> = queues.map(|(_, vector)| *vector).chain(config).collect();
            vectors.sort_unstable();
            vectors.dedup();
            vectors.retain(|vector| *vector != NO_VECTOR);
            vectors.into_iter().for_each(|vector| port.signal(vector));
        } else {
            if signal.queues != 0 {
                self.isr |= ISR_QUEUE;
            }
            port.set_intx(true);
        }
    }

    /// The driver resets the device; what it has set in the configuration space stays.
    fn reset_device(&mut self, port: Option<&mut Port>) {
        self.common.reset();
        self.isr = 0;
        self.config_vector = NO_VECTOR;
        self.queue_vectors.fill(NO_VECTOR);
        if let Some(port) = port {
            port.set_intx(false);
        }
    }

    fn read_part(&mut self, offset: u64, data: &mut [u8], port: &mut Port) {
        let at = offset % PART;
        match offset / PART {
            0 => match Register::at(at, data.len()) {
                Some(register) => fill_le(data, self.read_register(register).into()),
                None => self.common.guest_error("register read of another width"),
            },
            1 if at == 0 => {
                data[0] = std::mem::take(&mut self.isr);
                port.set_intx(false);
            }
            2 => self.common.device().read_config(at, data),
            _ => {}
        }
    }

    fn write_part(&mut self, offset: u64, data: &[u8], port: &mut Port) {
        let at = offset % PART;
        match offset / PART {
            0 => match Register::at(at, data.len()) {
                Some(register) => self.write_register(register, value_le(data) as u32, port),
                None => self.common.guest_error("register write of another width"),
            },
            2 => self.common.device_mut().write_config(at, data),
            // Of a device that is not bus master, all queues are looked at when it is.
            3 if !port.is_master() => {}
            3 if at % u64::from(NOTIFY_STEP) == 0 => {
                let signal = self.common.notify((at / u64::from(NOTIFY_STEP)) as u32);
                self.tell(signal, port);
            }
            _ => self.common.guest_error("write to a place with no register"),
        }
    }
}

/// A virtio capability (section 4.1.4): a part of the BAR.
fn part(kind: u8, offset: u32, len: u32, more: &[u8]) -> Capability {
    let total = 16 + more.len() as u8;
    let mut body = vec![total, kind, BAR, 0, 0, 0];
    body.extend(offset.to_le_bytes());
    body.extend(len.to_le_bytes());
    body.extend(more);
    Capability {
        id: VENDOR_SPECIFIC,
        body,
        writable: Vec::new(),
    }
}

/// The capability through which software reaches BARs by accesses to the configuration space
/// (section 4.1.4.9).
fn access() -> Capability {
    let mut capability = part(5, 0, 0, &[0; 4]);
    capability.body[2] = 0;
    let mut writable = vec![0; capability.body.len()];
    writable[2] = 0xff;
    writable[6..].fill(0xff);
    Capability {
        writable,
        ..capability
    }
}

impl<D: VirtioDevice> Function for VirtioPci<D> {
    fn layout(&self) -> Layout {
        let kind = self.common.device().device_id() as u16;
        let base = match kind {
            1 => 0x02_0000,  // network
            2 => 0x01_0000,  // SCSI storage, as QEMU's
            3 => 0x07_8000,  // other communication
            26 => 0x01_8000, // other mass storage
            _ => 0x00_ff00,  // none of the classes
        };
        let part_at = |index: u64| (index * PART) as u32;
        let queues = self.queue_vectors.len() as u32;
        Layout {
            identity: Identity {
                vendor: VENDOR,
                device: FIRST_DEVICE + kind,
                revision: 1,
                class: base,
                subsystem_vendor: VENDOR,
                subsystem: SUBSYSTEM,
            },
            bars: vec![Bar {
                index: BAR,
                kind: BarKind::Memory64,
                size: 4 * PART,
            }],
            vectors: self.vectors(),
            msix_bar: MSIX_BAR,
            msi_vectors: 0,
            ats: false,
            capabilities: vec![
                access(),
                part(1, part_at(0), registers::LEN, &[]),
                part(3, part_at(1), 1, &[]),
                part(4, part_at(2), PART as u32, &[]),
                part(
                    2,
                    part_at(3),
                    queues * NOTIFY_STEP,
                    &NOTIFY_STEP.to_le_bytes(),
                ),
            ],
            access: Some(0),
        }
    }

    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], port: &mut Port) {
        data.fill(0);
        if bar == BAR {
            self.read_part(offset, data, port);
        }
    }

    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port) {
        if bar == BAR {
            self.write_part(offset, data, port);
        }
    }

    fn poll(&mut self, port: &mut Port) {
        if !port.is_master() {
            return self.common.pause();
        }
        let signal = self.common.poll();
        self.tell(signal, port);
    }

    fn resume(&mut self, port: &mut Port) {
        self.common.resume();
        self.poll(port);
    }

    fn needs_poll(&self) -> bool {
        self.common.needs_poll()
    }

    fn reset(&mut self) {
        self.reset_device(None);
    }

    fn obstacle(&self) -> Option<&'static str> {
        self.common.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.isr);
        to.number(self.config_vector);
        for vector in &self.queue_vectors {
            to.number(*vector);
        }
        self.common.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.isr = from.number()?;
        self.config_vector = from.number()?;
        for vector in &mut self.queue_vectors {
            *vector = from.number()?;
        }
        self.common.restore(from)
    }
}
