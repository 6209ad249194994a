//! Which virtio devices a guest has, and their slots.

use crate::cli::{Cli, Console as ConsoleKind};
use crate::devices::{
    Bus, BusDevice, HostClock, InputSink, Locked, Served, Stateful, TYPE_AHEAD, restore_input,
    save_input,
};
use crate::error::{Error, Result};
use crate::irqchip::plic::Controller;
use crate::map;
use crate::run::events::EventLoop;
use crate::terminal::{self, Output};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use trapless_devices::virtio::block::{Block, RawDisk};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::net::{Net, NetBackend, Tap};
use trapless_devices::virtio::rng::{HostEntropy, Rng};
use trapless_devices::virtio::{VirtioDevice, VirtioMmio};
use trapless_devices::{DeviceEvents, GuestRam, StateError, StateReader, StateWriter};
use vmm_sys_util::eventfd::EventFd;

/// Offset of QueueNotify (virtio 1.2, section 4.2.2).
pub const QUEUE_NOTIFY: u64 = 0x50;

/// Offset of Status, and its bit DRIVER_OK.
const STATUS: u64 = 0x70;
const DRIVER_OK: u8 = 4;

/// A virtio device in its slot.
pub trait Slot: BusDevice + Served + Stateful {
    /// Number of queues.
    fn queues(&self) -> usize;
    /// Does what a write of `queue` to QueueNotify does.
    fn notify(&self, queue: u32);

    /// Looks into all queues, for notifications that were under way when the guest was saved. One too many does no harm.
    fn notify_all(&self) {
        let mut status = [0; 4];
        self.read(STATUS, &mut status);
        if status[0] & DRIVER_OK != 0 {
            (0..self.queues() as u32).for_each(|queue| self.notify(queue));
        }
    }
}

impl<D: VirtioDevice> Slot for Locked<VirtioMmio<D>> {
    fn queues(&self) -> usize {
        self.lock().device().queue_sizes().len()
    }

    fn notify(&self, queue: u32) {
        self.with(|device| device.notify(queue));
    }
}

/// Prints the first mistake of a device's driver; a guest must not fill the terminal.
struct FirstError(bool);

impl DeviceEvents for FirstError {
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        if !std::mem::replace(&mut self.0, true) {
            eprintln!("trapless-vmm: the guest's driver of {device} broke the protocol: {what}");
        }
    }
}

/// A tap interface that survives the restart of a guest: closing it would take its configuration with it.
#[derive(Clone)]
pub struct SharedTap(Arc<Mutex<Tap>>);

impl SharedTap {
    /// Attaches to the interface `name`.
    ///
    /// # Errors
    /// [`Error::User`] with what is missing.
    pub fn open(name: &str) -> Result<Self> {
        let tap = Tap::open(name).map_err(|e| Error::user(e.to_string()))?;
        Ok(Self(Arc::new(Mutex::new(tap))))
    }
}

impl NetBackend for SharedTap {
    fn send(&mut self, frame: &[u8]) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(frame);
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .receive(frame)
    }
}

/// A locally administered MAC address that depends on the interface's name only (FNV-1a), so that two guests of a
/// host differ and one guest keeps its own.
pub fn mac_address(tap: &str) -> [u8; 6] {
    let hash = tap.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let bytes = hash.to_be_bytes();
    [0x52, 0x54, 0x00, bytes[5], bytes[6], bytes[7]]
}

/// What the devices are put together from.
pub struct Parts<'a> {
    /// The command line.
    pub cli: &'a Cli,
    /// Guest RAM.
    pub ram: &'a Arc<GuestRam>,
    /// What interrupts go to.
    pub controller: &'a Controller,
    /// Wakes the event loop.
    pub wake: &'a Arc<EventFd>,
    /// Time for devices.
    pub clock: HostClock,
}

/// All virtio devices of a guest.
pub struct Filled {
    /// Occupied slots from slot 0.
    pub slots: Vec<Arc<dyn Slot>>,
    /// Where typed bytes go, if the console is a virtio one.
    pub input: Option<Arc<dyn InputSink>>,
    /// What is to be saved, by name.
    pub states: Vec<(String, Arc<dyn Stateful>)>,
}

/// Fills the slots.
pub struct Slots<'a> {
    parts: Parts<'a>,
    slots: Vec<Arc<dyn Slot>>,
    states: Vec<(String, Arc<dyn Stateful>)>,
}

