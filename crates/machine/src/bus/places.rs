//! Places for virtio devices, on one transport or the other, and to what devices are connected.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::net::{Net, NetBackend, switch};
use trapless_devices::virtio::{VirtioDevice, VirtioMmio};
use trapless_devices::{
    Clock, DeviceEvents, GuestRam, IrqLine, MmioDevice, Persist, PowerLatch, StateError,
    StateReader, StateWriter,
};
use trapless_intc::Window;
use trapless_pci::virtio::VirtioPci;
use trapless_pci::{Attachment, Function, Layout, Port};

use crate::bus::address_map::Device;
use crate::bus::dma::{Messages, Steps};
use crate::bus::wires::{VirtualClock, Wires};
use crate::config::preset::MachineConfig;
use crate::error::Error;
use crate::outside::{Cable, Frames, Uplink};
use crate::time::past::{OnlyNew, OnlyNewEvents, Past};

/// What devices find in a machine, whatever their transport.
pub(crate) struct Socket {
    pub events: Box<dyn DeviceEvents>,
    pub input: ConsoleInput,
    pub past: Past,
    pub frames: Frames,
    pub date: Date,
}

/// Virtual time as the machine's clock tells it: nanoseconds since 1970.
pub(crate) struct Date {
    pub clock: VirtualClock,
    pub epoch: u64,
}

impl Clock for Date {
    fn now_ns(&self) -> u64 {
        self.epoch.saturating_add(self.clock.now_ns())
    }
}

/// How virtio devices are reached.
pub(crate) trait Transport {
    /// What a device of this transport is connected to.
    type Link;
    /// A device behind its registers.
    type Plugged;
    /// What there are too few of, if a place is missing.
    const DEVICES: &str;

    /// Puts `device` behind its registers.
    fn put<D: VirtioDevice + 'static>(
        device: D,
        link: Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged;

    /// The same for a console that gets the machine's input.
    fn put_console(
        console: Console,
        input: ConsoleInput,
        link: Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged;
}

/// In a slot of its own, with a wire of its own.
pub(crate) struct Mmio;

impl Transport for Mmio {
    type Link = (Arc<GuestRam>, Box<dyn IrqLine>);
    type Plugged = Box<dyn Device>;
    const DEVICES: &str = "virtio devices";

    fn put<D: VirtioDevice + 'static>(
        device: D,
        (ram, irq): Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged {
        Box::new(VirtioMmio::new(device, ram, irq, events))
    }

    fn put_console(
        console: Console,
        input: ConsoleInput,
        (ram, irq): Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged {
        let device = VirtioMmio::new(console, ram, irq, events);
        Box::new(FedMmio { device, input })
    }
}

/// As a PCI function.
pub(crate) struct Pci;

impl Transport for Pci {
    type Link = Vec<Attachment>;
    type Plugged = Functions;
    const DEVICES: &str = "PCI devices";

    fn put<D: VirtioDevice + 'static>(
        device: D,
        link: Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged {
        single(link, |at| {
            Box::new(VirtioPci::new(device, at.memory, events))
        })
        .into()
    }

    fn put_console(
        console: Console,
        input: ConsoleInput,
        link: Self::Link,
        events: Box<dyn DeviceEvents>,
    ) -> Self::Plugged {
        single(link, |at| {
            let device = VirtioPci::new(console, at.memory, events);
            Box::new(FedFunction { device, input })
        })
        .into()
    }
}

/// The functions of a PCI device.
pub(crate) struct Functions {
    pub functions: Vec<Box<dyn Function>>,
    /// Its port that is none.
    pub port: Option<PortEnd>,
}

/// What is behind the registers of a platform port.
pub(crate) struct PortEnd {
    pub net: Net,
    pub events: Box<dyn DeviceEvents>,
}

impl From<Vec<Box<dyn Function>>> for Functions {
    fn from(functions: Vec<Box<dyn Function>>) -> Self {
        Self {
            functions,
            port: None,
        }
    }
}

/// A device with one function.
fn single(
    link: Vec<Attachment>,
    make: impl FnOnce(Attachment) -> Box<dyn Function>,
) -> Vec<Box<dyn Function>> {
    link.into_iter().next().map(make).into_iter().collect()
}

/// Makes a device for its place.
type Plug<T> = Box<dyn FnOnce(<T as Transport>::Link, Socket) -> <T as Transport>::Plugged>;

/// A taken place.
pub(crate) struct Place<T: Transport> {
    pub plug: Plug<T>,
    pub events: Box<dyn DeviceEvents>,
    /// How many virtual functions it has (SR-IOV).
    pub virtual_functions: usize,
}

/// Places of one transport, in the order in which they are taken.
pub(crate) struct Places<T: Transport> {
    pub plugs: Vec<Place<T>>,
    most: usize,
    /// That of the console which gets the machine's input.
    pub console: Option<usize>,
    /// That of the network card whose cable leads out of the machine.
    pub cable: Option<usize>,
    /// A network card among them has a port that is no function.
    pub platform_port: bool,
}

impl<T: Transport + 'static> Places<T> {
    /// `most` free ones.
    pub fn new(most: usize) -> Self {
        Self {
            plugs: Vec::new(),
            most,
            console: None,
            cable: None,
            platform_port: false,
        }
    }

