//! Which virtio devices a guest has, and their slots.

use crate::bus::Bus;
use crate::devices::input::InputSink;
use crate::devices::locked::{HostClock, Locked, Served};
use crate::devices::state::States;
use crate::devices::virtio::console::ConsoleInput;
use crate::devices::virtio::mistakes::{FirstMistake, Mistakes};
use crate::devices::virtio::slot::{ShadowSource, Slot};
use crate::devices::virtio::tap::{SharedTap, mac_address};
use crate::devices::virtio::vhost::back_end::BackEnd;
use crate::devices::virtio::vhost::net::VhostNet;
use crate::devices::virtio::vhost::queues::ServedElsewhere;
use crate::devices::virtio::vhost::slot::Elsewhere;
use crate::devices::virtio::vhost::user::{Connection, Kind, VhostUser};
use crate::error::{Error, Result};
use crate::irqchip::controller::{InterruptController, Watch};
use crate::irqchip::wire;
use crate::map;
use crate::terminal::{self, Output};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trapless_devices::GuestRam;
use trapless_devices::virtio::block::{Block, RawDisk};
use trapless_devices::virtio::console::Console;
use trapless_devices::virtio::net::Net;
use trapless_devices::virtio::rng::{HostEntropy, Rng};
use trapless_devices::virtio::{VirtioDevice, VirtioMmio};
use vmm_sys_util::eventfd::EventFd;

/// One disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Raw image.
    pub path: PathBuf,
    /// The guest may not write.
    pub read_only: bool,
}

/// What outlives a guest that starts again.
#[derive(Clone, Default)]
pub struct Backends {
    /// What the network card is connected to, if there is one.
    pub tap: Option<SharedTap>,
    /// The host's kernel moves its frames.
    pub vhost_net: bool,
    /// Messages about drivers.
    pub mistakes: Arc<Mistakes>,
}

/// The virtio devices that the user wants. There is a source of entropy besides.
pub struct Wanted<'a> {
    /// Disks, of which the first is `vda`.
    pub disks: &'a [Disk],
    /// Sockets of back ends of further disks.
    pub vhost_user_blk: &'a [PathBuf],
    /// Sockets of back ends of further network cards.
    pub vhost_user_net: &'a [PathBuf],
    /// How long to wait for a back end that has ended to come again.
    pub reconnect: Duration,
    /// Network and messages.
    pub backends: &'a Backends,
    /// Whether there is a console.
    pub console: bool,
    /// What lets the guest's controller answer registers, if it is to.
    pub shadows: Option<&'a dyn ShadowSource>,
}

/// What devices are connected to.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Guest RAM.
    pub ram: &'a Arc<GuestRam>,
    /// What interrupts go to.
    pub controller: &'a Arc<dyn InterruptController>,
    /// Wakes the event loop.
    pub wake: &'a Arc<EventFd>,
    /// Time for devices.
    pub clock: HostClock,
}

/// The occupied slots, from slot 0.
pub struct Slots<'a> {
    host: Host<'a>,
    mistakes: Arc<Mistakes>,
    shadows: Option<&'a dyn ShadowSource>,
    bus: &'a mut Bus,
    /// The devices.
    pub slots: Vec<Arc<dyn Slot>>,
    /// The same devices, for the event loop.
    pub served: Vec<Arc<dyn Served>>,
    /// Back-ends for the event loop to watch.
    pub watches: Vec<Watch>,
    /// Where typed bytes go, if there is a console.
    pub input: Option<Arc<dyn InputSink>>,
    /// What is to be saved, by name.
    pub states: States,
}

