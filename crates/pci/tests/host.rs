//! The host as software finds it: enumeration, virtio devices behind it, interrupts, reset.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::virtio::VirtioDevice;
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_devices::{
    DeviceId, Dma, GuestRam, IrqLine, MmioDevice, Persist, StateReader, StateWriter,
};
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{Host, Parts, Windows};
use vm_memory::{Bytes, GuestAddress};

const RAM: u64 = 0x8000_0000;
const RAM_LEN: u64 = 0x10_0000;
/// Where the tests put BARs: MSI-X, and the parts of a virtio device.
const MSIX: u64 = 0x4000_0000;
const VIRTIO: u64 = 0x4_0000_0000;
/// What a device's queue consists of.
const DESCRIPTORS: u64 = RAM;
const AVAILABLE: u64 = RAM + 0x1000;
const USED: u64 = RAM + 0x2000;
const BUFFER: u64 = RAM + 0x3000;

#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

impl IrqLine for Wire {
    fn set(&self, high: bool) {
        self.0.store(high, Relaxed);
    }
}

/// Notes messages, and lets no one write the last page of RAM.
#[derive(Default)]
struct System(Mutex<Vec<(u32, u64, u32)>>);

impl Dma for System {
    fn locate(
        &self,
        _: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        let guarded = RAM + RAM_LEN - 0x1000;
        match access == DmaAccess::Write && address + len > guarded {
            true => Err(DmaFault),
            false => Ok(Extent { address, len }),
        }
    }

    fn message(&self, device: DeviceId, address: u64, data: u32) {
        self.0.lock().unwrap().push((device.0, address, data));
    }
}

/// A machine's PCI with sources of entropy as devices 1 and 2.
struct Rig {
    host: Host,
    ram: Arc<GuestRam>,
    system: Arc<System>,
    wires: [Wire; 4],
    offered: u16,
}

fn entropy() -> impl VirtioDevice {
    Rng::new(Box::new(SeededEntropy::new(7)))
}

fn new_host(ram: &Arc<GuestRam>, system: &Arc<System>, wires: &[Wire; 4]) -> Host {
    let mut host = Host::new(Parts {
        windows: Windows::virt(RAM + RAM_LEN),
        ram: ram.clone(),
        dma: system.clone(),
        pins: [0, 1, 2, 3].map(|pin: usize| Box::new(wires[pin].clone()) as Box<dyn IrqLine>),
    });
    for _ in 0..2 {
        host.plug(|at| Box::new(VirtioPci::new(entropy(), at.memory, Box::new(()))));
    }
    host
}

