//! What a virtio device is whatever its transport (virtio 1.2, sections 2 and 3.1): status
//! handshake, feature negotiation, set-up of queues, and work on them.

use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK,
    VIRTIO_CONFIG_S_FAILED, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
    VIRTIO_F_ACCESS_PLATFORM, VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{Queue, QueueState, QueueT};
use vm_memory::{GuestAddress, GuestMemory, Permissions};

use super::VirtioDevice;
use super::queue::{DriverFault, QueueIo};
use crate::state::{StateError, StateReader, StateWriter};
use crate::{DeviceEvents, DeviceMemory};

const DRIVER_STATUS: u32 = VIRTIO_CONFIG_S_ACKNOWLEDGE
    | VIRTIO_CONFIG_S_DRIVER
    | VIRTIO_CONFIG_S_DRIVER_OK
    | VIRTIO_CONFIG_S_FEATURES_OK
    | VIRTIO_CONFIG_S_FAILED;

const GENERAL_FEATURES: u64 =
    1 << VIRTIO_F_VERSION_1 | 1 << VIRTIO_RING_F_INDIRECT_DESC | 1 << VIRTIO_RING_F_EVENT_IDX;

/// What the driver has to be told: interrupts that the transport owes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Signal {
    /// Queues with used buffers, one bit for each.
    pub queues: u64,
    /// The configuration has changed, or the device needs a reset.
    pub config: bool,
}

impl Signal {
    const CONFIG: Self = Self {
        queues: 0,
        config: true,
    };

    /// Whether there is nothing to be told.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    fn and(self, other: Self) -> Self {
        Self {
            queues: self.queues | other.queues,
            config: self.config | other.config,
        }
    }
}

/// Something about a queue that the driver sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueField {
    /// Number of descriptors.
    Size,
    /// Half of the address of the descriptor table; `high`: its upper half, as in the next two.
    Descriptors {
        /// Upper half.
        high: bool,
    },
    /// Half of the address of the available ring.
    Available {
        /// Upper half.
        high: bool,
    },
    /// Half of the address of the used ring.
    Used {
        /// Upper half.
        high: bool,
    },
    /// Whether the device may use it.
    Ready,
}

/// A virtio device without its registers.
pub struct Common<D> {
    device: D,
    memory: DeviceMemory,
    events: Box<dyn DeviceEvents>,
    queues: Vec<Queue>,
    status: u32,
    generation: u32,
    driver_features: u64,
    /// Features of the transport.
    offered: u64,
    /// What the driver has selected.
    pub select: Select,
    backlog: bool,
    /// It cannot work now.
    paused: bool,
}

/// Registers that say what others are about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Select {
    /// Which word of the offered features is read.
    pub device_features: u32,
    /// Which word of the accepted features is written.
    pub driver_features: u32,
    /// Which queue is set up.
    pub queue: u32,
}

impl<D: VirtioDevice> Common<D> {
    /// `device` after power-on. It reaches only `memory`; guest errors go to `events`.
    ///
    /// # Panics
    /// If a queue size of the device is not a power of two or it has more than 64 queues: a mistake
    /// in the device.
    pub fn new(device: D, memory: DeviceMemory, events: Box<dyn DeviceEvents>) -> Self {
        let queues: Vec<Queue> = device
            .queue_sizes()
            .iter()
            .map(|&size| Queue::new(size).expect("a queue size is a power of two"))
            .collect();
        assert!(queues.len() <= 64, "a device has at most 64 queues");
        Self {
            device,
            memory,
            events,
            queues,
            status: 0,
            generation: 0,
            driver_features: 0,
            offered: 0,
            select: Select::default(),
            backlog: false,
            paused: false,
        }
    }

    /// Offers `features`, which are those of its transport, as well.
    pub fn offer(&mut self, features: u64) {
        self.offered |= features;
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to hand it input, or for its configuration space.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Device status (section 2.1).
    pub fn status(&self) -> u32 {
        self.status
    }

    /// Counts changes of the configuration space (section 2.5).
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Number of queues.
    pub fn queue_count(&self) -> usize {
        self.queues.len()
    }

    /// The selected queue.
    pub fn queue(&self) -> Option<&Queue> {
        self.queues.get(self.select.queue as usize)
    }

    /// Features offered.
    pub fn features(&self) -> u64 {
        // Behind an IOMMU, addresses are those that the platform gives.
        let translated = u64::from(self.memory.is_translated()) << VIRTIO_F_ACCESS_PLATFORM;
        self.device.features() | GENERAL_FEATURES | self.offered | translated
    }

    /// The selected word of the features offered.
    pub fn offered_features(&self) -> u32 {
        match self.select.device_features {
            0 => self.features() as u32,
            1 => (self.features() >> 32) as u32,
            _ => 0,
        }
    }

    /// The selected word of the features accepted.
    pub fn accepted_features(&self) -> u32 {
        match self.select.driver_features {
            0 => self.driver_features as u32,
            1 => (self.driver_features >> 32) as u32,
            _ => 0,
        }
    }

    /// The driver accepts the features of the selected word.
    pub fn accept_features(&mut self, value: u32) {
        if self.status & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
            return self.guest_error("features changed after FEATURES_OK");
        }
        let features = self.driver_features;
        self.driver_features = match self.select.driver_features {
            0 => features & !0xffff_ffff | u64::from(value),
            1 => features & 0xffff_ffff | u64::from(value) << 32,
            // Linux writes only the first two words; others must be 0 as none is offered.
            _ => features,
        };
    }

