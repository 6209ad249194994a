//! Devices of a guest, each entered once: where it answers, what is saved of it, and what the event
//! loop does for it.

use crate::bus::{Bus, BusDevice};
use crate::devices::locked::Served;
use crate::devices::state::{Stateful, States};
use crate::devices::virtio::slot::Slot;
use crate::irqchip::controller::Watch;
use std::sync::Arc;

/// A device, made of the parts that it has.
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

    /// It answers at `base .. base + len`.
    pub fn at(mut self, base: u64, len: u64, registers: Arc<dyn BusDevice>) -> Self {
        self.registers = Some((base, len, registers));
        self
    }

    /// It is the virtio device of the next slot.
    pub fn in_slot(mut self, slot: Arc<dyn Slot>) -> Self {
        self.slot = Some(slot);
        self
    }

    /// It is saved and restored with the guest.
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

/// All devices of a guest, in the order in which they were entered.
#[derive(Default)]
pub struct Registry {
    /// The devices by address.
    pub bus: Bus,
    /// virtio devices, by slot.
    pub slots: Vec<Arc<dyn Slot>>,
    /// What is to be saved.
    pub states: States,
    /// What the event loop has to poll when it is due.
    pub served: Vec<Arc<dyn Served>>,
    /// What the event loop has to watch.
    pub watches: Vec<Watch>,
}

impl Registry {
    /// Enters a device.
    ///
    /// # Panics
    /// If it answers where another one does: the memory map is fixed, so this is a bug of the VMM.
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
