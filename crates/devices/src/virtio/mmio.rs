//! The memory-mapped transport, version 2 (virtio 1.2, section 4.2): registers, status handshake,
//! feature negotiation, queue set-up and the interrupt.

use std::sync::Arc;

use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK,
    VIRTIO_CONFIG_S_FAILED, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
    VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_mmio::*;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{Queue, QueueState, QueueT};
use vm_memory::{GuestAddress, GuestMemory, Permissions};

use super::VirtioDevice;
use super::queue::{DriverFault, QueueIo};
use super::shadow::{InterruptStatus, SHADOWED, Shadow};
use crate::state::{Persist, StateError, StateReader, StateWriter};
use crate::{DeviceEvents, GuestRam, IrqLine, MmioDevice, fill_le, value_le};

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
const VERSION: u32 = 2;
/// The letters "QEMU": the vendor is informative only, but small kernels that were written for
/// QEMU's `virt` look for it.
const VENDOR: u32 = 0x554d_4551;

const DRIVER_STATUS: u32 = VIRTIO_CONFIG_S_ACKNOWLEDGE
    | VIRTIO_CONFIG_S_DRIVER
    | VIRTIO_CONFIG_S_DRIVER_OK
    | VIRTIO_CONFIG_S_FEATURES_OK
    | VIRTIO_CONFIG_S_FAILED;

const GENERAL_FEATURES: u64 =
    1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_INDIRECT_DESC | 1 << VIRTIO_RING_F_EVENT_IDX;

/// A virtio device behind its registers.
pub struct VirtioMmio<D> {
    device: D,
    ram: Arc<GuestRam>,
    irq: Box<dyn IrqLine>,
    events: Box<dyn DeviceEvents>,
    queues: Vec<Queue>,
    status: u32,
    interrupt: InterruptStatus,
    generation: u32,
    device_features_select: u32,
    driver_features_select: u32,
    driver_features: u64,
    queue_select: u32,
    backlog: bool,
}

