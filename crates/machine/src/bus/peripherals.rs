//! Devices of a machine: its console and up to eight virtio devices.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use trapless_devices::state::{Persist, StateError, StateReader, StateWriter};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::net::Net;
use trapless_devices::virtio::{EmptySlot, VirtioDevice, VirtioMmio};
use trapless_devices::{
    Clock, DeviceEvents, GoldfishRtc, GuestRam, IrqLine, MmioDevice, PowerLatch, Syscon, Uart,
};

use crate::bus::address_map::{Device, Slot};
use crate::bus::map;
use crate::bus::wires::{VirtualClock, Wire, Wires};
use crate::config::preset::MachineConfig;
use crate::error::Error;
use crate::outside::{Cable, Frames, Uplink};
use crate::time::past::{OnlyNew, OnlyNewEvents, Past};

/// Makes a device for its slot.
type Plug = Box<dyn FnOnce(Socket) -> Box<dyn Device>>;

/// Connections of a virtio slot.
struct Socket {
    ram: Arc<GuestRam>,
    irq: Box<dyn IrqLine>,
    events: Box<dyn DeviceEvents>,
    input: ConsoleInput,
    past: Past,
    frames: Frames,
    date: Date,
}

/// Date of the machine's clock in virtual time: nanoseconds since 1970.
struct Date {
    clock: VirtualClock,
    epoch: u64,
}

impl Clock for Date {
    fn now_ns(&self) -> u64 {
        self.epoch.saturating_add(self.clock.now_ns())
    }
}

/// Devices besides those every machine has.
pub struct Peripherals {
    console: Box<dyn Write + Send>,
    virtio: Vec<(Plug, Box<dyn DeviceEvents>)>,
    /// Virtio slot of the console that receives input instead of the UART.
    virtio_console: Option<usize>,
    /// Virtio slot of the network card that is connected to the outside.
    cable: Option<usize>,
}

impl Peripherals {
    /// A UART that writes to `console`, and empty virtio slots. Each byte is written and flushed
    /// when the guest sends it.
    #[must_use]
    pub fn new(console: Box<dyn Write + Send>) -> Self {
        Self {
            console,
            virtio: Vec::new(),
            virtio_console: None,
            cable: None,
        }
    }

