//! A machine of `trapless boot`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use trapless_backends::disk::Image;
use trapless_backends::net::Network;
use trapless_backends::share::Share;
use trapless_experiments::Value;
use trapless_machine::{MachineConfig, Machines};

use super::{MachineOptions, PciDevice, text};
use crate::copy::Copied;
use crate::machine;
use crate::rtc::{self, Rtc};

/// A machine that boots a kernel or firmware, with its devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BootSpec {
    /// Machine preset.
    pub machine: String,
    /// The kernel; by default Debian's, or none with firmware of the user's.
    pub kernel: Option<Kernel>,
    /// Initial RAM disk; by default one that fits the kernel.
    pub initrd: Option<PathBuf>,
    /// Disk images.
    #[serde(deserialize_with = "text::each")]
    pub disks: Vec<Image>,
    /// Folders for the guest.
    #[serde(deserialize_with = "text::each")]
    pub share: Vec<Share>,
    /// PCI devices.
    #[serde(deserialize_with = "text::each")]
    pub pci: Vec<PciDevice>,
    /// What the network card is connected to.
    #[serde(deserialize_with = "text::one")]
    pub net: Network,
    /// Date at power-on; by default now with a network, else always the same.
    #[serde(deserialize_with = "text::option")]
    pub rtc: Option<Rtc>,
    /// File for a record of all input from outside.
    pub record: Option<PathBuf>,
    /// Record to replay.
    pub replay: Option<PathBuf>,
    /// Files for the guest's initial RAM file system.
    #[serde(deserialize_with = "text::each")]
    pub copy: Vec<Copied>,
    /// Kernel command line.
    pub append: Option<String>,
    /// M-mode firmware; OpenSBI by default.
    pub firmware: Option<Firmware>,
    /// Device tree to use instead of the machine's own.
    pub dtb: Option<PathBuf>,
    /// Device that the console is connected to.
    pub console: ConsoleDevice,
    /// What happens when the kernel panics; `None`: the caller's default.
    pub on_panic: Option<OnPanic>,
    /// Whether virtual time runs no faster than the wall clock.
    pub real_time: bool,
    /// Number of harts.
    pub harts: usize,
    /// Options that only this machine has, as in `aia.guests`.
    #[serde(deserialize_with = "text::settings")]
    pub settings: BTreeMap<String, Value>,
    /// Options of every machine.
    #[serde(flatten)]
    pub options: MachineOptions,
}

/// A kernel to boot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Kernel {
    /// None: firmware is all there is.
    None,
    /// Debian's.
    Debian,
    /// The one with this project's patches.
    Patched,
    /// This file.
    File(PathBuf),
}

/// M-mode firmware.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Firmware {
    /// None: the kernel starts in M-mode.
    None,
    /// This file.
    File(PathBuf),
}

/// Device that a console is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsoleDevice {
    /// The UART, Linux' ttyS0.
    #[default]
    Uart,
    /// A virtio console, Linux' hvc0.
    Virtio,
}

/// What happens to a machine whose kernel has panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPanic {
    /// The command ends with status 1.
    Exit,
    /// The machine keeps running, to be debugged or inspected.
    Keep,
}

impl From<String> for Kernel {
    fn from(text: String) -> Self {
        match text.as_str() {
            "none" => Self::None,
            "debian" => Self::Debian,
            "patched" => Self::Patched,
            _ => Self::File(text.into()),
        }
    }
}

impl From<Kernel> for String {
    fn from(kernel: Kernel) -> Self {
        match kernel {
            Kernel::None => "none".into(),
            Kernel::Debian => "debian".into(),
            Kernel::Patched => "patched".into(),
            Kernel::File(path) => path.display().to_string(),
        }
    }
}

impl FromStr for Kernel {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl From<String> for Firmware {
    fn from(text: String) -> Self {
        match text.as_str() {
            "none" => Self::None,
            _ => Self::File(text.into()),
        }
    }
}

impl From<Firmware> for String {
    fn from(firmware: Firmware) -> Self {
        match firmware {
            Firmware::None => "none".into(),
            Firmware::File(path) => path.display().to_string(),
        }
    }
}

impl FromStr for Firmware {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

impl BootSpec {
    /// Default number of harts.
    pub const HARTS: usize = 2;

    /// The machine of `machines`. It has the date `recorded`, in seconds since 1970, if it replays
    /// a record.
    ///
    /// # Errors
    /// If there is none of this name, or an option does not fit it.
    pub fn config(&self, machines: &Machines, recorded: Option<u64>) -> Result<MachineConfig> {
        let (options, settings) = (&self.options, &self.settings);
        let mut config = machine::config(machines, &self.machine, self.harts, options, settings)?;
        // On networks there are certificates and signatures, which a guest checks against its
        // clock.
        let networked = matches!(self.net, Network::User(_)).then_some(Rtc::Now);
        config.epoch = match (self.rtc.or(networked), recorded) {
            (Some(Rtc::At(epoch)), _) | (_, Some(epoch)) => epoch,
            (Some(Rtc::Now), None) => rtc::now(),
            (None, None) => config.epoch,
        };
        Ok(config)
    }

    /// The kernel. As on QEMU, the default with firmware of the user's is none: it may be the whole
    /// program.
    pub fn kernel(&self) -> &Kernel {
        match (&self.kernel, &self.firmware) {
            (Some(kernel), _) => kernel,
            (None, Some(Firmware::File(_))) => &Kernel::None,
            (None, _) => &Kernel::Debian,
        }
    }

    /// Whether the kernel's command line names a disk with the system.
    pub fn has_root(&self) -> bool {
        let words = self.append.iter().flat_map(|text| text.split_whitespace());
        words.into_iter().any(|word| word.starts_with("root="))
    }
}

impl Default for BootSpec {
    fn default() -> Self {
        Self {
            machine: machine::USUAL.into(),
            kernel: None,
            initrd: None,
            disks: Vec::new(),
            share: Vec::new(),
            pci: Vec::new(),
            net: Network::default(),
            rtc: None,
            record: None,
            replay: None,
            copy: Vec::new(),
            append: None,
            firmware: None,
            dtb: None,
            console: ConsoleDevice::default(),
            on_panic: None,
            real_time: false,
            harts: Self::HARTS,
            settings: BTreeMap::new(),
            options: MachineOptions::default(),
        }
    }
}
