//! Devices of a guest, each registered once: its address, its saved state, and its events.

use crate::bus::{Bus, BusDevice};
use crate::devices::locked::Served;
use crate::devices::state::{Stateful, States};
use crate::devices::virtio::slot::Slot;
use crate::irqchip::controller::Watch;
use std::sync::Arc;

/// A device with its parts.
pub struct Registered {
    name: String,
    registers: Option<(u64, u64, Arc<dyn BusDevice>)>,
    slot: Option<Arc<dyn Slot>>,
    state: Option<Arc<dyn Stateful>>,
    served: Option<Arc<dyn Served>>,
    watch: Option<Watch>,
}

impl Registered {
    /// A device with this name in messages, statistics and saved guests.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            registers: None,
            slot: None,
            state: None,
            served: None,
            watch: None,
        }
    }

    /// Its registers are at `base .. base + len`.
    pub fn at(mut self, base: u64, len: u64, registers: Arc<dyn BusDevice>) -> Self {
        self.registers = Some((base, len, registers));
        self
    }

    /// It is the virtio device of the next slot.
    pub fn in_slot(mut self, slot: Arc<dyn Slot>) -> Self {
        self.slot = Some(slot);
        self
    }

    /// Its state is saved and restored with the guest.
    pub fn saved(mut self, state: Arc<dyn Stateful>) -> Self {
        self.state = Some(state);
        self
    }

    /// The event loop polls it when it is due.
    pub fn served(mut self, device: Arc<dyn Served>) -> Self {
        self.served = Some(device);
        self
    }

    /// The event loop watches a descriptor for it.
    pub fn watched(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// All devices of a guest, in the order of registration.
#[derive(Default)]
pub struct Registry {
    /// The devices by address.
    pub bus: Bus,
    /// virtio devices, by slot.
    pub slots: Vec<Arc<dyn Slot>>,
    /// Devices with saved state.
    pub states: States,
    /// Devices that the event loop polls when they are due.
    pub served: Vec<Arc<dyn Served>>,
    /// Descriptors that the event loop watches.
    pub watches: Vec<Watch>,
}

impl Registry {
    /// Registers a device.
    ///
    /// # Panics
    /// If its registers overlap another one's: the memory map is fixed, so this is a bug of the
    /// VMM.
    pub fn add(&mut self, device: Registered) {
        if let Some((base, len, registers)) = device.registers {
            self.bus.add(&device.name, base, len, registers);
        }
        self.slots.extend(device.slot);
        self.states
            .extend(device.state.map(|state| (device.name, state)));
        self.served.extend(device.served);
        self.watches.extend(device.watch);
    }
}
