//! The virtio devices of a guest, and their slots.

use crate::devices::input::InputSink;
use crate::devices::locked::{HostClock, Locked, Served};
use crate::devices::registry::{Registered, Registry};
use crate::devices::virtio::console::ConsoleInput;
use crate::devices::virtio::mistakes::{FirstMistake, Mistakes};
use crate::devices::virtio::slot::ShadowSource;
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

/// State that survives a restart of the guest.
#[derive(Clone, Default)]
pub struct Backends {
    /// The network card's tap interface, if there is one.
    pub tap: Option<SharedTap>,
    /// Whether the host's kernel moves its frames (vhost-net).
    pub vhost_net: bool,
    /// Messages about drivers.
    pub mistakes: Arc<Mistakes>,
}

/// The virtio devices of the options. There is a source of entropy besides.
pub struct Wanted<'a> {
    /// Disks, of which the first is `vda`.
    pub disks: &'a [Disk],
    /// Sockets of back ends of further disks.
    pub vhost_user_blk: &'a [PathBuf],
    /// Sockets of back ends of further network cards.
    pub vhost_user_net: &'a [PathBuf],
    /// How long to wait for a new back end after one has ended.
    pub reconnect: Duration,
    /// Network and messages.
    pub backends: &'a Backends,
    /// Whether there is a console.
    pub console: bool,
    /// Shadows by which the guest's controller handles registers, if that is enabled.
    pub shadows: Option<&'a dyn ShadowSource>,
}

/// Host resources for devices.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Guest RAM.
    pub ram: &'a Arc<GuestRam>,
    /// The interrupt controller.
    pub controller: &'a Arc<dyn InterruptController>,
    /// Wakes the event loop.
    pub wake: &'a Arc<EventFd>,
    /// Time for devices.
    pub clock: HostClock,
}

/// Fills the slots from slot 0: disks, network, console, entropy. Returns the receiver of typed
/// bytes, if there is a console.
///
/// # Errors
/// [`Error::User`] for disks that cannot be used, [`Error::Failed`] for failed system calls.
pub fn fill(
    wanted: Wanted<'_>,
    host: Host<'_>,
    registry: &mut Registry,
) -> Result<Option<Arc<dyn InputSink>>> {
    let mut slots = Slots {
        host,
        mistakes: Arc::clone(&wanted.backends.mistakes),
        shadows: wanted.shadows,
        registry,
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
    let console = match wanted.console {
        true => Some(slots.add_console()?),
        false => None,
    };
    let entropy = HostEntropy::open().map_err(|e| Error::failed("cannot open /dev/urandom", e))?;
    slots.add("virtio-rng", Rng::new(Box::new(entropy)))?;
    Ok(console)
}

/// State while slots are filled.
struct Slots<'a> {
    host: Host<'a>,
    mistakes: Arc<Mistakes>,
    shadows: Option<&'a dyn ShadowSource>,
    registry: &'a mut Registry,
}

/// A device for the next slot, connected to its interrupt.
struct Placed<D> {
    base: u64,
    irq: u32,
    device: VirtioMmio<D>,
    /// The shadow of its registers for the guest's controller, if any. The driver's acknowledgement
    /// in a shadow does not lower a line, so a shadow needs edge-triggered interrupts.
    shadowed: bool,
}