impl Rig {
    fn new() -> Self {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), RAM_LEN as usize)]).unwrap();
        let (ram, system, wires) = (Arc::new(ram), Arc::default(), Default::default());
        Self {
            host: new_host(&ram, &system, &wires),
            ram,
            system,
            wires,
            offered: 0,
        }
    }

    fn load(&mut self, address: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        self.host.read(address, &mut data[..len]);
        u64::from_le_bytes(data)
    }

    fn store(&mut self, address: u64, len: usize, value: u64) {
        self.host.write(address, &value.to_le_bytes()[..len]);
    }

    fn space(device: u64, at: u64) -> u64 {
        0x3000_0000 + (device << 15) + at
    }

    fn config(&mut self, device: u64, at: u64, len: usize) -> u64 {
        self.load(Self::space(device, at), len)
    }

    fn set_config(&mut self, device: u64, at: u64, len: usize, value: u64) {
        self.store(Self::space(device, at), len, value);
    }

    /// Place of the nth capability with this ID.
    fn capability(&mut self, device: u64, id: u64, nth: usize) -> u64 {
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
    fn enable(&mut self) {
        self.set_config(1, 0x14, 4, MSIX);
        self.set_config(1, 0x20, 4, VIRTIO & 0xffff_ffff);
        self.set_config(1, 0x24, 4, VIRTIO >> 32);
        self.set_config(1, 4, 2, 6);
    }

    /// What a driver of device 1 does (virtio 1.2, section 3.1.1). Vector 1 is of the queue, and 0
    /// of the configuration.
    fn start(&mut self) {
        self.store(VIRTIO + 0x14, 1, 0);
        for status in [1, 3] {
            self.store(VIRTIO + 0x14, 1, status);
        }
        for word in [0, 1] {
            self.store(VIRTIO, 4, word);
            self.store(VIRTIO + 8, 4, word);
            let features = self.load(VIRTIO + 4, 4) & [!(1 << 29), !0][word as usize];
            self.store(VIRTIO + 0xc, 4, features);
        }
        self.store(VIRTIO + 0x14, 1, 11);
        assert_eq!(self.load(VIRTIO + 0x14, 1), 11);
        self.store(VIRTIO + 0x10, 2, 0);
        self.store(VIRTIO + 0x16, 2, 0);
        self.store(VIRTIO + 0x18, 2, 8);
        self.store(VIRTIO + 0x1a, 2, 1);
        for (at, address) in [(0x20, DESCRIPTORS), (0x28, AVAILABLE), (0x30, USED)] {
            self.store(VIRTIO + at, 4, address & 0xffff_ffff);
            self.store(VIRTIO + at + 4, 4, address >> 32);
        }
        self.store(VIRTIO + 0x1c, 2, 1);
        self.store(VIRTIO + 0x14, 1, 15);
        self.offered = 0;
        self.ram
            .write_obj(0_u16, GuestAddress(AVAILABLE + 2))
            .unwrap();
    }

    /// Asks for 8 bytes at `buffer`.
    fn ask(&mut self, buffer: u64) {
        let ram = &self.ram;
        ram.write_obj(buffer, GuestAddress(DESCRIPTORS)).unwrap();
        ram.write_obj(8_u32, GuestAddress(DESCRIPTORS + 8)).unwrap();
        ram.write_obj(2_u32, GuestAddress(DESCRIPTORS + 12))
            .unwrap();
        self.offered += 1;
        ram.write_obj(self.offered, GuestAddress(AVAILABLE + 2))
            .unwrap();
        self.store(VIRTIO + 0x3000, 2, 0);
    }

    fn used(&self) -> u16 {
        self.ram.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    /// Vector 1 becomes this message.
    fn set_message(&mut self, address: u64, data: u64) {
        self.store(MSIX + 16, 8, address);
        self.store(MSIX + 24, 4, data);
        self.store(MSIX + 28, 4, 0);
        let msix = self.capability(1, 0x11, 0);
        self.set_config(1, msix + 2, 2, 0x8000);
    }

    fn messages(&self) -> Vec<(u32, u64, u32)> {
        std::mem::take(&mut self.system.0.lock().unwrap())
    }
}

/// Promise: software finds the host bridge and the devices, nothing else, and all that a driver of
/// virtio needs.
#[test]
fn software_finds_what_there_is() {
    let mut rig = Rig::new();
    assert_eq!(rig.config(0, 0, 4), 0x0008_1b36);
    assert_eq!(rig.config(0, 0xb, 1), 6, "a bridge");
    for device in [1, 2] {
        assert_eq!(rig.config(device, 0, 4), 0x1044_1af4);
        assert_eq!(rig.config(device, 0x3d, 1), 1, "INTA");
        let kinds: Vec<u64> = (0..5)
            .map(|nth| {
                let at = rig.capability(device, 9, nth);
                rig.config(device, at + 3, 1)
            })
            .collect();
        assert_eq!(kinds, [5, 1, 3, 4, 2]);
        let express = rig.capability(device, 0x10, 0);
        assert_eq!(rig.config(device, express + 4, 4) >> 28 & 1, 1, "FLR");
        let msix = rig.capability(device, 0x11, 0);
        assert_eq!(rig.config(device, msix + 2, 2), 1, "two vectors");
    }
    let ecam = 0x3000_0000;
    let absent = [3 << 15, 1 << 15 | 1 << 12, 1 << 20, 0xfff_fffc];
    assert!(absent.map(|at| rig.load(ecam + at, 4)) == [0xffff_ffff; 4]);
    assert_eq!(rig.config(1, 0x100, 4), 0, "no extended capabilities");
}

/// Promise: a request is answered and told by the message that the driver has set, with the
/// device's ID; without MSI-X by INTx, which reading ISR status ends.
#[test]
fn requests_are_answered_and_told() {
    let mut rig = Rig::new();
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    assert_eq!(rig.used(), 1);
    let bytes = rig.ram.read_obj::<u64>(GuestAddress(BUFFER)).unwrap();
    assert_ne!(bytes, 0);
    // Device 1 has wire 1.
    assert!(rig.wires[1].0.load(Relaxed) && rig.messages().is_empty());
    assert_eq!(rig.config(1, 6, 2) & 8, 8, "status shows INTx");
    rig.set_config(1, 4, 2, 0x406);
    assert!(!rig.wires[1].0.load(Relaxed), "INTx is disabled");
    rig.set_config(1, 4, 2, 6);
    assert!(rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.load(VIRTIO + 0x1000, 1), 1);
    assert!(!rig.wires[1].0.load(Relaxed));
    rig.set_message(0x2800_1000, 0x55);
    rig.ask(BUFFER);
    assert_eq!(rig.messages(), [(8, 0x2800_1000, 0x55)]);
    assert!(!rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.load(VIRTIO + 0x1000, 1), 0);
    let vectors = [1, 2, 0xffff].map(|vector| {
        rig.store(VIRTIO + 0x1a, 2, vector);
        rig.load(VIRTIO + 0x1a, 2)
    });
    assert_eq!(vectors, [1, 0xffff, 0xffff], "vectors that there are");
}

/// Promise: a function that is not bus master writes nothing and interrupts nobody by messages.
#[test]
fn only_bus_masters_reach_memory() {
    let mut rig = Rig::new();
    rig.enable();
    rig.start();
    rig.set_message(0x2800_1000, 0x55);
    rig.set_config(1, 4, 2, 2);
    rig.ask(BUFFER);
    assert_eq!((rig.used(), rig.messages()), (0, Vec::new()));
    assert_eq!(rig.load(VIRTIO + 0x14, 1) & 0x40, 0x40, "it needs a reset");
    rig.set_config(1, 4, 2, 6);
    rig.start();
    rig.ask(BUFFER);
    assert_eq!(rig.used(), 1);
}

/// Promise: what is refused to the device is not written, and the driver is told.
#[test]
fn refused_accesses_stop_the_device_only() {
    let mut rig = Rig::new();
    rig.enable();
    rig.start();
    let guarded = RAM + RAM_LEN - 4;
    rig.ask(guarded);
    assert_eq!(rig.used(), 0);
    assert_eq!(rig.ram.read_obj::<u32>(GuestAddress(guarded)).unwrap(), 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1) & 0x40, 0x40);
    assert_eq!(rig.load(VIRTIO + 0x1000, 1) & 2, 2, "told");
}