    /// Puts a device into the next free virtio slot; driver errors are reported to `events`.
    ///
    /// # Errors
    /// If all slots are taken.
    pub fn plug<D: VirtioDevice + 'static>(
        &mut self,
        device: D,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.take_slot(
            Box::new(|at: Socket| Box::new(VirtioMmio::new(device, at.ram, at.irq, at.events))),
            events,
        )
    }

    /// As [`plug`](Self::plug) for a device with a date: `make` receives a clock that counts from
    /// 1970, in virtual time.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_dated<D: VirtioDevice + 'static>(
        &mut self,
        make: impl FnOnce(Box<dyn Clock>) -> D + 'static,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        let plug = |at: Socket| {
            let device = make(Box::new(at.date));
            Box::new(VirtioMmio::new(device, at.ram, at.irq, at.events)) as Box<dyn Device>
        };
        self.take_slot(Box::new(plug), events)
    }

    /// Puts a virtio console into the next free slot. It writes to `out`, and receives console
    /// input instead of the UART.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_console(
        &mut self,
        out: Box<dyn Write + Send>,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.virtio_console = Some(self.virtio.len());
        let plug = |at: Socket| {
            let device = VirtioMmio::new(
                Console::new(OnlyNew::boxed(out, &at.past)),
                at.ram,
                at.irq,
                at.events,
            );
            Box::new(VirtioConsole {
                device,
                input: at.input,
            }) as Box<dyn Device>
        };
        self.take_slot(Box::new(plug), events)
    }

    /// Puts a network card with the address `mac` into the next free slot, connected to the
    /// outside: `out` receives the guest's frames, and [`Input::Frame`](crate::Input) sends one to
    /// the guest.
    ///
    /// # Errors
    /// As [`plug`](Self::plug).
    pub fn plug_cable(
        &mut self,
        out: Option<Uplink>,
        mac: [u8; 6],
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        self.cable = Some(self.virtio.len());
        let plug = move |at: Socket| {
            let frames = at.frames;
            let net = Net::new(Box::new(Cable { out, frames }), mac);
            Box::new(VirtioMmio::new(net, at.ram, at.irq, at.events)) as Box<dyn Device>
        };
        self.take_slot(Box::new(plug), events)
    }

    fn take_slot(&mut self, plug: Plug, events: Box<dyn DeviceEvents>) -> Result<(), Error> {
        if self.virtio.len() == map::VIRTIO_SLOTS {
            return Err(Error::Invalid(format!(
                "a machine has {} virtio devices at most; leave some out",
                map::VIRTIO_SLOTS
            )));
        }
        self.virtio.push((plug, events));
        Ok(())
    }

    /// Index among the slots of the device that receives console input.
    pub(crate) fn console_slot(&self) -> usize {
        self.virtio_console
            .map_or(UART_SLOT, |slot| FIRST_VIRTIO + slot)
    }

    /// Index among the slots of the network card that receives frames from outside.
    pub(crate) fn cable_slot(&self) -> Option<usize> {
        self.cable.map(|slot| FIRST_VIRTIO + slot)
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
            frames,
        } = wiring;
        let console = OnlyNew::boxed(self.console, past);
        let uart = ConsoleUart {
            uart: Uart::new(console, Wire::line(wires, map::UART_IRQ)),
            input: if self.virtio_console.is_some() {
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
        let slot = |base, len, device| Slot { base, len, device };
        let mut slots = vec![
            slot(map::UART, map::UART_LEN, Box::new(uart) as Box<dyn Device>),
            slot(map::RTC, map::DEVICE_LEN, Box::new(rtc)),
            slot(
                map::FINISHER,
                map::DEVICE_LEN,
                Box::new(Syscon::new((*power).clone())),
            ),
        ];
        let mut plugs = self.virtio.into_iter();
        for index in 0..map::VIRTIO_SLOTS {
            let wire = Wire::line(wires, map::VIRTIO_IRQ + index as u32);
            let device = match plugs.next() {
                Some((plug, events)) => plug(Socket {
                    ram: (*ram).clone(),
                    irq: wire,
                    events: Box::new(OnlyNewEvents {
                        events,
                        past: (*past).clone(),
                    }),
                    input: (*input).clone(),
                    past: (*past).clone(),
                    frames: (*frames).clone(),
                    date: Date {
                        clock: (*clock).clone(),
                        epoch: config.epoch.saturating_mul(1_000_000_000),
                    },
                }),
                None => Box::new(EmptySlot),
            };
            slots.push(slot(
                map::VIRTIO + index as u64 * map::VIRTIO_STEP,
                map::DEVICE_LEN,
                device,
            ));
        }
        slots
    }
}

/// Index of the UART among the slots.
const UART_SLOT: usize = 0;
/// Index of the first virtio device among the slots.
const FIRST_VIRTIO: usize = 3;

/// What devices are connected to.
pub(crate) struct Wiring<'a> {
    pub config: &'a MachineConfig,
    pub ram: &'a Arc<GuestRam>,
    pub wires: &'a Arc<Wires>,
    pub clock: &'a VirtualClock,
    pub power: &'a PowerLatch,
    pub input: &'a ConsoleInput,
    pub past: &'a Past,
    pub frames: &'a Frames,
}

/// Console input that has arrived but did not yet fit into the UART.
#[derive(Clone, Default)]
pub(crate) struct ConsoleInput(Arc<Mutex<VecDeque<u8>>>);

/// Maximum number of queued bytes; further input is dropped, since no driver reads it.
const MAX_INPUT: usize = 1 << 20;

impl ConsoleInput {
    pub fn push(&self, bytes: &[u8]) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_INPUT - queue.len().min(MAX_INPUT);
        queue.extend(&bytes[..bytes.len().min(room)]);
    }
}

impl ConsoleInput {
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
    fn take_back(&self, unread: &mut VecDeque<u8>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in unread.drain(..).rev() {
            queue.push_front(byte);
        }
    }

    /// Offers up to `room` queued bytes to a device; those it takes are removed.
    fn pass_on(&self, room: usize, take: impl FnOnce(&[u8]) -> usize) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = room.min(queue.len());
        if room > 0 {
            let taken = take(&queue.make_contiguous()[..room]);
            queue.drain(..taken);
        }
    }
}

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

/// A virtio console with its input queue.
struct VirtioConsole {
    device: VirtioMmio<Console>,
    input: ConsoleInput,
}

impl MmioDevice for VirtioConsole {
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

impl Persist for VirtioConsole {
    fn save(&self, to: &mut StateWriter) {
        self.device.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.device.restore(from)
    }
}
