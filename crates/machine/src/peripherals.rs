//! What is plugged into a machine: its console and up to eight virtio devices.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use trapless_devices::virtio::{EmptySlot, VirtioDevice, VirtioMmio};
use trapless_devices::{
    DeviceEvents, GoldfishRtc, GuestRam, IrqLine, MmioDevice, PowerLatch, Syscon, Uart,
};

use crate::bus::{Slot, VirtualClock, Wire, Wires};
use crate::preset::MachineConfig;
use crate::{Error, map};

type Plug =
    Box<dyn FnOnce(Arc<GuestRam>, Box<dyn IrqLine>, Box<dyn DeviceEvents>) -> Box<dyn MmioDevice>>;

/// Devices beside those every machine has.
pub struct Peripherals {
    console: Box<dyn Write + Send>,
    virtio: Vec<(Plug, Box<dyn DeviceEvents>)>,
}

impl Peripherals {
    /// A UART that transmits to `console`, and empty virtio slots. Each byte is written and flushed
    /// when the guest sends it.
    #[must_use]
    pub fn new(console: Box<dyn Write + Send>) -> Self {
        Self {
            console,
            virtio: Vec::new(),
        }
    }

    /// Puts a device into the next free virtio slot; driver mistakes are told to `events`.
    ///
    /// # Errors
    /// A sentence, if all slots are taken.
    pub fn plug<D: VirtioDevice + 'static>(
        &mut self,
        device: D,
        events: Box<dyn DeviceEvents>,
    ) -> Result<(), Error> {
        if self.virtio.len() == map::VIRTIO_SLOTS {
            return Err(Error::Invalid(format!(
                "a machine has {} virtio devices at most; leave some out",
                map::VIRTIO_SLOTS
            )));
        }
        let plug: Plug =
            Box::new(|ram, irq, events| Box::new(VirtioMmio::new(device, ram, irq, events)));
        self.virtio.push((plug, events));
        Ok(())
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
        } = wiring;
        let uart = ConsoleUart {
            uart: Uart::new(self.console, Wire::line(wires, map::UART_IRQ)),
            input: (*input).clone(),
        };
        let rtc = GoldfishRtc::new(
            Box::new((*clock).clone()),
            config.epoch.saturating_mul(1_000_000_000),
            Wire::line(wires, map::RTC_IRQ),
        );
        let slot = |base, len, device| Slot { base, len, device };
        let mut slots = vec![
            slot(
                map::UART,
                map::UART_LEN,
                Box::new(uart) as Box<dyn MmioDevice>,
            ),
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
                Some((plug, events)) => plug((*ram).clone(), wire, events),
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
pub(crate) const UART_SLOT: usize = 0;

/// What devices are connected to.
pub(crate) struct Wiring<'a> {
    pub config: &'a MachineConfig,
    pub ram: &'a Arc<GuestRam>,
    pub wires: &'a Arc<Wires>,
    pub clock: &'a VirtualClock,
    pub power: &'a PowerLatch,
    pub input: &'a ConsoleInput,
}

/// Console input that has arrived but did not yet fit into the UART.
#[derive(Clone, Default)]
pub(crate) struct ConsoleInput(Arc<Mutex<VecDeque<u8>>>);

/// Input that waits beyond this many bytes is dropped: nobody reads it.
const MAX_INPUT: usize = 1 << 20;

impl ConsoleInput {
    pub fn push(&self, bytes: &[u8]) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_INPUT - queue.len().min(MAX_INPUT);
        queue.extend(&bytes[..bytes.len().min(room)]);
    }
}

/// The UART with its input line: whenever the guest makes room, waiting input follows.
struct ConsoleUart {
    uart: Uart,
    input: ConsoleInput,
}

impl MmioDevice for ConsoleUart {
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        self.uart.read(offset, data);
        self.poll();
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.uart.write(offset, data);
        self.poll();
    }

    fn poll(&mut self) {
        let mut queue = self.input.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.uart.input_capacity().min(queue.len());
        if room > 0 {
            let bytes: Vec<u8> = queue.iter().take(room).copied().collect();
            let taken = self.uart.enqueue(&bytes);
            queue.drain(..taken);
        }
    }
}