    pub fn plug<D: VirtioDevice + 'static>(
        &mut self,
        make: impl FnOnce(Box<dyn Clock>) -> D + 'static,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        let plug = |link, at: Socket| T::put(make(Box::new(at.date)), link, at.events);
        self.take(Box::new(plug), events)
    }

    pub fn plug_console(
        &mut self,
        out: Box<dyn Write + Send>,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.console = Some(self.plugs.len());
        let plug = |link, at: Socket| {
            let console = Console::new(OnlyNew::boxed(out, &at.past));
            T::put_console(console, at.input, link, at.events)
        };
        self.take(Box::new(plug), events)
    }

    pub fn plug_cable(
        &mut self,
        out: Option<Uplink>,
        mac: [u8; 6],
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.cable = Some(self.plugs.len());
        let plug = move |link, at: Socket| {
            let frames = at.frames;
            let net = Net::new(Box::new(Cable { out, frames }), mac);
            T::put(net, link, at.events)
        };
        self.take(Box::new(plug), events)
    }

    fn take(&mut self, plug: Plug<T>, events: Box<dyn DeviceEvents>) -> Result<(), Error> {
        if self.plugs.len() == self.most {
            return Err(Error::Invalid(format!(
                "a machine has {} {} at most; leave some out",
                self.most,
                T::DEVICES
            )));
        }
        self.plugs.push(Place {
            plug,
            events,
            virtual_functions: 0,
        });
        Ok(())
    }
}

/// What a network card with virtual functions is connected to.
pub enum CardEnd {
    /// This.
    Backend(Box<dyn NetBackend>),
    /// The outside, as with [`Peripherals::plug_cable`](crate::Peripherals::plug_cable).
    Cable(Option<Uplink>),
}

/// A network card with virtual functions (SR-IOV), which has a switch inside.
pub struct SharedCard {
    /// What it is connected to.
    pub end: CardEnd,
    /// Address of each function, the physical one first.
    pub addresses: Vec<[u8; 6]>,
    /// Errors of the drivers of its virtual functions.
    pub virtual_events: Vec<Box<dyn DeviceEvents>>,
    /// A port that is no PCI function.
    pub platform_port: Option<PlatformPort>,
}

/// A port of a network card that is a platform device behind the machine's IOMMU: a virtio device
/// in a page of its own (virtio-mmio), with a wire.
pub struct PlatformPort {
    /// Its address.
    pub address: [u8; 6],
    /// Errors of its driver.
    pub events: Box<dyn DeviceEvents>,
}

impl Places<Pci> {
    /// A function that is no virtio device.
    pub fn plug_function(
        &mut self,
        make: impl FnOnce(Attachment, Box<dyn DeviceEvents>) -> Box<dyn Function> + 'static,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        let plug = |link, at: Socket| single(link, |link| make(link, at.events)).into();
        self.take(Box::new(plug), events)
    }

    pub fn plug_shared_card(
        &mut self,
        card: SharedCard,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        let virtual_functions = card.virtual_events.len();
        let platform_port = card.platform_port.is_some();
        if let CardEnd::Cable(_) = card.end {
            self.cable = Some(self.plugs.len());
        }
        let plug = |links: Vec<Attachment>, at: Socket| {
            let end: Box<dyn NetBackend> = match card.end {
                CardEnd::Backend(end) => end,
                CardEnd::Cable(out) => Box::new(Cable {
                    out,
                    frames: at.frames,
                }),
            };
            let past = at.past;
            let others = card.virtual_events.into_iter().map(|events| {
                let past = past.clone();
                Box::new(OnlyNewEvents { events, past }) as Box<dyn DeviceEvents>
            });
            let events = std::iter::once(at.events).chain(others);
            let beside = card.platform_port.as_ref().map(|port| port.address);
            let addresses: Vec<_> = card.addresses.into_iter().chain(beside).collect();
            let mut ports = switch(end, &addresses);
            let port = card.platform_port.and_then(|port| {
                Some(PortEnd {
                    net: Net::new(Box::new(ports.pop()?), port.address),
                    events: Box::new(OnlyNewEvents {
                        events: port.events,
                        past: past.clone(),
                    }),
                })
            });
            let ends = ports.into_iter().zip(addresses).zip(links).zip(events);
            let functions = ends
                .enumerate()
                .map(|(n, (((port, address), link), events))| {
                    let net = Net::new(Box::new(port), address);
                    let function = VirtioPci::new(net, link.memory, events);
                    Box::new(match n {
                        0 => function.with_virtual_functions(),
                        _ => function,
                    }) as Box<dyn Function>
                });
            Functions {
                functions: functions.collect(),
                port,
            }
        };
        self.take(Box::new(plug), events)?;
        if let Some(place) = self.plugs.last_mut() {
            place.virtual_functions = virtual_functions;
        }
        self.platform_port |= platform_port;
        Ok(())
    }
}

