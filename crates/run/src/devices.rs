//! Devices of a machine of `boot`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use trapless_backends::Report;
use trapless_backends::disk::{self, Access, DiskError, Image};
use trapless_backends::net::{self, Network};
use trapless_backends::share::Share;
use trapless_devices::DeviceEvents;
use trapless_devices::virtio::block::{Block, Disk, Overlay};
use trapless_devices::virtio::fs::Fs;
use trapless_devices::virtio::net::{Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_experiments::Host;
use trapless_machine::{CardEnd, Error, Peripherals, PlatformPort, SharedCard, Transport};

use crate::outside::Outside;
use crate::outside::disk::{KeptDisk, describe_disk};
use crate::outside::record::SHARE;
use crate::spec::{BootSpec, Card, ConsoleDevice, PciDevice};

/// Maximum memory for what a guest writes to one disk, in bytes.
const OVERLAY: u64 = 4 << 30;

/// Ethernet address of the machine.
const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

/// Ethernet address of a function of its network card; function 0 has that of the machine.
fn address(function: usize) -> [u8; 6] {
    match function {
        0 => MAC,
        virtual_function => [0x52, 0x54, 0, 0, 1, virtual_function as u8],
    }
}

/// Ethernet address of its platform port.
const PORT_MAC: [u8; 6] = [0x52, 0x54, 0, 0, 1, 0];

/// Maximum number of reported driver errors, however often the guest reboots.
const COMPLAINTS: u32 = 20;

/// Reports driver errors until the allowance is used up.
struct Complain {
    left: Arc<AtomicU32>,
}

impl DeviceEvents for Complain {
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        let less = |left: u32| left.checked_sub(1);
        let Ok(left) = self.left.fetch_update(Relaxed, Relaxed, less) else {
            return;
        };
        let end = if left == 1 {
            " (further errors are not shown)"
        } else {
            ""
        };
        note!("\r\ntrapless: driver of {device}: {what}{end}\r");
    }
}

/// How a disk is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drive {
    /// As a virtio device.
    Virtio(Transport),
    /// By a controller of NVM Express.
    Nvme,
}

/// The machine's devices.
#[derive(Clone)]
pub struct Devices {
    disks: Vec<(Drive, Image)>,
    shares: Vec<(Transport, Share)>,
    network: Network,
    /// Where the network card is.
    net: Transport,
    /// What it has besides.
    card: Card,
    /// Where the virtio console is, if there is one.
    console: Option<Transport>,
    /// Where the source of entropy is.
    rng: Transport,
    /// Number of test functions.
    endpoint_tests: usize,
    seed: u64,
    complaints: Arc<AtomicU32>,
    /// Writable disks of a replayed run, by index.
    written: Arc<Mutex<BTreeMap<usize, KeptDisk>>>,
}

/// Devices that `boot` plugs into virtio-mmio slots.
fn in_slots<T: Clone>(devices: &[T]) -> impl Iterator<Item = (Transport, T)> {
    devices
        .iter()
        .map(|device| (Transport::Mmio, device.clone()))
}

/// What a description says of a transport.
fn on(transport: Transport) -> &'static str {
    match transport {
        Transport::Mmio => "",
        Transport::Pci => ",pci",
    }
}

/// The network that a machine has if nothing is said of one: who answers pings.
fn peer() -> CardEnd {
    CardEnd::Backend(Box::new(Peer::new([0x52, 0x54, 0, 0, 0, 2], net::GATEWAY)))
}

/// Adds a network card with several ends.
fn plug_card(
    peripherals: &mut Peripherals,
    end: CardEnd,
    Card { vfs, port }: Card,
    complain: &dyn Fn() -> Box<Complain>,
) -> Result<(), Error> {
    let card = SharedCard {
        end,
        addresses: (0..=vfs).map(address).collect(),
        virtual_events: (0..vfs).map(|_| complain() as _).collect(),
        platform_port: port.then(|| PlatformPort {
            address: PORT_MAC,
            events: complain(),
        }),
    };
    peripherals.plug_shared_card(card, complain())
}