    /// The configuration space has changed.
    pub fn config_changed(&mut self) -> Signal {
        self.generation = self.generation.wrapping_add(1);
        self.config_signal()
    }

    /// What tells a driver that is ready for interrupts to look at the device.
    fn config_signal(&self) -> Signal {
        Signal {
            config: self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0,
            queues: 0,
        }
    }

    /// The driver has made buffers available in `queue`.
    pub fn notify(&mut self, queue: u32) -> Signal {
        let index = usize::try_from(queue).ok();
        let Some(index) = index.filter(|&index| index < self.queues.len()) else {
            self.guest_error("notification of a queue that does not exist");
            return Signal::default();
        };
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK == 0 {
            self.guest_error("notification before DRIVER_OK");
            return Signal::default();
        }
        self.run(|device, io| device.notify(index, io))
    }

    /// Takes in what the back-end has, and goes on with what was stopped to bound one call.
    pub fn poll(&mut self) -> Signal {
        let mut signal = Signal::default();
        if std::mem::take(&mut self.backlog) {
            for index in 0..self.queues.len() {
                signal = signal.and(self.run(|device, io| device.notify(index, io)));
            }
        }
        signal.and(self.run(|device, io| device.poll(io)))
    }

    /// It cannot work now, until [`resume`](Self::resume).
    pub fn pause(&mut self) {
        self.backlog = false;
        self.paused = true;
    }

    /// All queues are looked at in the next call of [`poll`](Self::poll).
    pub fn resume(&mut self) {
        self.backlog = true;
        self.paused = false;
    }

    /// Whether it was stopped, or has input.
    pub fn needs_poll(&self) -> bool {
        self.backlog || !self.paused && self.running() && self.device.waits()
    }

    /// Whether the driver is ready and nothing is wrong.
    pub fn running(&self) -> bool {
        let stopped = VIRTIO_CONFIG_S_NEEDS_RESET | VIRTIO_CONFIG_S_FAILED;
        self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 && self.status & stopped == 0
    }