/// A console in a slot with its input line: whenever the guest has touched it, waiting input
/// follows.
struct FedMmio {
    device: VirtioMmio<Console>,
    input: ConsoleInput,
}

impl MmioDevice for FedMmio {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        self.device.read(offset, data);
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.device.write(offset, data);
        self.poll();
    }

    fn poll(&mut self) {
        let console = self.device.device_mut();
        self.input
            .pass_on(MAX_INPUT, |bytes| console.enqueue(bytes));
        self.device.poll();
    }

    fn needs_poll(&self) -> bool {
        self.device.needs_poll()
    }
}

impl Persist for FedMmio {
    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}

/// The same as a PCI function.
struct FedFunction {
    device: VirtioPci<Console>,
    input: ConsoleInput,
}

impl Function for FedFunction {
    fn layout(&self) -> Layout {
        self.device.layout()
    }

    fn read(&mut self, bar: u8, offset: u64, data: &mut [u8], port: &mut Port) {
        self.device.read(bar, offset, data, port);
    }

    fn write(&mut self, bar: u8, offset: u64, data: &[u8], port: &mut Port) {
        self.device.write(bar, offset, data, port);
        self.poll(port);
    }

    fn poll(&mut self, port: &mut Port) {
        let console = self.device.device_mut();
        self.input
            .pass_on(MAX_INPUT, |bytes| console.enqueue(bytes));
        self.device.poll(port);
    }

    fn resume(&mut self, port: &mut Port) {
        self.device.resume(port);
        self.poll(port);
    }

    fn needs_poll(&self) -> bool {
        self.device.needs_poll()
    }

    fn reset(&mut self) {
        self.device.reset();
    }

    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}

/// Parts of the machine to which devices are connected.
pub(crate) struct Wiring<'a> {
    pub config: &'a MachineConfig,
    pub ram: &'a Arc<GuestRam>,
    pub wires: &'a Arc<Wires>,
    pub clock: &'a VirtualClock,
    pub power: &'a PowerLatch,
    pub input: &'a ConsoleInput,
    pub past: &'a Past,
    pub frames: &'a Frames,
    pub messages: &'a Messages,
    /// Where the interrupt architecture is.
    pub interrupt_windows: &'a [Window],
    pub iommu_steps: &'a Steps,
}

impl Wiring<'_> {
    /// Connections of a device; errors of its driver are reported to `events`.
    pub fn socket(&self, events: Box<dyn DeviceEvents>) -> Socket {
        Socket {
            events: Box::new(OnlyNewEvents {
                events,
                past: self.past.clone(),
            }),
            input: self.input.clone(),
            past: self.past.clone(),
            frames: self.frames.clone(),
            date: Date {
                clock: self.clock.clone(),
                epoch: self.config.epoch.saturating_mul(1_000_000_000),
            },
        }
    }
}

/// Console input that has arrived but did not yet fit into the UART.
#[derive(Clone, Default)]
pub(crate) struct ConsoleInput(Arc<Mutex<VecDeque<u8>>>);

/// Maximum number of queued bytes; further input is dropped, since no driver reads it.
pub(crate) const MAX_INPUT: usize = 1 << 20;

impl ConsoleInput {
    pub fn push(&self, bytes: &[u8]) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_INPUT - queue.len().min(MAX_INPUT);
        queue.extend(&bytes[..bytes.len().min(room)]);
    }

    /// The queued bytes.
    pub fn waiting(&self) -> Vec<u8> {
        let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.iter().copied().collect()
    }

    /// Replaces the queued bytes.
    pub fn replace(&self, waiting: Vec<u8>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = waiting.into();
    }

    /// Puts `unread` back before all other input: bytes that a driver discarded while it set up its
    /// device.
    pub fn take_back(&self, unread: &mut VecDeque<u8>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in unread.drain(..).rev() {
            queue.push_front(byte);
        }
    }

    /// Offers up to `room` queued bytes to a device; those it takes are removed.
    pub fn pass_on(&self, room: usize, take: impl FnOnce(&[u8]) -> usize) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = room.min(queue.len());
        if room > 0 {
            let taken = take(&queue.make_contiguous()[..room]);
            queue.drain(..taken);
        }
    }
}