/// The devices of a workload's machine, with a UART that writes to `console`: the usual ones, and
/// what `host` asks for. A network card with several ends takes the place of the usual card.
///
/// # Errors
/// If that many virtual functions do not fit.
pub fn of_workload(console: Box<dyn Write + Send>, host: &Host) -> Result<Peripherals, Error> {
    let mut peripherals = Peripherals::new(console);
    let left = Arc::new(AtomicU32::new(COMPLAINTS));
    let complain = || {
        let left = Arc::clone(&left);
        Box::new(Complain { left })
    };
    let card = Card {
        vfs: host.virtual_functions,
        port: host.platform_port,
    };
    if card.is_shared() {
        plug_card(&mut peripherals, peer(), card, &complain)?;
    }
    if host.nvme_mib != 0 {
        let disk = Overlay::blank(u64::from(host.nvme_mib) << 20);
        peripherals.plug_nvme(Box::new(disk), 0, complain())?;
    }
    Ok(peripherals)
}

impl Devices {
    /// The devices of `spec`.
    pub fn new(spec: &BootSpec) -> Self {
        let disk = |(transport, image)| (Drive::Virtio(transport), image);
        let mut disks: Vec<_> = in_slots(&spec.disks).map(disk).collect();
        let mut shares: Vec<_> = in_slots(&spec.share).collect();
        let mut endpoint_tests = 0;
        for device in &spec.pci {
            match device {
                PciDevice::Disk(image) => disks.push(disk((Transport::Pci, image.clone()))),
                PciDevice::Nvme(image) => disks.push((Drive::Nvme, image.clone())),
                PciDevice::Share(share) => shares.push((Transport::Pci, share.clone())),
                PciDevice::EndpointTest => endpoint_tests += 1,
                PciDevice::Net(_) | PciDevice::Console | PciDevice::Rng => {}
            }
        }
        let place = |device| match spec.pci.contains(&device) {
            true => Transport::Pci,
            false => Transport::Mmio,
        };
        let card = spec.pci.iter().find_map(|device| match device {
            PciDevice::Net(card) => Some(*card),
            _ => None,
        });
        let console = place(PciDevice::Console);
        let virtio = spec.console == ConsoleDevice::Virtio || console == Transport::Pci;
        Self {
            disks,
            shares,
            network: spec.net.clone(),
            net: card.map_or(Transport::Mmio, |_| Transport::Pci),
            card: card.unwrap_or_default(),
            console: virtio.then_some(console),
            rng: place(PciDevice::Rng),
            endpoint_tests,
            seed: spec.options.seed.unwrap_or(0),
            complaints: Arc::new(COMPLAINTS.into()),
            written: Arc::default(),
        }
    }

