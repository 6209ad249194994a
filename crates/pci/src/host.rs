//! The root complex: which function answers which address, and the interrupt wires.

use std::sync::Arc;

use trapless_devices::ats::{Completion, Message, TranslationAgent};
use trapless_devices::{
    DeviceId, DeviceMemory, Dma, GuestRam, IrqLine, MmioDevice, Persist, StateError, StateReader,
    StateWriter,
};

use crate::config::Identity;
use crate::device::{Device, Socket, routing_id};
use crate::function::{Function, Layout};
use crate::map::Windows;
use crate::port::{Gate, Port};

/// Most devices beside the host bridge.
pub const MAX_DEVICES: usize = 31;
/// Interrupt wires: INTA to INTD.
pub const PINS: usize = 4;

/// What a host is made of.
pub struct Parts {
    /// Where it is.
    pub windows: Windows,
    /// RAM.
    pub ram: Arc<GuestRam>,
    /// What lies between its functions and the rest of the system.
    pub dma: Arc<dyn Dma>,
    /// Its wires.
    pub pins: [Box<dyn IrqLine>; PINS],
}

/// What a function finds where it is plugged in.
pub struct Attachment {
    /// Who it is for others.
    pub device: DeviceId,
    /// Memory as it sees it.
    pub memory: DeviceMemory,
}

/// A region of a function where the guest has put it.
#[derive(Clone, Copy)]
struct Region {
    base: u64,
    size: u64,
    /// Numbers of the device and of its function.
    device: usize,
    function: usize,
    bar: u8,
}

/// The root complex with its functions. As an [`MmioDevice`] it takes physical addresses in the
/// place of offsets, because it has several windows.
pub struct Host {
    windows: Windows,
    ram: Arc<GuestRam>,
    dma: Arc<dyn Dma>,
    pins: [Box<dyn IrqLine>; PINS],
    /// Devices of bus 0, by number.
    devices: Vec<Device>,
    regions: Vec<Region>,
}

/// Most messages that are passed on in one poll.
const MAX_MESSAGES: usize = 16;

impl Host {
    /// A host bridge and no other device.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let mut host = Self {
            windows: parts.windows,
            ram: parts.ram,
            dma: parts.dma,
            pins: parts.pins,
            devices: Vec::new(),
            regions: Vec::new(),
        };
        host.plug(|_| Box::new(Bridge));
        host
    }

    /// Where it is.
    #[must_use]
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Plugs in what `make` returns, as the device with the next number.
    ///
    /// # Panics
    /// If there are [`MAX_DEVICES`] already.
    pub fn plug(&mut self, make: impl FnOnce(Attachment) -> Box<dyn Function>) {
        self.plug_shared(0, |mut at| vec![make(at.remove(0))]);
    }

    /// The same for a device that shares itself into at most `virtual_functions` by SR-IOV. `make`
    /// is told what each function finds, and returns as many, the physical one first.
    ///
    /// # Panics
    /// If there are [`MAX_DEVICES`] already, or more than
    /// [`MAX_VIRTUAL_FUNCTIONS`](crate::MAX_VIRTUAL_FUNCTIONS) functions.
    pub fn plug_shared(
        &mut self,
        virtual_functions: usize,
        make: impl FnOnce(Vec<Attachment>) -> Vec<Box<dyn Function>>,
    ) {
        let number = self.devices.len();
        assert!(number <= MAX_DEVICES, "a bus has 32 devices");
        let sockets = (0..=virtual_functions).map(|function| Socket {
            device: routing_id(number, function),
            gate: Arc::new(Gate::new(self.dma.clone())),
        });
        let sockets: Vec<Socket> = sockets.collect();
        let attachments = sockets.iter().map(|socket| Attachment {
            device: socket.device,
            memory: DeviceMemory::behind(self.ram.clone(), socket.device, socket.gate.clone()),
        });
        let functions = make(attachments.collect());
        assert_eq!(functions.len(), sockets.len(), "one for each attachment");
        let functions = functions.into_iter().zip(sockets);
        self.devices.push(Device::new(functions));
    }

    /// The function that an address in the ECAM belongs to, by the numbers of device and function,
    /// and the offset in its space.
    fn in_ecam(&self, address: u64) -> Option<(usize, usize, usize)> {
        let at = address.checked_sub(self.windows.ecam.start)?;
        let (id, offset) = (at >> 12, at as usize & 0xfff);
        let number = usize::try_from(id >> 3).ok()?;
        let there = number < self.devices.len();
        there.then_some((number, id as usize & 7, offset))
    }

    /// The region that holds `len` bytes at `address`, and the offset in it. Where several do, the
    /// function with the lowest number answers.
    fn in_region(&self, address: u64, len: usize) -> Option<(Region, u64)> {
        self.regions.iter().find_map(|region| {
            let offset = address.checked_sub(region.base)?;
            let end = offset.checked_add(len as u64)?;
            (end <= region.size).then_some((*region, offset))
        })
    }

    /// Passes on some of the messages that are on their way to functions. An answer may set one to
    /// work.
    fn deliver(&mut self) {
        let dma = self.dma.clone();
        let Some(agent) = dma.agent() else {
            return;
        };
        for _ in 0..MAX_MESSAGES {
            let Some((id, message)) = agent.take_message() else {
                return;
            };
            let (number, function) = (id.0 as usize >> 3, id.0 as usize & 7);
            let device = self.devices.get_mut(number);
            let taken = device.is_some_and(|device| device.take(function, &message));
            match message {
                Message::Invalidate(what) if taken => agent.complete(&Completion {
                    device: id,
                    tags: 1 << what.tag,
                    count: 1,
                }),
                // Whoever does not answer now never will.
                Message::Invalidate(what) => agent.time_out(what.tag),
                Message::Respond(_) => {}
            }
        }
    }

    /// Looks where regions are. A region at 0 has not been placed.
    fn place_regions(&mut self) {
        let devices = self.devices.iter().enumerate();
        let regions = devices.flat_map(|(number, device)| {
            device.regions().map(move |(function, bar, base)| Region {
                base,
                size: bar.size,
                device: number,
                function,
                bar: bar.index,
            })
        });
        self.regions = regions.filter(|region| region.base != 0).collect();
    }

    /// Drives the wires as the functions want. Device numbers are spread over them as usual for
    /// root complexes: pin p of device d is wire (d + p) mod 4.
    fn drive(&self) {
        let mut levels = [false; PINS];
        for (number, device) in self.devices.iter().enumerate() {
            levels[wire(number, 0)] |= device.intx();
        }
        for (pin, level) in self.pins.iter().zip(levels) {
            pin.set(level);
        }
    }
}