impl<'a> Slots<'a> {
    /// Fills the slots: disks, network, console, entropy.
    ///
    /// # Errors
    /// [`Error::User`] for disks that cannot be used, [`Error::Failed`] for what the system
    /// refused.
    pub fn fill(wanted: Wanted<'a>, host: Host<'a>, bus: &'a mut Bus) -> Result<Self> {
        let mut slots = Self {
            host,
            mistakes: Arc::clone(&wanted.backends.mistakes),
            shadows: wanted.shadows,
            bus,
            slots: Vec::new(),
            served: Vec::new(),
            watches: Vec::new(),
            input: None,
            states: States::new(),
        };
        for (number, disk) in wanted.disks.iter().enumerate() {
            slots.add_disk(number, disk)?;
        }
        let back_end = |name: &str, number, kind, socket: &PathBuf| BackEnd {
            name: format!("vhost-user-{name}{number}"),
            kind,
            socket: socket.clone(),
            patience: wanted.reconnect,
        };
        for (number, socket) in wanted.vhost_user_blk.iter().enumerate() {
            slots.add_vhost_user(back_end("blk", number, Kind::Block, socket))?;
        }
        if let Some(tap) = &wanted.backends.tap {
            slots.add_net(tap.clone(), wanted.backends.vhost_net)?;
        }
        for (number, socket) in wanted.vhost_user_net.iter().enumerate() {
            let kind = Kind::Net(mac_address(&socket.to_string_lossy()));
            slots.add_vhost_user(back_end("net", number, kind, socket))?;
        }
        if wanted.console {
            slots.add_console()?;
        }
        let entropy =
            HostEntropy::open().map_err(|e| Error::failed("cannot open /dev/urandom", e))?;
        slots.add("virtio-rng", Rng::new(Box::new(entropy)))?;
        Ok(slots)
    }

    fn add<D: VirtioDevice + 'static>(
        &mut self,
        name: &str,
        device: D,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        let (base, irq) = map::virtio_slot(self.slots.len());
        let controller = self.host.controller;
        let kind = virtio_kind(&**controller, self.shadows.is_some());
        let line = controller.connect(irq, kind, None)?.into_line();
        let ram = Arc::clone(self.host.ram);
        let mistake = FirstMistake::new(&self.mistakes);
        let mut device = VirtioMmio::new(device, ram, line, Box::new(mistake));
        // The driver's acknowledgement in a shadow does not lower a line.
        if let Some(shadows) = self.shadows.filter(|_| kind == wire::Kind::Edge) {
            device.share(shadows.shadow(base, false)?);
        }
        let device = Arc::new(Locked::new(device, self.host.wake, self.host.clock));
        self.bus.add(name, base, map::VIRTIO_LEN, device.clone());
        self.served.push(device.clone());
        self.slots.push(device.clone());
        self.states.push((name.into(), device.clone()));
        Ok(device)
    }

    fn add_disk(&mut self, number: usize, disk: &Disk) -> Result<()> {
        let raw =
            RawDisk::open(&disk.path, !disk.read_only).map_err(|e| Error::user(e.to_string()))?;
        let block = Block::new(Box::new(raw), &format!("disk{number}"));
        self.add(&format!("virtio-blk{number}"), block).map(|_| ())
    }

    fn add_vhost_user(&mut self, back_end: BackEnd) -> Result<()> {
        let connection = Connection::open(back_end.kind, &back_end.socket, BackEnd::FIRST)?;
        let socket = connection.as_raw_fd();
        let device = VhostUser::new(back_end.kind, connection, Arc::clone(self.host.ram))?;
        let device = self.add_elsewhere(&back_end.name.clone(), device)?;
        std::thread::spawn(move || back_end.watch(socket, &device));
        Ok(())
    }

    /// Adds a device whose queues somebody else serves, who interrupts the guest without this
    /// process where its controller is KVM's.
    fn add_elsewhere<D: ServedElsewhere>(
        &mut self,
        name: &str,
        device: D,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        let events = device.events().clone();
        let (base, irq) = map::virtio_slot(self.slots.len());
        let controller = self.host.controller;
        let kind = virtio_kind(&**controller, self.shadows.is_some());
        let line = controller.connect(irq, kind, None)?.into_line();
        let mistake = FirstMistake::new(&self.mistakes);
        let ram = Arc::clone(self.host.ram);
        let mut device = VirtioMmio::new(device, ram, line, Box::new(mistake));
        let mut direct = false;
        if let Some(shadows) = self.shadows.filter(|_| kind == wire::Kind::Edge) {
            direct = controller
                .interrupt_by(irq, &events.call)
                .map_err(|e| Error::failed("KVM refuses an irqfd", e))?;
            device.share(shadows.shadow(base, direct)?);
            if direct {
                device.interrupted_elsewhere();
            }
        }
        let device = Arc::new(Locked::new(device, self.host.wake, self.host.clock));
        self.bus.add(name, base, map::VIRTIO_LEN, device.clone());
        self.served.push(device.clone());
        self.slots
            .push(Arc::new(Elsewhere::new(device.clone(), events.clone())));
        if !direct {
            let (fd, device) = (events.call.as_raw_fd(), device.clone());
            let interrupt = move || {
                let _ = events.call.read();
                device.with(VirtioMmio::used_elsewhere);
            };
            self.watches.push((fd, Box::new(interrupt)));
        }
        Ok(device)
    }

    fn add_net(&mut self, tap: SharedTap, vhost: bool) -> Result<()> {
        if vhost {
            let device = VhostNet::new(tap, Arc::clone(self.host.ram))?;
            return self.add_elsewhere("vhost-net", device).map(|_| ());
        }
        let (fd, mac) = (tap.as_raw_fd(), tap.mac());
        let net = self.add("virtio-net", Net::new(Box::new(tap), mac))?;
        self.watches.push((fd, Box::new(move || net.poll())));
        Ok(())
    }

    fn add_console(&mut self) -> Result<()> {
        let mut model = Console::new(Box::new(Output));
        if let Some((columns, rows)) = terminal::window_size() {
            model.set_size(columns, rows);
        }
        let device = self.add("virtio-console", model)?;
        let typed = Arc::new(ConsoleInput::new(device));
        self.states.push(("typed".into(), typed.clone()));
        self.input = Some(typed);
        Ok(())
    }
}

