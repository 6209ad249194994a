//! What `trapless boot` plugs into its machine.

use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use trapless_devices::DeviceEvents;
use trapless_devices::virtio::block::{Block, Overlay, RawDisk};
use trapless_devices::virtio::net::{Net, Peer};
use trapless_devices::virtio::rng::{Rng, SeededEntropy};
use trapless_machine::{Error, Peripherals};

use crate::args::BootArgs;

/// Most memory that what a guest writes to one disk may take, in bytes.
const OVERLAY: u64 = 4 << 30;

/// Most complaints about drivers, however often the guest reboots.
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
            " (and no more of this)"
        } else {
            ""
        };
        note!("\r\ntrapless: driver of {device}: {what}{end}\r");
    }
}

/// What is plugged into the machine.
#[derive(Clone)]
pub struct Devices {
    disks: Vec<PathBuf>,
    virtio_console: bool,
    seed: u64,
    complaints: Arc<AtomicU32>,
}

impl Devices {
    /// Those that the options name.
    pub fn new(args: &BootArgs) -> Self {
        Self {
            disks: args.disk.clone(),
            virtio_console: args.console == "virtio",
            seed: args.harts_options.seed.unwrap_or(0),
            complaints: Arc::new(COMPLAINTS.into()),
        }
    }

    /// Plugs them in beside a UART that writes to `console`. The virtio console, if the machine has
    /// one, writes to `second`; without it nobody reads what is said here.
    pub fn plug(
        &self,
        console: Box<dyn Write + Send>,
        second: Option<Box<dyn Write + Send>>,
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
        for (index, path) in self.disks.iter().enumerate() {
            let base = open_disk(path)?;
            let overlay = Overlay::new(Box::new(base), Some(OVERLAY));
            let disk = Block::new(Box::new(overlay), &format!("trapless{index}"));
            peripherals.plug(disk, complain())?;
        }
        let peer = Peer::new([0x52, 0x54, 0, 0, 0, 2], [10, 0, 2, 2].into());
        let net = Net::new(Box::new(peer), [0x52, 0x54, 0, 0, 0, 1]);
        peripherals.plug(net, complain())?;
        if self.virtio_console {
            let out = second.unwrap_or_else(|| Box::new(std::io::sink()));
            peripherals.plug_console(out, complain())?;
        }
        let rng = Rng::new(Box::new(SeededEntropy::new(self.seed)));
        peripherals.plug(rng, complain())?;
        Ok(peripherals)
    }
}

/// Opens a disk image. A pipe would wait for somebody to write to it.
fn open_disk(path: &Path) -> Result<RawDisk, Error> {
    let invalid = |text: String| Error::Invalid(text);
    if let Ok(kind) = std::fs::metadata(path).map(|m| m.file_type())
        && (kind.is_fifo() || kind.is_socket() || kind.is_char_device())
    {
        return Err(invalid(format!(
            "cannot use {} as a disk image: it is neither a file nor a block device",
            path.display()
        )));
    }
    RawDisk::open(path, false).map_err(|e| invalid(e.to_string()))
}
