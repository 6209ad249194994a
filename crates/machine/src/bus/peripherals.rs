//! Devices of a machine: its console, up to eight virtio devices in virtio-mmio slots, and PCI
//! devices.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use trapless_devices::state::{Persist, StateError, StateReader, StateWriter};
use trapless_devices::virtio::block::Disk;
use trapless_devices::virtio::{EmptySlot, VirtioDevice, VirtioMmio};
use trapless_devices::{
    Clock, DeviceEvents, DeviceId, DeviceMemory, Dma, GoldfishRtc, MmioDevice, Syscon, Uart,
};
use trapless_pci::nvme::Nvme;
use trapless_pci::{
    Attachment, EndpointTest, Function, Host, MAX_DEVICES, MAX_VIRTUAL_FUNCTIONS, PINS, Windows,
};

use crate::bus::address_map::{Device, Slot};
use crate::bus::dma::Direct;
use crate::bus::iommu::SharedIommu;
use crate::bus::map;
use crate::bus::places::{ConsoleInput, MAX_INPUT, Mmio, Pci, Places, PortEnd, SharedCard, Wiring};
use crate::bus::wires::Wire;
use crate::config::preset::MachineConfig;
use crate::error::Error;
use crate::outside::Uplink;
use crate::time::past::OnlyNew;

/// How a virtio device is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Through one of the eight virtio-mmio slots.
    #[default]
    Mmio,
    /// As a PCI function. The first one brings the machine's host bridge, as an IOMMU does.
    Pci,
}

/// Devices besides those every machine has.
pub struct Peripherals {
    console: Box<dyn Write + Send>,
    mmio: Places<Mmio>,
    pci: Places<Pci>,
}

impl Peripherals {
    /// A UART that writes to `console`, and empty virtio slots. Each byte is written and flushed
    /// when the guest sends it.
    #[must_use]
    pub fn new(console: Box<dyn Write + Send>) -> Self {
        Self {
            console,
            mmio: Places::new(map::VIRTIO_SLOTS),
            pci: Places::new(MAX_DEVICES),
        }
    }