/// How virtio devices interrupt: by edges if the controller has them and registers are shadowed.
pub fn virtio_kind(controller: &dyn InterruptController, shadowed: bool) -> wire::Kind {
    let features = controller.features();
    if shadowed && features.edges {
        wire::Kind::Edge
    } else {
        features.virtio_kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::value;
    use crate::irqchip::plic;
    use std::io::Write;
    use vm_memory::{GuestAddress, GuestMemoryMmap};

    fn fill(disks: &[Disk], console: bool) -> Result<(Bus, usize, bool)> {
        let range = [(GuestAddress(map::RAM_BASE), 1 << 20)];
        let ram = Arc::new(GuestMemoryMmap::from_ranges(&range).unwrap());
        let host = Host {
            ram: &ram,
            controller: &plic::unconnected(),
            wake: &Arc::new(EventFd::new(libc::EFD_NONBLOCK).unwrap()),
            clock: HostClock::start(),
        };
        let mut bus = Bus::default();
        let wanted = Wanted {
            disks,
            vhost_user_blk: &[],
            vhost_user_net: &[],
            reconnect: Duration::ZERO,
            backends: &Backends::default(),
            console,
            shadows: None,
        };
        let slots = Slots::fill(wanted, host, &mut bus)?;
        let (number, input) = (slots.slots.len(), slots.input.is_some());
        Ok((bus, number, input))
    }

    fn disk(path: &std::path::Path) -> Disk {
        Disk {
            path: path.into(),
            read_only: false,
        }
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
        let (bus, slots, input) = fill(&[disk(image.as_path())], true).unwrap();
        assert_eq!((slots, input), (3, true));
        // Block, console, entropy (virtio 1.2, section 5).
        assert_eq!([0, 1, 2, 3].map(|slot| device_id(&bus, slot)), [2, 3, 4, 0]);
        assert_eq!(bus.names(), ["virtio-blk0", "virtio-console", "virtio-rng"]);
    }

    #[test]
    fn a_missing_disk_is_a_user_error_that_names_it() {
        let missing = disk("/nonexistent.img".as_ref());
        let error = fill(&[missing], false).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("/nonexistent.img"));
    }
}
