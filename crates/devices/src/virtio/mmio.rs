//! The memory-mapped transport, version 2 (virtio 1.2, section 4.2): registers and the interrupt.

use std::sync::Arc;

use virtio_bindings::virtio_mmio::*;
use virtio_queue::QueueT;

use super::VirtioDevice;
use super::common::{Common, QueueField, Signal};
use super::shadow::{InterruptStatus, SHADOWED, Shadow};
use crate::state::{Persist, StateError, StateReader, StateWriter};
use crate::{DeviceEvents, DeviceMemory, IrqLine, MmioDevice, fill_le, value_le};

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
const VERSION: u32 = 2;
/// The letters "QEMU": the vendor is informative only, but small kernels that were written for
/// QEMU's `virt` look for it.
const VENDOR: u32 = 0x554d_4551;

/// A virtio device behind its registers.
pub struct VirtioMmio<D> {
    common: Common<D>,
    irq: Box<dyn IrqLine>,
    interrupt: InterruptStatus,
}

impl<D: VirtioDevice> VirtioMmio<D> {
    /// Puts `device` behind registers. It accesses only `memory`; guest errors go to `events`
    /// (`Box::new(())`: ignored).
    ///
    /// # Panics
    /// As [`Common::new`].
    pub fn new(
        device: D,
        memory: impl Into<DeviceMemory>,
        irq: Box<dyn IrqLine>,
        events: Box<dyn DeviceEvents>,
    ) -> Self {
        Self {
            common: Common::new(device, memory.into(), events),
            irq,
            interrupt: InterruptStatus::Own(0),
        }
    }

    /// Keeps some registers in `shadow` from now on, which serves the driver's accesses. An
    /// acknowledgement there does not lower the interrupt, which must be edge-triggered.
    pub fn share(&mut self, shadow: Arc<dyn Shadow>) {
        let registers = SHADOWED.map(|register| (register, self.read_register(register)));
        self.interrupt = InterruptStatus::Shared(shadow);
        for (register, value) in registers {
            self.interrupt.publish(register, value);
        }
    }

    /// The driver is interrupted by another process or the kernel, which cannot write to the shadow
    /// that was given to [`share`](Self::share): acknowledgements must clear nothing in it.
    pub fn interrupted_elsewhere(&mut self) {
        self.interrupt.fix();
    }

    /// Updates the shadow after a change of state that is visible to the driver.
    fn publish(&self) {
        self.interrupt
            .publish(VIRTIO_MMIO_STATUS, self.common.status());
        let generation = VIRTIO_MMIO_CONFIG_GENERATION;
        self.interrupt.publish(generation, self.common.generation());
    }

    /// The device behind the registers.
    pub fn device(&self) -> &D {
        self.common.device()
    }

    /// The device, to pass input to it. Call [`MmioDevice::poll`] afterwards.
    pub fn device_mut(&mut self) -> &mut D {
        self.common.device_mut()
    }

    /// Notifies the driver of a change of the configuration space (section 2.5).
    pub fn config_changed(&mut self) {
        let signal = self.common.config_changed();
        self.publish();
        self.tell(signal);
    }

    /// Handles a notification of `queue`, as a write to QueueNotify; for a VMM that receives
    /// notifications by ioeventfd.
    pub fn notify(&mut self, queue: u32) {
        let signal = self.common.notify(queue);
        self.tell(signal);
    }

    /// Interrupts the driver after buffers were used outside this process.
    pub fn used_elsewhere(&mut self) {
        if self.common.running() {
            self.raise(VIRTIO_MMIO_INT_VRING);
        }
    }

    /// The process that served the queues has ended: the device needs a reset.
    pub fn abandoned(&mut self) {
        if self.common.running() {
            let signal = self.common.need_reset();
            self.tell(signal);
        }
    }

    /// Tells the driver.
    fn tell(&mut self, signal: Signal) {
        if signal.config {
            self.publish();
        }
        if signal.queues != 0 {
            self.raise(VIRTIO_MMIO_INT_VRING);
        }
        if signal.config {
            self.raise(VIRTIO_MMIO_INT_CONFIG);
        }
    }

    fn raise(&mut self, cause: u32) {
        self.interrupt.set(cause);
        self.irq.set(true);
    }