    /// Puts a device into the next free place; driver errors are reported to `events`.
    ///
    /// # Errors
    /// If all places are taken.
    pub fn plug<D: VirtioDevice + 'static>(
        &mut self,
        transport: Transport,
        device: D,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.plug_dated(transport, |_| device, events)
    }

    /// As [`plug`](Self::plug) for a device with a date: `make` receives a clock that counts from
    /// 1970, in virtual time.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_dated<D: VirtioDevice + 'static>(
        &mut self,
        transport: Transport,
        make: impl FnOnce(Box<dyn Clock>) -> D + 'static,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        match transport {
            Transport::Mmio => self.mmio.plug(make, events),
            Transport::Pci => self.pci.plug(make, events),
        }
    }

    /// Puts a virtio console into the next free place. It writes to `out`, and receives
    /// console input instead of the UART.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_console(
        &mut self,
        transport: Transport,
        out: Box<dyn Write + Send>,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        match transport {
            Transport::Mmio => self.mmio.plug_console(out, events),
            Transport::Pci => self.pci.plug_console(out, events),
        }
    }

    /// Puts a network card with the address `mac` into the next free place, connected to the
    /// outside: `out` receives the guest's frames, and [`Input::Frame`](crate::Input) sends one to
    /// the guest.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_cable(
        &mut self,
        transport: Transport,
        out: Option<Uplink>,
        mac: [u8; 6],
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        match transport {
            Transport::Mmio => self.mmio.plug_cable(out, mac, events),
            Transport::Pci => self.pci.plug_cable(out, mac, events),
        }
    }

    /// Plugs a controller of NVM Express with this disk into PCI. `number` tells those of a machine
    /// apart.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_nvme(
        &mut self,
        disk: Box<dyn Disk>,
        number: u8,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        let make = move |at: Attachment, events| {
            Box::new(Nvme::new(disk, number, at.memory, events)) as Box<dyn Function>
        };
        self.pci.plug_function(make, events)
    }

    /// Plugs the test function of Linux's PCI endpoint framework into PCI.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_endpoint_test(&mut self, events: Box<dyn DeviceEvents>) -> Result<(), Error> {
        let make = |at: Attachment, events| {
            Box::new(EndpointTest::new(at.memory, events)) as Box<dyn Function>
        };
        self.pci.plug_function(make, events)
    }

    /// Plugs a network card with several ends into PCI.
    ///
    /// # Errors
    /// As [`plug`](Self::plug), or if it has more virtual functions than fit, or a second platform
    /// port.
    pub fn plug_shared_card(
        &mut self,
        card: SharedCard,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        if card.addresses.len() != card.virtual_events.len() + 1
            || card.virtual_events.len() > MAX_VIRTUAL_FUNCTIONS
        {
            return Err(Error::Invalid(format!(
                "a PCI device has at most {MAX_VIRTUAL_FUNCTIONS} virtual functions, each with an \
                 address of its own"
            )));
        }
        if self.has_platform_port() && card.platform_port.is_some() {
            return Err(Error::Invalid(
                "a machine has one platform port of a network card at most".into(),
            ));
        }
        self.pci.plug_shared_card(card, events)
    }

    /// Index among the slots of the device that receives console input.
    pub(crate) fn console_slot(&self) -> usize {
        let pci = self.pci.console.map(|_| PCI_SLOT);
        let mmio = self.mmio.console.map(|place| FIRST_VIRTIO + place);
        pci.or(mmio).unwrap_or(UART_SLOT)
    }

    /// Index among the slots of the network card that receives frames from outside.
    pub(crate) fn cable_slot(&self) -> Option<usize> {
        let mmio = self.mmio.cable.map(|place| FIRST_VIRTIO + place);
        mmio.or(self.pci.cable.map(|_| PCI_SLOT))
    }

    /// Whether there are functions that interrupt by messages only.
    pub(crate) fn need_messages(&self) -> bool {
        self.pci.plugs.iter().any(|at| at.virtual_functions != 0)
    }

    /// Whether a network card has a port that is no PCI function.
    pub(crate) fn has_platform_port(&self) -> bool {
        self.pci.platform_port
    }

    /// Where the PCI host of such a machine is, if it has one: for its devices, or for an IOMMU,
    /// which is nowhere else.
    pub(crate) fn pci_windows(&self, config: &MachineConfig) -> Option<Windows> {
        let some = !self.pci.plugs.is_empty() || config.iommu;
        some.then(|| config.pci_windows())
    }

    /// Builds all devices in their windows.
    pub(crate) fn build(self, wiring: &Wiring<'_>) -> Vec<Slot> {
        let Wiring {
            config,
            ram,
            wires,
            clock,
            power,
            input,
            past,
            ..
        } = wiring;
        let windows = self.pci_windows(config);
        let console = OnlyNew::boxed(self.console, past);
        let virtio_console = self.mmio.console.or(self.pci.console).is_some();
        let uart = ConsoleUart {
            uart: Uart::new(console, Wire::line(wires, map::UART_IRQ)),
            input: if virtio_console {
                ConsoleInput::default()
            } else {
                (*input).clone()
            },
            listener: Listener::default(),
            unread: VecDeque::new(),
        };
        let rtc = GoldfishRtc::new(
            Box::new((*clock).clone()),
            config.epoch.saturating_mul(1_000_000_000),
            Wire::line(wires, map::RTC_IRQ),
        );
        let power = Box::new(Syscon::new((*power).clone()));
        let mut slots = vec![
            Slot::new(map::UART, map::UART_LEN, Box::new(uart) as Box<dyn Device>),
            Slot::new(map::RTC, map::DEVICE_LEN, Box::new(rtc)),
            Slot::new(map::FINISHER, map::DEVICE_LEN, power),
        ];
        let mut plugs = self.mmio.plugs.into_iter();
        for index in 0..map::VIRTIO_SLOTS {
            let wire = Wire::line(wires, map::VIRTIO_IRQ + index as u32);
            let device = match plugs.next() {
                Some(at) => (at.plug)(((*ram).clone(), wire), wiring.socket(at.events)),
                None => Box::new(EmptySlot),
            };
            let base = map::VIRTIO + index as u64 * map::VIRTIO_STEP;
            slots.push(Slot::new(base, map::DEVICE_LEN, device));
        }
        if let Some(windows) = windows {
            let iommu = config.iommu.then(|| SharedIommu::new(wiring));
            let dma: Arc<dyn Dma> = match &iommu {
                Some(iommu) => Arc::new(iommu.dma(wiring)),
                None => Arc::new(Direct {
                    ram: (*ram).clone(),
                    messages: wiring.messages.clone(),
                }),
            };
            let mut host = Host::new(trapless_pci::Parts {
                windows: windows.clone(),
                ram: (*ram).clone(),
                dma: dma.clone(),
                pins: std::array::from_fn::<_, PINS, _>(|pin| {
                    Wire::line(wires, map::PCI_IRQ + pin as u32)
                }),
            });
            let mut port = None;
            for at in self.pci.plugs {
                let socket = wiring.socket(at.events);
                host.plug_shared(at.virtual_functions, |links| {
                    let device = (at.plug)(links, socket);
                    port = port.take().or(device.port);
                    device.functions
                });
            }
            slots.push(Slot::at_windows(windows.all().into(), Box::new(host)));
            if let Some(iommu) = iommu {
                let len = trapless_iommu::LEN;
                slots.push(Slot::new(map::IOMMU, len, Box::new(iommu)));
            }
            if let Some(PortEnd { net, events }) = port {
                let device = DeviceId(map::PORT_DEVICE);
                let memory = DeviceMemory::behind((*ram).clone(), device, dma);
                let wire = Wire::line(wires, map::PORT_IRQ);
                let port = VirtioMmio::new(net, memory, wire, events);
                slots.push(Slot::new(map::PORT, map::DEVICE_LEN, Box::new(port)));
            }
        }
        slots
    }
}