    /// Lets the device work on its queues.
    fn run(
        &mut self,
        work: impl FnOnce(&mut D, &mut QueueIo<'_>) -> Result<(), DriverFault>,
    ) -> Signal {
        if !self.running() {
            return Signal::default();
        }
        let name = self.device.name();
        let mut io = QueueIo::new(&self.memory, &mut self.queues, &mut *self.events, name);
        let result = work(&mut self.device, &mut io);
        let wanted = io.wanted_interrupts();
        self.backlog |= io.backlog();
        let signal = Signal {
            queues: wanted.unwrap_or(0),
            config: false,
        };
        match result.and(wanted) {
            Ok(_) => signal,
            Err(fault) => signal.and(self.fail(fault)),
        }
    }

    /// The driver's mistake: only a reset helps.
    fn fail(&mut self, fault: DriverFault) -> Signal {
        self.guest_error(fault.0);
        self.need_reset()
    }

    /// Enters the state that only a reset leaves (section 2.1.2).
    pub fn need_reset(&mut self) -> Signal {
        self.backlog = false;
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        self.config_signal()
    }

    /// Reports a mistake of the driver that the device can live with.
    pub fn guest_error(&mut self, what: &'static str) {
        self.events.guest_error(self.device.name(), what);
    }

    /// As after power-on, but for the back-end. The transport takes its interrupts back.
    pub fn reset(&mut self) {
        for queue in &mut self.queues {
            queue.reset();
        }
        self.device.reset();
        self.status = 0;
        self.driver_features = 0;
        self.select = Select::default();
        self.backlog = false;
    }

    /// A write to the status register (section 3.1.1) of a value that is not 0: adds bits. 0 is a
    /// [`reset`](Self::reset).
    pub fn add_status(&mut self, value: u32) -> Signal {
        let mut added = value & DRIVER_STATUS & !self.status;
        if added & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
            if let Err(what) = self.check_features() {
                self.guest_error(what);
                added &= !VIRTIO_CONFIG_S_FEATURES_OK;
            }
        }
        if added & VIRTIO_CONFIG_S_DRIVER_OK != 0
            && (self.status | added) & VIRTIO_CONFIG_S_FEATURES_OK == 0
        {
            self.guest_error("DRIVER_OK without FEATURES_OK");
            added &= !VIRTIO_CONFIG_S_DRIVER_OK;
        }
        self.status |= added;
        let mut signal = Signal::default();
        if added & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            let event_idx = self.driver_features & 1 << VIRTIO_RING_F_EVENT_IDX != 0;
            for queue in &mut self.queues {
                queue.set_event_idx(event_idx);
            }
            self.device.activate(self.driver_features);
            if let Err(fault) = self.device.start(&self.queues) {
                signal = self.fail(fault);
            }
            // A queue that failed its set-up could not be reported before the driver was ready for
            // interrupts.
            if self.status & VIRTIO_CONFIG_S_NEEDS_RESET != 0 {
                signal = signal.and(Signal::CONFIG);
            }
        }
        signal
    }

    /// A driver that knows the version-2 registers but not VIRTIO_F_VERSION_1 is served, which
    /// section 6.2 allows: on a little-endian machine only the header of network frames differs.
    /// One that does not know of the IOMMU would give addresses that mean something else.
    fn check_features(&self) -> Result<(), &'static str> {
        let needed = u64::from(self.memory.is_translated()) << VIRTIO_F_ACCESS_PLATFORM;
        if self.driver_features & !self.features() != 0 {
            Err("features that were not offered")
        } else if self.driver_features & needed != needed {
            Err("the IOMMU before the device is not known")
        } else {
            Ok(())
        }
    }

    /// The driver sets something about the selected queue.
    pub fn set_up_queue(&mut self, field: QueueField, value: u32) -> Signal {
        let Some(queue) = self.queues.get_mut(self.select.queue as usize) else {
            self.guest_error("set-up of a queue that does not exist");
            return Signal::default();
        };
        if queue.ready() && field != QueueField::Ready {
            self.guest_error("set-up of a queue in use");
            return Signal::default();
        }
        let half = |address: u64, high: bool| {
            GuestAddress(if high {
                address & 0xffff_ffff | u64::from(value) << 32
            } else {
                address & !0xffff_ffff | u64::from(value)
            })
        };
        let result = match field {
            QueueField::Size => u16::try_from(value)
                .map_err(|_| virtio_queue::Error::InvalidSize)
                .and_then(|size| queue.try_set_size(size)),
            QueueField::Descriptors { high } => {
                queue.try_set_desc_table_address(half(queue.desc_table(), high))
            }
            QueueField::Available { high } => {
                queue.try_set_avail_ring_address(half(queue.avail_ring(), high))
            }
            QueueField::Used { high } => {
                queue.try_set_used_ring_address(half(queue.used_ring(), high))
            }
            QueueField::Ready => {
                let ready = value & 1 != 0;
                if ready && !in_memory(queue, &self.memory) {
                    return self.fail(DriverFault("queue outside RAM"));
                }
                queue.set_ready(ready);
                Ok(())
            }
        };
        match result {
            Ok(()) => Signal::default(),
            // The driver believes in a size or address that we do not have: do not run on.
            Err(_) => self.fail(DriverFault("queue size or alignment not allowed")),
        }
    }

    /// Why a machine with this device cannot be saved, as a sentence; `None`: it can.
    pub fn obstacle(&self) -> Option<&'static str> {
        self.device.obstacle()
    }

    /// Appends all state.
    pub fn save(&self, to: &mut StateWriter) {
        to.number(self.device.device_id());
        to.number(self.select.device_features);
        to.number(self.select.driver_features);
        to.number(self.driver_features);
        to.number(self.select.queue);
        to.number(self.status);
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

    /// Takes over what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// [`StateError`] if it is not from such a device.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if from.number::<u32>()? != self.device.device_id() {
            return Err(StateError("is of another kind"));
        }
        self.select.device_features = from.number()?;
        self.select.driver_features = from.number()?;
        self.driver_features = from.number()?;
        self.select.queue = from.number()?;
        self.status = from.number::<u32>()? & (DRIVER_STATUS | VIRTIO_CONFIG_S_NEEDS_RESET);
        self.generation = from.number()?;
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
            if queue.ready() && !in_memory(queue, &self.memory) {
                return Err(StateError("has a queue outside RAM"));
            }
        }
        if self.status & VIRTIO_CONFIG_S_DRIVER_OK != 0 {
            self.check_features()
                .map_err(|_| StateError("offered other features"))?;
            self.device.activate(self.driver_features);
        }
        self.device.restore(from)
    }
}

/// Whether all three parts of a queue lie in RAM (layout: section 2.7; the rings end in an event
/// index). Where accesses can be refused, that is seen when they are made.
fn in_memory(queue: &Queue, memory: &DeviceMemory) -> bool {
    let size = usize::from(queue.size());
    memory.is_guarded()
        || [
            (queue.desc_table(), 16 * size, Permissions::Read),
            (queue.avail_ring(), 6 + 2 * size, Permissions::Read),
            (queue.used_ring(), 6 + 8 * size, Permissions::Write),
        ]
        .into_iter()
        .all(|(address, len, access)| memory.check_range(GuestAddress(address), len, access))
}