impl<D: VirtioDevice> VirtioMmio<D> {
    /// Puts `device` behind registers. It accesses only `ram`; guest errors go to `events`
    /// (`Box::new(())`: ignored).
    ///
    /// # Panics
    /// If a queue size of the device is not a power of two or it has more than 64 queues: a bug of
    /// the device.
    pub fn new(
        device: D,
        ram: Arc<GuestRam>,
        irq: Box<dyn IrqLine>,
        events: Box<dyn DeviceEvents>,
    ) -> Self {
        let queues: Vec<Queue> = device
            .queue_sizes()
            .iter()
            .map(|&size| Queue::new(size).expect("a queue size is a power of two"))
            .collect();
        assert!(queues.len() <= 64, "a device has at most 64 queues");
        Self {
            device,
            ram,
            irq,
            events,
            queues,
            status: 0,
            interrupt: InterruptStatus::Own(0),
            generation: 0,
            device_features_select: 0,
            driver_features_select: 0,
            driver_features: 0,
            queue_select: 0,
            backlog: false,
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
        self.interrupt.publish(VIRTIO_MMIO_STATUS, self.status);
        let generation = VIRTIO_MMIO_CONFIG_GENERATION;
        self.interrupt.publish(generation, self.generation);
    }

    /// The device behind the registers.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to pass input to it. Call [`MmioDevice::poll`] afterwards.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Notifies the driver of a change of the configuration space (section 2.5).
    pub fn config_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.publish();
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.raise(VIRTIO_MMIO_INT_CONFIG);
        }
    }

    /// Handles a notification of `queue`, as a write to QueueNotify; for a VMM that receives
    /// notifications by ioeventfd.
    pub fn notify(&mut self, queue: u32) {
        let Some(index) = usize::try_from(queue)
            .ok()
            .filter(|&index| index < self.queues.len())
        else {
            return self.guest_error("notification of a queue that does not exist");
        };
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK == 0 {
            return self.guest_error("notification before DRIVER_OK");
        }
        self.run(|device, io| device.notify(index, io));
    }

    /// Interrupts the driver after buffers were used outside this process.
    pub fn used_elsewhere(&mut self) {
        if self.running() {
            self.raise(VIRTIO_MMIO_INT_VRING);
        }
    }

    /// The process that served the queues has ended: the device needs a reset.
    pub fn abandoned(&mut self) {
        if self.running() {
            self.need_reset();
        }
    }

    fn features(&self) -> u64 {
        self.device.features() | GENERAL_FEATURES
    }

    fn running(&self) -> bool {
        let stopped = VIRTIO_CONFIG_S_NEEDS_RESET | VIRTIO_CONFIG_S_FAILED;
        self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 && self.status & stopped == 0
    }

    /// Calls the device to process its queues, and interrupts the driver if it wants that.
    fn run(&mut self, work: impl FnOnce(&mut D, &mut QueueIo<'_>) -> Result<(), DriverFault>) {
        if !self.running() {
            return;
        }
        let name = self.device.name();
        let mut io = QueueIo::new(&self.ram, &mut self.queues, &mut *self.events, name);
        let result = work(&mut self.device, &mut io);
        let interrupt = io.wants_interrupt();
        self.backlog |= io.backlog();
        if interrupt == Ok(true) {
            self.raise(VIRTIO_MMIO_INT_VRING);
        }
        if let Err(fault) = result.and(interrupt) {
            self.fail(fault);
        }
    }

    /// A fault of the driver: the device needs a reset.
    fn fail(&mut self, fault: DriverFault) {
        self.guest_error(fault.0);
        self.need_reset();
    }

    /// Enters the state that only a reset leaves (section 2.1.2).
    fn need_reset(&mut self) {
        self.backlog = false;
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        self.publish();
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.raise(VIRTIO_MMIO_INT_CONFIG);
        }
    }

    fn raise(&mut self, cause: u32) {
        self.interrupt.set(cause);
        self.irq.set(true);
    }

    fn guest_error(&mut self, what: &'static str) {
        self.events.guest_error(self.device.name(), what);
    }

    fn reset(&mut self) {
        for queue in &mut self.queues {
            queue.reset();
        }
        self.device.reset();
        self.status = 0;
        self.interrupt.clear(u32::MAX);
        self.device_features_select = 0;
        self.driver_features_select = 0;
        self.driver_features = 0;
        self.queue_select = 0;
        self.backlog = false;
        self.irq.set(false);
    }

    /// A write to the status register (section 3.1.1): 0 resets, other values add bits.
    fn set_status(&mut self, value: u32) {
        if value == 0 {
            return self.reset();
        }
        let mut added = value & DRIVER_STATUS & !self.status;
        if added & VIRTIO_CONFIG_S_FEATURES_OK != 0 && !self.features_acceptable() {
            self.guest_error("features that were not offered");
            added &= !VIRTIO_CONFIG_S_FEATURES_OK;
        }
        if added & VIRTIO_CONFIG_S_DRIVER_OK != 0
            && (self.status | added) & VIRTIO_CONFIG_S_FEATURES_OK == 0
        {
            self.guest_error("DRIVER_OK without FEATURES_OK");
            added &= !VIRTIO_CONFIG_S_DRIVER_OK;
        }
        self.status |= added;
        if added & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            let event_idx = self.driver_features & 1 << VIRTIO_RING_F_EVENT_IDX != 0;
            for queue in &mut self.queues {
                queue.set_event_idx(event_idx);
            }
            self.device.activate(self.driver_features);
            if let Err(fault) = self.device.start(&self.queues) {
                self.fail(fault);
            }
            // A queue that failed its set-up could not be reported before the driver was ready for
            // interrupts.
            if self.status & VIRTIO_CONFIG_S_NEEDS_RESET != 0 {
                self.raise(VIRTIO_MMIO_INT_CONFIG);
            }
        }
    }

    /// A driver that knows the version-2 registers but not VIRTIO_F_VERSION_1 is served, which
    /// section 6.2 allows: on a little-endian machine only the header of network frames differs.
    fn features_acceptable(&self) -> bool {
        self.driver_features & !self.features() == 0
    }

    fn queue(&self) -> Option<&Queue> {
        self.queues.get(self.queue_select as usize)
    }

    /// A write to one of the selected queue's set-up registers.
    fn set_up_queue(&mut self, register: u32, value: u32) {
        let Some(queue) = self.queues.get_mut(self.queue_select as usize) else {
            return self.guest_error("set-up of a queue that does not exist");
        };
        if queue.ready() && register != VIRTIO_MMIO_QUEUE_READY {
            return self.guest_error("set-up of a queue in use");
        }
        let half = |address: u64, high: bool| {
            GuestAddress(if high {
                address & 0xffff_ffff | u64::from(value) << 32
            } else {
                address & !0xffff_ffff | u64::from(value)
            })
        };
        let high = register & 4 != 0;
        let result = match register {
            VIRTIO_MMIO_QUEUE_NUM => u16::try_from(value)
                .map_err(|_| virtio_queue::Error::InvalidSize)
                .and_then(|size| queue.try_set_size(size)),
            VIRTIO_MMIO_QUEUE_DESC_LOW | VIRTIO_MMIO_QUEUE_DESC_HIGH => {
                queue.try_set_desc_table_address(half(queue.desc_table(), high))
            }
            VIRTIO_MMIO_QUEUE_AVAIL_LOW | VIRTIO_MMIO_QUEUE_AVAIL_HIGH => {
                queue.try_set_avail_ring_address(half(queue.avail_ring(), high))
            }
            VIRTIO_MMIO_QUEUE_USED_LOW | VIRTIO_MMIO_QUEUE_USED_HIGH => {
                queue.try_set_used_ring_address(half(queue.used_ring(), high))
            }
            _ => {
                let ready = value & 1 != 0;
                if ready && !queue_in_ram(queue, &self.ram) {
                    return self.fail(DriverFault("queue outside RAM"));
                }
                queue.set_ready(ready);
                Ok(())
            }
        };
        if result.is_err() {
            // The driver uses a size or address that differs from ours, so the device must stop.
            self.fail(DriverFault("queue size or alignment not allowed"));
        }
    }

    fn read_register(&self, register: u32) -> u32 {
        match register {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => VERSION,
            VIRTIO_MMIO_DEVICE_ID => self.device.device_id(),
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => half_of(self.features(), self.device_features_select),
            VIRTIO_MMIO_QUEUE_NUM_MAX => self.queue().map_or(0, |queue| queue.max_size().into()),
            VIRTIO_MMIO_QUEUE_READY => self.queue().map_or(0, |queue| queue.ready().into()),
            VIRTIO_MMIO_INTERRUPT_STATUS => self.interrupt.get(),
            VIRTIO_MMIO_STATUS => self.status,
            VIRTIO_MMIO_CONFIG_GENERATION => self.generation,
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
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.device_features_select = value,
            VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.driver_features_select = value,
            VIRTIO_MMIO_DRIVER_FEATURES => {
                if self.status & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
                    return self.guest_error("features changed after FEATURES_OK");
                }
                let features = self.driver_features;
                self.driver_features = match self.driver_features_select {
                    0 => features & !0xffff_ffff | u64::from(value),
                    1 => features & 0xffff_ffff | u64::from(value) << 32,
                    // Linux writes only the first two words; others must be 0 as none is offered.
                    _ => features,
                };
            }
            VIRTIO_MMIO_QUEUE_SEL => self.queue_select = value,
            VIRTIO_MMIO_QUEUE_NOTIFY => self.notify(value),
            VIRTIO_MMIO_INTERRUPT_ACK => {
                self.interrupt.clear(value);
                self.irq.set(self.interrupt.get() != 0);
            }
            VIRTIO_MMIO_STATUS => {
                self.set_status(value);
                self.publish();
            }
            VIRTIO_MMIO_QUEUE_NUM
            | VIRTIO_MMIO_QUEUE_READY
            | VIRTIO_MMIO_QUEUE_DESC_LOW
            | VIRTIO_MMIO_QUEUE_DESC_HIGH
            | VIRTIO_MMIO_QUEUE_AVAIL_LOW
            | VIRTIO_MMIO_QUEUE_AVAIL_HIGH
            | VIRTIO_MMIO_QUEUE_USED_LOW
            | VIRTIO_MMIO_QUEUE_USED_HIGH => self.set_up_queue(register, value),
            VIRTIO_MMIO_SHM_SEL => {}
            _ => self.guest_error("write to a register that does not exist or is read-only"),
        }
    }
}