/// Index of the UART among the slots.
const UART_SLOT: usize = 0;
/// Index of the first virtio device among the slots.
const FIRST_VIRTIO: usize = 3;
/// Index of the PCI host.
const PCI_SLOT: usize = FIRST_VIRTIO + map::VIRTIO_SLOTS;

/// The UART with its input queue: input is passed on when a guest that reads it makes room.
struct ConsoleUart {
    uart: Uart,
    input: ConsoleInput,
    listener: Listener,
    /// Content of the receiver: bytes that the guest has not read yet.
    unread: VecDeque<u8>,
}

impl ConsoleUart {
    const DATA: u64 = 0;
    /// Clears the receiver, or switches its FIFO, which clears it, too.
    const FCR: u64 = 2;
}

/// Whether the guest reads input. A driver empties the receiver, perhaps several times, before it
/// is ready: what arrives then would be lost, so input is queued until a driver is ready.
#[derive(Default)]
struct Listener {
    /// The divisor latch covers the first two registers.
    latch: bool,
    /// The interrupt for received data is enabled (IER).
    interrupt: bool,
    /// Reads of the line status since the last access to another register: a guest that polls.
    polls: u32,
}

impl Listener {
    const IER: u64 = 1;
    const LCR: u64 = 3;
    const LSR: u64 = 5;
    /// More consecutive reads of the line status than a driver makes while it waits to transmit.
    const POLLING: u32 = 16;

    fn read(&mut self, register: u64) {
        if register == Self::LSR {
            self.polls = self.polls.saturating_add(1);
        } else if register != 0 || self.latch {
            // Reading received data does not end polling.
            self.polls = 0;
        }
    }

    fn write(&mut self, register: u64, value: u8) {
        self.polls = 0;
        match register {
            Self::LCR => self.latch = value & 0x80 != 0,
            Self::IER if !self.latch => self.interrupt = value & 1 != 0,
            _ => {}
        }
    }

    fn listens(&self) -> bool {
        self.interrupt || self.polls >= Self::POLLING
    }
}

impl MmioDevice for ConsoleUart {
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        if offset == Self::DATA && !self.listener.latch {
            self.unread.pop_front();
        }
        self.uart.read(offset, data);
        self.listener.read(offset);
        self.poll();
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let room = self.uart.input_capacity();
        self.uart.write(offset, data);
        if offset == Self::FCR && self.uart.input_capacity() > room {
            self.input.take_back(&mut self.unread);
        }
        self.listener
            .write(offset, data.first().copied().unwrap_or(0));
        self.poll();
    }

    fn poll(&mut self) {
        if !self.listener.listens() {
            return;
        }
        let room = self.uart.input_capacity();
        self.input.pass_on(room, |bytes| {
            let taken = self.uart.enqueue(bytes);
            self.unread.extend(&bytes[..taken]);
            taken
        });
    }
}

impl Persist for ConsoleUart {
    fn save(&self, to: &mut StateWriter) {
        self.uart.save(to);
        to.number(self.listener.latch);
        to.number(self.listener.interrupt);
        to.number(self.listener.polls);
        to.bytes(&self.unread.iter().copied().collect::<Vec<u8>>());
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.uart.restore(from)?;
        self.listener = Listener {
            latch: from.flag()?,
            interrupt: from.flag()?,
            polls: from.number()?,
        };
        self.unread = from.bytes(MAX_INPUT)?.to_vec().into();
        Ok(())
    }
}