    /// The option that keeps a second machine from having the same devices, which both would
    /// change.
    pub fn alone(&self) -> Option<&'static str> {
        let written = self
            .disks
            .iter()
            .any(|(_, disk)| disk.access == Access::Write);
        let shared = (!self.shares.is_empty()).then_some("--share");
        written.then_some("a disk with rw").or(shared)
    }

    /// Description of the devices in a record.
    ///
    /// # Errors
    /// If a disk cannot be read.
    pub fn describe(&self) -> Result<Vec<String>, Error> {
        let disk = |(drive, image): &(Drive, Image)| {
            let described = describe_disk(image)?;
            let on = match drive {
                Drive::Virtio(transport) => on(*transport),
                Drive::Nvme => ",nvme",
            };
            Ok(format!("{described}{on}"))
        };
        let disks = self.disks.iter().map(disk);
        let disks = disks.collect::<Result<Vec<_>, Error>>()?.into_iter();
        let shares = self.shares.iter().map(|(transport, share)| {
            let rights = if share.read_only { ",ro" } else { "" };
            format!("{SHARE}{}{rights}{}", share.tag, on(*transport))
        });
        let mut ends = match self.card.vfs {
            0 => String::new(),
            vfs => format!(",vfs={vfs}"),
        };
        if self.card.port {
            ends.push_str(",port");
        }
        let net = match (&self.network, self.net) {
            (Network::None, _) => Some("net=none".to_string()),
            (Network::User(_), net) => Some(format!("net=user{}{ends}", on(net))),
            (Network::Peer, Transport::Mmio) => None,
            (Network::Peer, net) => Some(format!("net=peer{}{ends}", on(net))),
        };
        let console = self.console;
        let console = console.map(|transport| format!("console=virtio{}", on(transport)));
        let rng = (self.rng == Transport::Pci).then(|| format!("rng{}", on(self.rng)));
        let tests = (0..self.endpoint_tests).map(|_| "endpoint-test".to_string());
        let others = net.into_iter().chain(console).chain(rng).chain(tests);
        Ok(disks.chain(shares).chain(others).collect())
    }

    /// A disk with `rw` of a run that is replayed: its file has these writes already, so they stay
    /// in memory.
    fn written_again(&self, index: usize, report: &Report) -> Result<Box<dyn Disk>, DiskError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(disk) = written.get(&index) {
            return Ok(Box::new(disk.clone()));
        }
        let image = Image {
            access: Access::Forget,
            ..self.disks[index].1.clone()
        };
        // The file had room for it.
        let disk = KeptDisk::new(disk::open(&image, u64::MAX, report)?);
        written.insert(index, disk.clone());
        Ok(Box::new(disk))
    }

    /// Adds them to a machine, with a UART that writes to `console`. The virtio console, if the
    /// machine has one, writes to `second`; without `second` its output and what the guest sends to
    /// the network are dropped.
    pub fn plug(
        &self,
        console: Box<dyn Write + Send>,
        second: Option<Box<dyn Write + Send>>,
        outside: &mut Outside,
    ) -> Result<Peripherals, Error> {
        let left = match second {
            Some(_) => Arc::clone(&self.complaints),
            None => Arc::default(),
        };
        let complain = || {
            let left = Arc::clone(&left);
            Box::new(Complain { left })
        };
        let mut peripherals = Peripherals::new(console);
        let report: Report = Arc::new(|text: &str| note!("\r\ntrapless: {text}\r"));
        let mut controllers = 0..;
        for (index, (drive, image)) in self.disks.iter().enumerate() {
            let disk = match outside.replays() && image.access == Access::Write {
                true => self.written_again(index, &report),
                false => disk::open(image, OVERLAY, &report),
            };
            let disk = disk.map_err(|e| Error::Invalid(e.to_string()))?;
            match *drive {
                Drive::Virtio(transport) => {
                    let disk = Block::new(disk, &format!("trapless{index}"));
                    peripherals.plug(transport, disk, complain())?;
                }
                Drive::Nvme => {
                    let number = controllers.next().unwrap_or_default();
                    peripherals.plug_nvme(disk, number, complain())?;
                }
            }
        }
        let cable = second.is_some();
        self.plug_network(&mut peripherals, &complain, cable, outside)?;
        if let Some(transport) = self.console {
            let out = second.unwrap_or_else(|| Box::new(std::io::sink()));
            peripherals.plug_console(transport, out, complain())?;
        }
        for (index, (transport, share)) in self.shares.iter().enumerate() {
            let tag = share.tag.clone();
            if let Some(server) = outside.replayed_share(index) {
                peripherals.plug(*transport, Fs::new(server, &tag), complain())?;
                continue;
            }
            let folder = share.open().map_err(Error::Invalid)?;
            let recorded = outside.recorded_share(index);
            peripherals.plug_dated(
                *transport,
                move |clock| Fs::new(recorded(folder.with_clock(clock)), &tag),
                complain(),
            )?;
        }
        let rng = Rng::new(Box::new(SeededEntropy::new(self.seed)));
        peripherals.plug(self.rng, rng, complain())?;
        for _ in 0..self.endpoint_tests {
            peripherals.plug_endpoint_test(complain())?;
        }
        Ok(peripherals)
    }

    /// Adds the network card. What the guest sends to a network outside is dropped unless there is
    /// a `cable`.
    fn plug_network(
        &self,
        peripherals: &mut Peripherals,
        complain: &dyn Fn() -> Box<Complain>,
        cable: bool,
        outside: &mut Outside,
    ) -> Result<(), Error> {
        let end = match &self.network {
            Network::Peer => peer(),
            Network::User(forwards) if cable => {
                CardEnd::Cable(outside.connect(forwards).map_err(Error::Invalid)?)
            }
            Network::User(_) => CardEnd::Cable(None),
            Network::None if self.net == Transport::Pci => {
                return Err(Error::Invalid(
                    "--pci virtio-net is the network card, and --net none leaves it out; give one \
                     of them"
                        .into(),
                ));
            }
            Network::None => return Ok(()),
        };
        match end {
            end if self.card.is_shared() => plug_card(peripherals, end, self.card, complain),
            CardEnd::Backend(end) => peripherals.plug(self.net, Net::new(end, MAC), complain()),
            CardEnd::Cable(out) => peripherals.plug_cable(self.net, out, MAC, complain()),
        }
    }
}