    /// A write to the status register (section 3.1.1): 0 resets, other values add bits.
    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.common.reset();
            self.interrupt.clear(u32::MAX);
            self.irq.set(false);
        } else {
            let signal = self.common.add_status(value);
            self.tell(signal);
        }
        self.publish();
    }

    fn read_register(&self, register: u32) -> u32 {
        let queue = self.common.queue();
        match register {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.device().device_id(),
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => self.common.offered_features(),
            VIRTIO_MMIO_QUEUE_NUM_MAX => queue.map_or(0, |queue| queue.max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => queue.map_or(0, |queue| queue.ready().into()),
            VIRTIO_MMIO_INTERRUPT_STATUS => self.interrupt.get(),
            VIRTIO_MMIO_STATUS => self.common.status(),
            VIRTIO_MMIO_CONFIG_GENERATION => self.common.generation(),
            // No shared memory regions: length and base of all of them read as all ones.
            VIRTIO_MMIO_SHM_LEN_LOW
            | VIRTIO_MMIO_SHM_LEN_HIGH
            | VIRTIO_MMIO_SHM_BASE_LOW
            | VIRTIO_MMIO_SHM_BASE_HIGH => u32::MAX,
            _ => 0,
        }
    }

    fn write_register(&mut self, register: u32, value: u32) {
        match register {
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.common.select.device_features = value,
            VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.common.select.driver_features = value,
            VIRTIO_MMIO_DRIVER_FEATURES => self.common.accept_features(value),
            VIRTIO_MMIO_QUEUE_SEL => self.common.select.queue = value,
            VIRTIO_MMIO_QUEUE_NOTIFY => self.notify(value),
            VIRTIO_MMIO_INTERRUPT_ACK => {
                self.interrupt.clear(value);
                self.irq.set(self.interrupt.get() != 0);
            }
            VIRTIO_MMIO_STATUS => self.set_status(value),
            VIRTIO_MMIO_SHM_SEL => {}
            _ => match queue_field(register) {
                Some(field) => {
                    let signal = self.common.set_up_queue(field, value);
                    self.publish();
                    self.tell(signal);
                }
                None => self
                    .common
                    .guest_error("write to a register that does not exist or is read-only"),
            },
        }
    }
}

/// What a register sets of the selected queue.
fn queue_field(register: u32) -> Option<QueueField> {
    let high = register & 4 != 0;
    Some(match register {
        VIRTIO_MMIO_QUEUE_NUM => QueueField::Size,
        VIRTIO_MMIO_QUEUE_READY => QueueField::Ready,
        VIRTIO_MMIO_QUEUE_DESC_LOW | VIRTIO_MMIO_QUEUE_DESC_HIGH => {
            QueueField::Descriptors { high }
        }
        VIRTIO_MMIO_QUEUE_AVAIL_LOW | VIRTIO_MMIO_QUEUE_AVAIL_HIGH => {
            QueueField::Available { high }
        }
        VIRTIO_MMIO_QUEUE_USED_LOW | VIRTIO_MMIO_QUEUE_USED_HIGH => QueueField::Used { high },
        _ => return None,
    })
}

impl<D: VirtioDevice> MmioDevice for VirtioMmio<D> {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(config) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device().read_config(config, data);
        } else if data.len() == 4 && offset % 4 == 0 {
            fill_le(data, self.read_register(offset as u32).into());
        } else {
            self.common
                .guest_error("register read that is not an aligned word");
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        if let Some(config) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device_mut().write_config(config, data);
        } else if data.len() == 4 && offset % 4 == 0 {
            self.write_register(offset as u32, value_le(data) as u32);
        } else {
            self.common
                .guest_error("register write that is not an aligned word");
        }
    }

    fn poll(&mut self) {
        let signal = self.common.poll();
        self.tell(signal);
    }

    fn needs_poll(&self) -> bool {
        self.common.needs_poll()
    }
}

impl<D: VirtioDevice> Persist for VirtioMmio<D> {
    fn obstacle(&self) -> Option<&'static str> {
        self.common.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.interrupt.get());
        self.common.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.interrupt.clear(u32::MAX);
        self.interrupt.set(from.number()?);
        self.common.restore(from)?;
        self.publish();
        self.irq.set(self.interrupt.get() != 0);
        Ok(())
    }
}

/// A slot with no device: the transport with device type 0, which drivers skip (section 4.2.2.2).
#[derive(Debug, Default, Clone, Copy)]
pub struct EmptySlot;

impl Persist for EmptySlot {
    fn save(&self, _to: &mut StateWriter) {}

    fn restore(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl MmioDevice for EmptySlot {
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        let value = match u32::try_from(offset) {
            Ok(VIRTIO_MMIO_MAGIC_VALUE) => MAGIC,
            Ok(VIRTIO_MMIO_VERSION) => VERSION,
            Ok(VIRTIO_MMIO_VENDOR_ID) => VENDOR,
            _ => 0,
        };
        fill_le(data, value.into());
    }

    fn write(&mut self, _offset: u64, _data: &[u8]) {}
}