/// Promise: a function level reset leaves nothing of what was set, in the middle of work as well.
#[test]
fn a_reset_leaves_nothing() {
    let mut rig = Rig::new();
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    assert!(rig.wires[1].0.load(Relaxed));
    let express = rig.capability(1, 0x10, 0);
    rig.set_config(1, express + 8, 2, 0x8000);
    assert!(!rig.wires[1].0.load(Relaxed));
    assert_eq!(rig.config(1, 4, 2), 0);
    assert_eq!(rig.config(1, 0x20, 4), 0xc);
    assert_eq!(rig.config(1, express + 8, 2), 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0xff, "nobody answers");
    rig.enable();
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0);
    rig.start();
    rig.ask(BUFFER);
    assert_eq!(rig.used(), 1);
}

/// Promise: software reaches BARs through the configuration space, before they are placed as well.
#[test]
fn bars_are_reached_through_the_configuration_space() {
    let mut rig = Rig::new();
    let access = rig.capability(1, 9, 0);
    let mut through = |bar: u64, offset: u64, len: u64, value: Option<u64>| {
        rig.set_config(1, access + 4, 1, bar);
        rig.set_config(1, access + 8, 4, offset);
        rig.set_config(1, access + 12, 4, len);
        match value {
            Some(value) => rig.set_config(1, access + 16, 4, value),
            None => return rig.config(1, access + 16, 4),
        }
        0
    };
    assert_eq!(through(4, 0x12, 2, None), 1, "one queue");
    through(4, 0x14, 1, Some(1));
    assert_eq!(through(4, 0x14, 1, None), 1);
    // Nothing answers for impossible accesses.
    for (bar, offset, len) in [(4, 0x13, 2), (9, 0, 4), (4, u64::MAX, 4), (4, 0, 3)] {
        through(bar, offset, len, Some(0));
        through(bar, offset, len, None);
    }
}

/// Promise: where regions overlap, the function with the lowest number answers; no region hides the
/// configuration spaces or lies anywhere but in a window.
#[test]
fn overlapping_regions_have_one_owner() {
    let mut rig = Rig::new();
    rig.enable();
    rig.set_config(2, 0x20, 4, VIRTIO & 0xffff_ffff);
    rig.set_config(2, 0x24, 4, VIRTIO >> 32);
    rig.set_config(2, 4, 2, 6);
    rig.store(VIRTIO + 0x14, 1, 1);
    rig.set_config(1, 4, 2, 0);
    assert_eq!(rig.load(VIRTIO + 0x14, 1), 0, "it was device 1 that heard");
    rig.set_config(2, 0x20, 4, 0x3000_0000);
    rig.set_config(2, 0x24, 4, 0);
    assert_eq!(rig.config(0, 0, 4), 0x0008_1b36);
}

/// Promise: a host that comes out of a checkpoint goes on as the saved one would have.
#[test]
fn a_restored_host_goes_on() {
    let mut rig = Rig::new();
    rig.enable();
    rig.start();
    rig.ask(BUFFER);
    let save = |host: &Host| {
        let mut state = StateWriter::default();
        host.save(&mut state);
        state.into_bytes()
    };
    let state = save(&rig.host);
    rig.wires = Default::default();
    rig.host = new_host(&rig.ram, &rig.system, &rig.wires);
    rig.host.restore(&mut StateReader::new(&state)).unwrap();
    assert_eq!(save(&rig.host), state);
    assert!(rig.wires[1].0.load(Relaxed), "INTx is high again");
    rig.set_message(0x2800_1000, 3);
    rig.ask(BUFFER);
    assert_eq!((rig.used(), rig.messages()), (2, vec![(8, 0x2800_1000, 3)]));
    for cut in 0..state.len() {
        let mut host = new_host(&rig.ram, &rig.system, &rig.wires);
        assert!(host.restore(&mut StateReader::new(&state[..cut])).is_err());
    }
}