/// The wire that pin `pin` (0: INTA) of a device is connected to.
pub(crate) fn wire(device: usize, pin: usize) -> usize {
    (device + pin) % PINS
}

impl MmioDevice for Host {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, address: u64, data: &mut [u8]) {
        // What nobody answers reads as all ones.
        data.fill(0xff);
        if self.windows.ecam.contains(&address) {
            if let Some((number, function, offset)) = self.in_ecam(address) {
                self.devices[number].read_config(function, offset, data);
            }
        } else if let Some((region, offset)) = self.in_region(address, data.len()) {
            self.devices[region.device].read(region.function, region.bar, offset, data);
        }
        self.drive();
    }

    fn write(&mut self, address: u64, data: &[u8]) {
        if self.windows.ecam.contains(&address) {
            if let Some((number, function, offset)) = self.in_ecam(address) {
                self.devices[number].write_config(function, offset, data);
                self.place_regions();
            }
        } else if let Some((region, offset)) = self.in_region(address, data.len()) {
            self.devices[region.device].write(region.function, region.bar, offset, data);
        }
        self.drive();
    }

    fn poll(&mut self) {
        self.deliver();
        self.devices.iter_mut().for_each(Device::poll);
        self.drive();
    }

    fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.devices.iter().map(Device::next_deadline);
        deadlines.flatten().min()
    }

    fn needs_poll(&self) -> bool {
        let messages = self.dma.agent().is_some_and(TranslationAgent::has_messages);
        messages || self.devices.iter().any(Device::needs_poll)
    }
}

impl Persist for Host {
    fn obstacle(&self) -> Option<&'static str> {
        self.obstacles().into_iter().next()
    }

    fn obstacles(&self) -> Vec<&'static str> {
        self.devices.iter().flat_map(Device::obstacles).collect()
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.devices.len() as u64);
        for device in &self.devices {
            device.save(to);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if from.number::<usize>()? != self.devices.len() {
            return Err(StateError("has other functions"));
        }
        for device in &mut self.devices {
            device.restore(from)?;
        }
        self.place_regions();
        self.drive();
        Ok(())
    }
}

/// The host bridge as function 0 of device 0: QEMU's generic one, which needs no driver.
struct Bridge;

impl Function for Bridge {
    fn layout(&self) -> Layout {
        Layout {
            identity: Identity {
                vendor: 0x1b36,
                device: 8,
                revision: 0,
                class: 0x06_0000,
                subsystem_vendor: 0x1af4,
                subsystem: 0x1100,
            },
            bars: Vec::new(),
            vectors: 0,
            msix_bar: 0,
            msi_vectors: 0,
            ats: false,
            capabilities: Vec::new(),
            access: None,
        }
    }

    fn read(&mut self, _bar: u8, _offset: u64, data: &mut [u8], _port: &mut Port) {
        data.fill(0xff);
    }

    fn write(&mut self, _bar: u8, _offset: u64, _data: &[u8], _port: &mut Port) {}

    fn reset(&mut self) {}

    fn save(&self, _to: &mut StateWriter) {}

    fn restore(&mut self, _from: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}
