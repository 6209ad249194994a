//! What `trapless boot` plugs into its machine.

use std::io::Write;
use std::path::PathBuf;

use trapless_devices::DeviceEvents;
use trapless_devices::virtio::block::{Block, Overlay, RawDisk};
use trapless_devices::virtio::net::{Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_machine::{Error, Peripherals};

use crate::args::BootArgs;

/// Most memory that what a guest writes to one disk may take, in bytes.
const OVERLAY: u64 = 4 << 30;

/// Says what a driver did wrong, if anybody listens.
struct Complain(bool);

impl DeviceEvents for Complain {
    fn guest_error(&mut self, device: &'static str, what: &'static str) {
        if self.0 {
            eprintln!("\r\ntrapless: driver of {device}: {what}\r");
        }
    }
}

/// What is plugged into the machine.
#[derive(Clone)]
pub struct Devices {
    disks: Vec<PathBuf>,
    virtio_console: bool,
    seed: u64,
}

impl Devices {
    /// Those that the options name.
    pub fn new(args: &BootArgs) -> Self {
        Self {
            disks: args.disk.clone(),
            virtio_console: args.console == "virtio",
            seed: args.harts_options.seed.unwrap_or(0),
        }
    }

    /// Plugs them in beside a UART that writes to `console`. `heard`: somebody reads what they say.
    pub fn plug(&self, console: Box<dyn Write + Send>, heard: bool) -> Result<Peripherals, Error> {
        let complain = || Box::new(Complain(heard));
        let mut peripherals = Peripherals::new(console);
        for (index, path) in self.disks.iter().enumerate() {
            let base = RawDisk::open(path, false).map_err(|e| Error::Invalid(e.to_string()))?;
            let overlay = Overlay::new(Box::new(base), Some(OVERLAY));
            let disk = Block::new(Box::new(overlay), &format!("trapless{index}"));
            peripherals.plug(disk, complain())?;
        }
        let peer = Peer::new([0x52, 0x54, 0, 0, 0, 2], [10, 0, 2, 2].into());
        let net = Net::new(Box::new(peer), [0x52, 0x54, 0, 0, 0, 1]);
        peripherals.plug(net, complain())?;
        if self.virtio_console {
            let out: Box<dyn Write + Send> = if heard {
                Box::new(std::io::stdout())
            } else {
                Box::new(std::io::sink())
            };
            peripherals.plug_console(out, complain())?;
        }
        let rng = Rng::new(Box::new(SeededEntropy::new(self.seed)));
        peripherals.plug(rng, complain())?;
        Ok(peripherals)
    }
}
