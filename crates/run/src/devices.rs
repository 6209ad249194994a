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
use trapless_devices::virtio::block::{Block, Disk};
use trapless_devices::virtio::fs::Fs;
use trapless_devices::virtio::net::{Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_machine::{Error, Peripherals};

use crate::outside::Outside;
use crate::outside::disk::{KeptDisk, describe_disk};
use crate::outside::record::SHARE;
use crate::spec::{BootSpec, ConsoleDevice};

/// Maximum memory for what a guest writes to one disk, in bytes.
const OVERLAY: u64 = 4 << 30;

/// Ethernet address of the machine.
const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

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

/// The machine's devices.
#[derive(Clone)]
pub struct Devices {
    disks: Vec<Image>,
    shares: Vec<Share>,
    network: Network,
    virtio_console: bool,
    seed: u64,
    complaints: Arc<AtomicU32>,
    /// Writable disks of a replayed run, by index.
    written: Arc<Mutex<BTreeMap<usize, KeptDisk>>>,
}

impl Devices {
    /// The devices of `spec`.
    pub fn new(spec: &BootSpec) -> Self {
        Self {
            disks: spec.disks.clone(),
            shares: spec.share.clone(),
            network: spec.net.clone(),
            virtio_console: spec.console == ConsoleDevice::Virtio,
            seed: spec.options.seed.unwrap_or(0),
            complaints: Arc::new(COMPLAINTS.into()),
            written: Arc::default(),
        }
    }

    /// The option that keeps a second machine from having the same devices, which both would
    /// change.
    pub fn alone(&self) -> Option<&'static str> {
        let written = self.disks.iter().any(|disk| disk.access == Access::Write);
        let shared = (!self.shares.is_empty()).then_some("--share");
        written.then_some("--disk FILE,rw").or(shared)
    }

    /// Description of the devices in a record.
    ///
    /// # Errors
    /// If a disk cannot be read.
    pub fn describe(&self) -> Result<Vec<String>, Error> {
        let disks = self.disks.iter().map(describe_disk);
        let disks = disks.collect::<Result<Vec<_>, _>>()?.into_iter();
        let shares = self.shares.iter().map(|share| {
            let rights = if share.read_only { ",ro" } else { "" };
            format!("{SHARE}{}{rights}", share.tag)
        });
        let net = match self.network {
            Network::Peer => None,
            Network::None => Some("net=none".to_string()),
            Network::User(_) => Some("net=user".to_string()),
        };
        let console = self.virtio_console.then(|| "console=virtio".to_string());
        Ok(disks.chain(shares).chain(net).chain(console).collect())
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
            ..self.disks[index].clone()
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
        for (index, image) in self.disks.iter().enumerate() {
            let disk = match outside.replays() && image.access == Access::Write {
                true => self.written_again(index, &report),
                false => disk::open(image, OVERLAY, &report),
            };
            let disk = disk.map_err(|e| Error::Invalid(e.to_string()))?;
            let disk = Block::new(disk, &format!("trapless{index}"));
            peripherals.plug(disk, complain())?;
        }
        match &self.network {
            Network::Peer => {
                let peer = Peer::new([0x52, 0x54, 0, 0, 0, 2], net::GATEWAY);
                peripherals.plug(Net::new(Box::new(peer), MAC), complain())?;
            }
            Network::User(forwards) => {
                let out = match second {
                    Some(_) => outside.connect(forwards).map_err(Error::Invalid)?,
                    None => None,
                };
                peripherals.plug_cable(out, MAC, complain())?;
            }
            Network::None => {}
        }
        if self.virtio_console {
            let out = second.unwrap_or_else(|| Box::new(std::io::sink()));
            peripherals.plug_console(out, complain())?;
        }
        for (index, share) in self.shares.iter().enumerate() {
            let tag = share.tag.clone();
            if let Some(server) = outside.replayed_share(index) {
                peripherals.plug(Fs::new(server, &tag), complain())?;
                continue;
            }
            let folder = share.open().map_err(Error::Invalid)?;
            let recorded = outside.recorded_share(index);
            peripherals.plug_dated(
                move |clock| Fs::new(recorded(folder.with_clock(clock)), &tag),
                complain(),
            )?;
        }
        let rng = Rng::new(Box::new(SeededEntropy::new(self.seed)));
        peripherals.plug(rng, complain())?;
        Ok(peripherals)
    }
}
