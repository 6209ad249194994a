//! A machine's PCI host with a driver of virtio devices.

// Not every test file uses all of it.
#![allow(dead_code)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use trapless_devices::ats::TranslationAgent;
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::virtio::VirtioDevice;
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::{DeviceId, Dma, GuestRam, IrqLine, MmioDevice};
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{Host, Parts, Windows};
use vm_memory::{Bytes, GuestAddress};

pub use agent::Agent;

pub mod agent;

pub const RAM: u64 = 0x8000_0000;
pub const RAM_LEN: u64 = 0x10_0000;
/// Where the tests put BARs: MSI-X, and the parts of a virtio device.
pub const MSIX: u64 = 0x4000_0000;
pub const VIRTIO: u64 = 0x4_0000_0000;
/// What a device's queue consists of.
const DESCRIPTORS: u64 = RAM;
const AVAILABLE: u64 = RAM + 0x1000;
const USED: u64 = RAM + 0x2000;
pub const BUFFER: u64 = RAM + 0x3000;

#[derive(Clone, Default)]
pub struct Wire(pub Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Relaxed);
    }
}

/// Notes who does what, and lets no one write the last page of RAM.
#[derive(Default)]
pub struct System {
    messages: Mutex<Vec<(u32, u64, u32)>>,
    accessed: Mutex<Vec<u32>>,
    /// Tells translations, if a test has set that up.
    pub agent: OnceLock<Agent>,
}

impl Dma for System {
    fn locate(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        self.accessed.lock().unwrap().push(device.0);
        let guarded = RAM + RAM_LEN - 0x1000;
        match access == DmaAccess::Write && address.saturating_add(len) > guarded {
            true => Err(DmaFault),
            false => Ok(Extent { address, len }),
        }
    }

    fn message(&self, device: DeviceId, address: u64, data: u32) {
        self.messages
            .lock()
            .unwrap()
            .push((device.0, address, data));
    }

    fn agent(&self) -> Option<&dyn TranslationAgent> {
        self.agent.get().map(|agent| agent as &dyn TranslationAgent)
    }
}

/// A machine's PCI.
pub struct Rig {
    pub host: Host,
    pub ram: Arc<GuestRam>,
    pub system: Arc<System>,
    pub wires: [Wire; 4],
    /// Where the virtio device is that is driven.
    pub virtio: u64,
    offered: u16,
}

pub fn entropy() -> impl VirtioDevice {
    Rng::new(Box::new(SeededEntropy::new(7)))
}

fn new_host(ram: &Arc<GuestRam>, system: &Arc<System>, wires: &[Wire; 4]) -> Host {
    Host::new(Parts {
        windows: Windows::virt(RAM + RAM_LEN),
        ram: ram.clone(),
        dma: system.clone(),
        pins: [0, 1, 2, 3].map(|pin: usize| Box::new(wires[pin].clone()) as Box<dyn IrqLine>),
    })
}

/// Sources of entropy as devices 1 and 2.
pub fn two_sources(host: &mut Host) {
    for _ in 0..2 {
        host.plug(|at| Box::new(VirtioPci::new(entropy(), at.memory, Box::new(()))));
    }
}