impl<D: VirtioDevice> MmioDevice for VirtioMmio<D> {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(config) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.read_config(config, data);
        } else if data.len() == 4 && offset % 4 == 0 {
            fill_le(data, self.read_register(offset as u32).into());
        } else {
            self.guest_error("register read that is not an aligned word");
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        if let Some(config) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            self.device.write_config(config, data);
        } else if data.len() == 4 && offset % 4 == 0 {
            self.write_register(offset as u32, value_le(data) as u32);
        } else {
            self.guest_error("register write that is not an aligned word");
        }
    }

    fn poll(&mut self) {
        if std::mem::take(&mut self.backlog) {
            for index in 0..self.queues.len() {
                self.run(|device, io| device.notify(index, io));
            }
        }
        self.run(|device, io| device.poll(io));
    }

    fn needs_poll(&self) -> bool {
        self.backlog
    }
}

impl<D: VirtioDevice> Persist for VirtioMmio<D> {
    fn obstacle(&self) -> Option<&'static str> {
        self.device.obstacle()
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.device.device_id());
        to.number(self.device_features_select);
        to.number(self.driver_features_select);
        to.number(self.driver_features);
        to.number(self.queue_select);
        to.number(self.status);
        to.number(self.interrupt.get());
        to.number(self.generation);
        to.number(self.backlog);
        for queue in &self.queues {
            let state = queue.state();
            to.number(state.size);
            to.number(state.ready);
            to.number(state.event_idx_enabled);
            to.number(state.next_avail);
            to.number(state.next_used);
            to.number(state.desc_table);
            to.number(state.avail_ring);
            to.number(state.used_ring);
        }
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if from.number::<u32>()? != self.device.device_id() {
            return Err(StateError("is of another kind"));
        }
        self.device_features_select = from.number()?;
        self.driver_features_select = from.number()?;
        self.driver_features = from.number()?;
        self.queue_select = from.number()?;
        self.status = from.number::<u32>()? & (DRIVER_STATUS | VIRTIO_CONFIG_S_NEEDS_RESET);
        self.interrupt.clear(u32::MAX);
        self.interrupt.set(from.number()?);
        self.generation = from.number()?;
        self.publish();
        self.backlog = from.flag()?;
        for queue in &mut self.queues {
            let state = QueueState {
                max_size: queue.max_size(),
                size: from.number()?,
                ready: from.flag()?,
                event_idx_enabled: from.flag()?,
                next_avail: from.number()?,
                next_used: from.number()?,
                desc_table: from.number()?,
                avail_ring: from.number()?,
                used_ring: from.number()?,
            };
            *queue = Queue::try_from(state).map_err(|_| StateError("has an impossible queue"))?;
            if queue.ready() && !queue_in_ram(queue, &self.ram) {
                return Err(StateError("has a queue outside RAM"));
            }
        }
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            if !self.features_acceptable() {
                return Err(StateError("offered other features"));
            }
            self.device.activate(self.driver_features);
        }
        self.device.restore(from)?;
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

fn half_of(features: u64, select: u32) -> u32 {
    match select {
        0 => features as u32,
        1 => (features >> 32) as u32,
        _ => 0,
    }
}

/// Whether all three parts of a queue lie in RAM (layout: section 2.7; the rings end in an event
/// index).
fn queue_in_ram(queue: &Queue, ram: &GuestRam) -> bool {
    let size = usize::from(queue.size());
    [
        (queue.desc_table(), 16 * size, Permissions::Read),
        (queue.avail_ring(), 6 + 2 * size, Permissions::Read),
        (queue.used_ring(), 6 + 8 * size, Permissions::Write),
    ]
    .into_iter()
    .all(|(address, len, access)| ram.check_range(GuestAddress(address), len, access))
}