impl Slots<'_> {
    fn place<D: VirtioDevice>(&self, device: D) -> Result<Placed<D>> {
        let (base, irq) = map::virtio_slot(self.registry.slots.len());
        let controller = self.host.controller;
        let kind = virtio_kind(&**controller, self.shadows.is_some());
        let line = controller.connect(irq, kind, None)?.into_line();
        let mistake = FirstMistake::new(&self.mistakes);
        let ram = Arc::clone(self.host.ram);
        Ok(Placed {
            base,
            irq,
            device: VirtioMmio::new(device, ram, line, Box::new(mistake)),
            shadowed: kind == wire::Kind::Edge,
        })
    }

    fn lock<D: VirtioDevice>(&self, device: VirtioMmio<D>) -> Arc<Locked<VirtioMmio<D>>> {
        Arc::new(Locked::new(device, self.host.wake, self.host.clock))
    }

    fn add<D: VirtioDevice + 'static>(
        &mut self,
        name: &str,
        device: D,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        self.add_watched(name, device, |_| None)
    }

    /// Adds a device with a descriptor that the event loop watches.
    fn add_watched<D: VirtioDevice + 'static>(
        &mut self,
        name: &str,
        device: D,
        watch: impl FnOnce(&Arc<Locked<VirtioMmio<D>>>) -> Option<Watch>,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        let mut placed = self.place(device)?;
        if let Some(shadows) = self.shadows.filter(|_| placed.shadowed) {
            placed.device.share(shadows.shadow(placed.base, false)?);
        }
        let device = self.lock(placed.device);
        let mut registered = Registered::new(name)
            .at(placed.base, map::VIRTIO_LEN, device.clone())
            .in_slot(device.clone())
            .saved(device.clone())
            .served(device.clone());
        if let Some(watch) = watch(&device) {
            registered = registered.watched(watch);
        }
        self.registry.add(registered);
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

    /// Adds a device whose queues are served outside this process, with interrupts by KVM if it has
    /// the controller. Part of its state is elsewhere, so it is not saved.
    fn add_elsewhere<D: ServedElsewhere>(
        &mut self,
        name: &str,
        device: D,
    ) -> Result<Arc<Locked<VirtioMmio<D>>>> {
        let events = device.events().clone();
        let mut placed = self.place(device)?;
        let mut direct = false;
        if let Some(shadows) = self.shadows.filter(|_| placed.shadowed) {
            direct = self
                .host
                .controller
                .interrupt_by(placed.irq, &events.call)
                .map_err(|e| Error::failed("KVM refuses an irqfd", e))?;
            placed.device.share(shadows.shadow(placed.base, direct)?);
            if direct {
                placed.device.interrupted_elsewhere();
            }
        }
        let device = self.lock(placed.device);
        let slot = Arc::new(Elsewhere::new(device.clone(), events.clone()));
        let mut registered = Registered::new(name)
            .at(placed.base, map::VIRTIO_LEN, device.clone())
            .in_slot(slot)
            .served(device.clone());
        if !direct {
            let (fd, device) = (events.call.as_raw_fd(), device.clone());
            let interrupt = move || {
                let _ = events.call.read();
                device.with(VirtioMmio::used_elsewhere);
            };
            registered = registered.watched((fd, Box::new(interrupt)));
        }
        self.registry.add(registered);
        Ok(device)
    }

    fn add_net(&mut self, tap: SharedTap, vhost: bool) -> Result<()> {
        if vhost {
            let device = VhostNet::new(tap, Arc::clone(self.host.ram))?;
            return self.add_elsewhere("vhost-net", device).map(|_| ());
        }
        let (fd, mac) = (tap.as_raw_fd(), tap.mac());
        let net = Net::new(Box::new(tap), mac);
        self.add_watched("virtio-net", net, |net| {
            let net = net.clone();
            Some((fd, Box::new(move || net.poll())))
        })
        .map(|_| ())
    }

    fn add_console(&mut self) -> Result<Arc<dyn InputSink>> {
        let mut model = Console::new(Box::new(Output));
        if let Some((columns, rows)) = terminal::window_size() {
            model.set_size(columns, rows);
        }
        let device = self.add("virtio-console", model)?;
        let typed = Arc::new(ConsoleInput::new(device));
        self.registry
            .add(Registered::new("typed").saved(typed.clone()));
        Ok(typed)
    }
}

/// Kind of the interrupts of virtio devices: edges if the controller has them and registers are
/// shadowed.
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
    use crate::bus::{Bus, value};
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
        let mut registry = Registry::default();
        let wanted = Wanted {
            disks,
            vhost_user_blk: &[],
            vhost_user_net: &[],
            reconnect: Duration::ZERO,
            backends: &Backends::default(),
            console,
            shadows: None,
        };
        let input = super::fill(wanted, host, &mut registry)?;
        Ok((registry.bus, registry.slots.len(), input.is_some()))
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