impl<'a> Slots<'a> {
    fn add<D: VirtioDevice + 'static>(
        &mut self,
        bus: &mut Bus,
        events: &mut EventLoop,
        name: &str,
        device: D,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        let (base, irq) = map::virtio_slot(self.slots.len());
        let wire = self.parts.controller.virtio_line(irq)?;
        let ram = Arc::clone(self.parts.ram);
        let device = VirtioMmio::new(device, ram, wire, Box::new(FirstError(false)));
        let device = Arc::new(Locked::new(device, self.parts.wake, self.parts.clock));
        bus.add(name, base, map::VIRTIO_LEN, device.clone());
        events.serve(device.clone());
        self.slots.push(device.clone());
        self.states.push((name.into(), device.clone()));
        Ok(device)
    }

    /// Fills the slots: disks first, so that the first one is `vda`, then network, console and entropy.
    ///
    /// # Errors
    /// [`Error::User`] for disks that cannot be used.
    pub fn fill(
        parts: Parts<'a>,
        tap: Option<SharedTap>,
        bus: &mut Bus,
        events: &mut EventLoop,
    ) -> Result<Filled> {
        let cli = parts.cli;
        let mut slots = Self {
            parts,
            slots: Vec::new(),
            states: Vec::new(),
        };
        for (number, disk) in cli.disk.iter().enumerate() {
            let raw = RawDisk::open(&disk.path, !disk.read_only)
                .map_err(|e| Error::user(e.to_string()))?;
            let serial = format!("disk{number}");
            let block = Block::new(Box::new(raw), &serial);
            slots.add(bus, events, &format!("virtio-blk{number}"), block)?;
        }
        if let Some(tap) = tap {
            let fd = tap
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_raw_fd();
            let mac = mac_address(cli.tap.as_deref().unwrap_or_default());
            let net = slots.add(bus, events, "virtio-net", Net::new(Box::new(tap), mac))?;
            events.add(fd, Box::new(move || net.poll()))?;
        }
        let mut input: Option<Arc<dyn InputSink>> = None;
        if cli.console == ConsoleKind::Virtio {
            let mut model = Console::new(Box::new(Output));
            if let Some((columns, rows)) = terminal::window_size() {
                model.set_size(columns, rows);
            }
            let device = slots.add(bus, events, "virtio-console", model)?;
            let typed = Arc::new(ConsoleInput {
                device,
                ahead: Mutex::default(),
            });
            slots.states.push(("typed".into(), typed.clone()));
            input = Some(typed);
        }
        let entropy =
            HostEntropy::open().map_err(|e| Error::failed("cannot open /dev/urandom", e))?;
        slots.add(bus, events, "virtio-rng", Rng::new(Box::new(entropy)))?;
        Ok(Filled {
            slots: slots.slots,
            input,
            states: slots.states,
        })
    }
}

/// Typed bytes on their way to the virtio console.
struct ConsoleInput {
    device: Arc<Locked<VirtioMmio<Console>>>,
    ahead: Mutex<VecDeque<u8>>,
}

impl ConsoleInput {
    /// Hands over what the console takes; returns how much stays behind.
    fn drain(&self, more: &[u8]) -> usize {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.extend(more);
        if !ahead.is_empty() {
            let taken = self
                .device
                .lock()
                .device_mut()
                .enqueue(ahead.make_contiguous());
            ahead.drain(..taken);
            self.device.poll();
        }
        ahead.len()
    }
}

impl Stateful for ConsoleInput {
    fn save(&self, to: &mut StateWriter) {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        save_input(&ahead, to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> std::result::Result<(), StateError> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = restore_input(from)?;
        Ok(())
    }
}

impl InputSink for ConsoleInput {
    fn push(&self, bytes: &[u8]) {
        self.drain(bytes);
    }

    fn full(&self) -> bool {
        self.drain(&[]) >= TYPE_AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::value;
    use crate::irqchip::plic::Interrupts;
    use clap::Parser;
    use std::io::Write;
    use vm_memory::{GuestAddress, GuestMemoryMmap};

    fn fill(args: &[&str]) -> Result<(Bus, usize, bool)> {
        let cli = Cli::try_parse_from(["x", "--kernel", "k"].iter().chain(args)).unwrap();
        let range = [(GuestAddress(map::RAM_BASE), 1 << 20)];
        let ram = Arc::new(GuestMemoryMmap::from_ranges(&range).unwrap());
        let interrupts = Interrupts::new(map::PLIC_SOURCES, Vec::new());
        let controller = Controller::Plic(Arc::new(interrupts));
        let wake = Arc::new(EventFd::new(libc::EFD_NONBLOCK).unwrap());
        let (mut bus, mut events) = (Bus::default(), EventLoop::new(&wake).unwrap());
        let clock = HostClock::start();
        let parts = Parts {
            cli: &cli,
            ram: &ram,
            controller: &controller,
            wake: &wake,
            clock,
        };
        let filled = Slots::fill(parts, None, &mut bus, &mut events)?;
        Ok((bus, filled.slots.len(), filled.input.is_some()))
    }

    fn device_id(bus: &Bus, slot: usize) -> u64 {
        let mut data = [0; 4];
        bus.read(map::virtio_slot(slot).0 + 8, &mut data);
        value(&data)
    }

    #[test]
    fn disks_come_first_and_entropy_is_always_there() {
        let image = vmm_sys_util::tempfile::TempFile::new().unwrap();
        image.as_file().write_all(&[0; 4096]).unwrap();
        let path = image.as_path().to_str().unwrap();
        let (bus, slots, input) = fill(&["--disk", path, "--console", "virtio"]).unwrap();
        assert_eq!((slots, input), (3, true));
        // Block, console, entropy (virtio 1.2, section 5).
        assert_eq!([0, 1, 2, 3].map(|slot| device_id(&bus, slot)), [2, 3, 4, 0]);
        assert_eq!(bus.names(), ["virtio-blk0", "virtio-console", "virtio-rng"]);
    }

    #[test]
    fn a_missing_disk_is_a_user_error_that_names_it() {
        let error = fill(&["--disk", "/nonexistent.img"])
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("/nonexistent.img"));
    }

    #[test]
    fn mac_addresses_are_local_unicast_and_differ() {
        let (a, b) = (mac_address("tap0"), mac_address("tap1"));
        assert_ne!(a, b);
        assert_eq!(a[0] & 0b11, 0b10);
    }
}