impl Rig {
    /// One with what `plug` plugs in.
    pub fn with(plug: impl FnOnce(&mut Host)) -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_LEN as usize)]).unwrap();
        let (ram, system, wires) = (Arc::new(ram), Arc::default(), Default::default());
        let mut host = new_host(&ram, &system, &wires);
        plug(&mut host);
        Self {
            host,
            ram,
            system,
            wires,
            virtio: VIRTIO,
            offered: 0,
        }
    }

    /// Another host before the same memory.
    pub fn renew(&mut self, plug: impl FnOnce(&mut Host)) {
        self.wires = Default::default();
        self.host = new_host(&self.ram, &self.system, &self.wires);
        plug(&mut self.host);
    }

    pub fn load(&mut self, address: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        self.host.read(address, &mut data[..len]);
        u64::from_le_bytes(data)
    }

    pub fn store(&mut self, address: u64, len: usize, value: u64) {
        self.host.write(address, &value.to_le_bytes()[..len]);
    }

    pub fn space(device: u64, at: u64) -> u64 {
        0x3000_0000 + (device << 15) + at
    }

    pub fn config(&mut self, device: u64, at: u64, len: usize) -> u64 {
        self.load(Self::space(device, at), len)
    }

    pub fn set_config(&mut self, device: u64, at: u64, len: usize, value: u64) {
        self.store(Self::space(device, at), len, value);
    }

    /// Place of the nth capability with this ID.
    pub fn capability(&mut self, device: u64, id: u64, nth: usize) -> u64 {
        let mut at = self.config(device, 0x34, 1);
        let mut found = Vec::new();
        while at != 0 {
            if self.config(device, at, 1) == id {
                found.push(at);
            }
            at = self.config(device, at + 1, 1);
        }
        found[nth]
    }

    /// Places the BARs of device 1 and lets it be bus master.
    pub fn enable(&mut self) {
        self.set_config(1, 0x14, 4, MSIX);
        self.set_config(1, 0x20, 4, VIRTIO & 0xffff_ffff);
        self.set_config(1, 0x24, 4, VIRTIO >> 32);
        self.set_config(1, 4, 2, 6);
    }

    /// What a driver of device 1 does (virtio 1.2, section 3.1.1). Vector 1 is of the queue, and 0
    /// of the configuration.
    pub fn start(&mut self) {
        self.store(self.virtio + 0x14, 1, 0);
        for status in [1, 3] {
            self.store(self.virtio + 0x14, 1, status);
        }
        for word in [0, 1] {
            self.store(self.virtio, 4, word);
            self.store(self.virtio + 8, 4, word);
            let features = self.load(self.virtio + 4, 4) & [!(1 << 29), !0][word as usize];
            self.store(self.virtio + 0xc, 4, features);
        }
        self.store(self.virtio + 0x14, 1, 11);
        assert_eq!(self.load(self.virtio + 0x14, 1), 11);
        self.store(self.virtio + 0x10, 2, 0);
        self.store(self.virtio + 0x16, 2, 0);
        self.store(self.virtio + 0x18, 2, 8);
        self.store(self.virtio + 0x1a, 2, 1);
        for (at, address) in [(0x20, DESCRIPTORS), (0x28, AVAILABLE), (0x30, USED)] {
            self.store(self.virtio + at, 4, address & 0xffff_ffff);
            self.store(self.virtio + at + 4, 4, address >> 32);
        }
        self.store(self.virtio + 0x1c, 2, 1);
        self.store(self.virtio + 0x14, 1, 15);
        self.offered = 0;
        self.ram
            .write_obj(0_u16, GuestAddress(AVAILABLE + 2))
            .unwrap();
    }

    /// Asks for 8 bytes at `buffer`.
    pub fn ask(&mut self, buffer: u64) {
        let ram = &self.ram;
        ram.write_obj(buffer, GuestAddress(DESCRIPTORS)).unwrap();
        ram.write_obj(8_u32, GuestAddress(DESCRIPTORS + 8)).unwrap();
        ram.write_obj(2_u32, GuestAddress(DESCRIPTORS + 12))
            .unwrap();
        self.offered += 1;
        ram.write_obj(self.offered, GuestAddress(AVAILABLE + 2))
            .unwrap();
        self.store(self.virtio + 0x3000, 2, 0);
    }

    pub fn used(&self) -> u16 {
        self.ram.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    /// Vector 1 becomes this message.
    pub fn set_message(&mut self, address: u64, data: u64) {
        self.store(MSIX + 16, 8, address);
        self.store(MSIX + 24, 4, data);
        self.store(MSIX + 28, 4, 0);
        let msix = self.capability(1, 0x11, 0);
        self.set_config(1, msix + 2, 2, 0x8000);
    }

    pub fn messages(&self) -> Vec<(u32, u64, u32)> {
        std::mem::take(&mut self.system.messages.lock().unwrap())
    }

    /// Who has accessed memory since the last call.
    pub fn accessed(&self) -> Vec<u32> {
        std::mem::take(&mut self.system.accessed.lock().unwrap())
    }
}
