//! The options of a guest.

use crate::devices::test_device::wires::Sources;
use crate::devices::virtio::slots::Disk;
use crate::error::{Error, Result};
use crate::guest::ram::HUGE_PAGE;
use crate::irqchip::options::Options;
use crate::kvm::isa::KVM_EXTENSIONS;
use crate::map;
use crate::run::stagger::Stagger;
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

/// The console connected to standard input and output.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Console {
    /// 16550 serial port, `ttyS0`
    Uart,
    /// virtio console, `hvc0`
    Virtio,
    /// No console device; what the guest prints by SBI calls is still shown
    None,
}

impl Console {
    /// The `console=` argument for Linux.
    pub fn linux_name(self) -> Option<&'static str> {
        match self {
            Self::Uart => Some("ttyS0"),
            Self::Virtio => Some("hvc0"),
            Self::None => None,
        }
    }
}

/// What a guest consists of, as far as the user decides it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of vCPUs.
    pub cpus: u16,
    /// Bytes of RAM.
    pub memory: u64,
    /// RAM in the host's huge pages.
    pub hugepages: bool,
    /// Initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// Command line for the kernel, without the console.
    pub append: String,
    /// Device tree to use instead of the generated one.
    pub dtb: Option<PathBuf>,
    /// Where to write the device tree.
    pub dump_dtb: Option<PathBuf>,
    /// Disks, of which the first is `vda`.
    pub disks: Vec<Disk>,
    /// Sockets of processes that serve further disks.
    pub vhost_user_blk: Vec<PathBuf>,
    /// Sockets of processes that serve further network cards.
    pub vhost_user_net: Vec<PathBuf>,
    /// How long to wait for one of them that has ended to come again.
    pub reconnect: Duration,
    /// Whether there is a network card.
    pub tap: bool,
    /// The host's kernel serves it.
    pub vhost_net: bool,
    /// The console.
    pub console: Console,
    /// The test device.
    pub test_device: Option<Sources>,
    /// The interrupt controller.
    pub irqchip: Options,
    /// ISA extensions to hide, in lower case.
    pub hidden: Vec<String>,
    /// The serial port answers in user mode.
    pub uer: bool,
    /// KVM takes queue notifications.
    pub ioeventfd: bool,
    /// The guest's controller takes queue notifications and answers registers of virtio devices.
    pub doorbells: bool,
    /// Handlers of user contexts may interrupt the guest.
    pub user_contexts: bool,
    /// What WFI of the guest does.
    pub wfi: Wfi,
    /// Host CPUs of the vCPU threads, in turn; empty: any.
    pub pin: Vec<u16>,
    /// Delays before it starts.
    pub stagger: Option<Stagger>,
    /// Where SIGUSR2 saves the guest.
    pub save: Option<PathBuf>,
}

/// `--wfi`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wfi {
    /// Exits to KVM, which gives the host CPU to others
    Trap,
    /// Waits on the host CPU, without an exit, as long as no other thread wants that
    Native,
}

impl Config {
    /// The kernel command line: `--append` and the console. No console device works before the
    /// driver of the interrupt controller, so the kernel prints by SBI until a `late_driver` is
    /// loaded.
    pub fn command_line(&self, late_driver: bool) -> String {
        let append = self.append.trim();
        let names = |what: &str| {
            append
                .split_whitespace()
                .any(|word| word == what || word.starts_with(&format!("{what}=")))
        };
        let mut words = Vec::new();
        if let (Some(name), false) = (self.console.linux_name(), names("console")) {
            words.push(format!("console={name}"));
        }
        if late_driver && self.console != Console::None && !names("earlycon") {
            words.push("earlycon=sbi".into());
        }
        if !append.is_empty() {
            words.push(append.into());
        }
        words.join(" ")
    }

    /// Whether other processes map the guest's RAM.
    pub fn shares_ram(&self) -> bool {
        !self.vhost_user_blk.is_empty() || !self.vhost_user_net.is_empty()
    }

    /// Checks that do not fit into one option.
    ///
    /// # Errors
    /// [`Error::User`] with a sentence for the user.
    pub fn check(&self) -> Result<()> {
        let devices = self.disks.len()
            + self.vhost_user_blk.len()
            + self.vhost_user_net.len()
            + usize::from(self.tap)
            + usize::from(self.console == Console::Virtio)
            + 1; // the random number generator
        if devices > map::VIRTIO_SLOTS {
            return Err(Error::user(format!(
                "{devices} virtio devices do not fit into the {} slots; use fewer --disk",
                map::VIRTIO_SLOTS
            )));
        }
        if self.hugepages && self.shares_ram() {
            return Err(Error::user(
                "back ends of vhost-user do not get at huge pages; leave out --hugepages",
            ));
        }
        for (name, used) in [
            ("--vhost-user-blk", !self.vhost_user_blk.is_empty()),
            ("--vhost-user-net", !self.vhost_user_net.is_empty()),
            ("--vhost", self.vhost_net),
        ] {
            if self.save.is_some() && used {
                return Err(Error::user(format!(
                    "a guest with {name} cannot be saved: who serves its queues has a part of the state"
                )));
            }
        }
        if self.hugepages && self.memory % HUGE_PAGE != 0 {
            return Err(Error::user(format!(
                "--hugepages: {} KiB of guest RAM are no multiple of 2 MiB; use --memory {}M",
                self.memory >> 10,
                self.memory.next_multiple_of(HUGE_PAGE) >> 20
            )));
        }
        let known = |name: &String| KVM_EXTENSIONS.iter().any(|(_, ext)| ext == name);
        if let Some(name) = self.hidden.iter().find(|name| !known(name)) {
            return Err(Error::user(format!(
                "--disable-ext {name}: KVM knows no such extension; write it in lower case as in the ISA string"
            )));
        }
        if self.command_line(true).len() > 1023 {
            return Err(Error::user(
                "the kernel command line is longer than 1023 bytes; shorten --append",
            ));
        }
        Ok(())
    }
}
