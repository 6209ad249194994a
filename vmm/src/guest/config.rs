//! The options of a guest.

use crate::devices::test_device::wires::Sources;
use crate::devices::vfio::device::Chosen;
use crate::devices::virtio::slots::Disk;
use crate::error::{Error, Result};
use crate::guest::parse::{parse_disk, parse_memory, parse_passed, parse_seconds, parse_tap};
use crate::guest::ram::HUGE_PAGE;
use crate::irqchip::options::Options;
use crate::kvm::isa::KVM_EXTENSIONS;
use crate::map;
use crate::run::stagger::Stagger;
use clap::{Args, ValueEnum};
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

/// Configuration of a guest: options of the command.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// Initial RAM disk
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,

    /// Kernel command line; `console=` for the chosen console is added unless it names one
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub append: String,

    /// Number of virtual CPUs, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub cpus: u16,

    /// Guest RAM with suffix K, M, G or T; MiB without a suffix
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_memory)]
    pub memory: u64,

    /// Take guest RAM from the host's huge pages of 2 MiB (/proc/sys/vm/nr_hugepages), which saves
    /// exits for page faults
    #[arg(long)]
    pub hugepages: bool,

    /// Raw disk image as virtio block device, `,ro` for read-only; may be repeated
    #[arg(long = "disk", value_name = "FILE[,ro]", value_parser = parse_disk)]
    pub disks: Vec<Disk>,

    /// Unix socket of a back end that serves a disk by the vhost-user protocol (trapless-backend,
    /// qemu-storage-daemon); behind those of --disk
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user_blk: Vec<PathBuf>,

    /// Tap interface of the host for a virtio network device (created if it does not exist)
    #[arg(long, value_name = "NAME", value_parser = parse_tap)]
    pub tap: Option<String>,

    /// Let the host's kernel move frames between --tap and the guest (/dev/vhost-net)
    #[arg(long = "vhost", requires = "tap")]
    pub vhost_net: bool,

    /// Unix socket of a back end that serves a network card by the vhost-user protocol
    /// (trapless-backend); may be repeated
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user_net: Vec<PathBuf>,

    /// Wait so long for a new back end after one has ended, unnoticed by the guest if requests are
    /// served in order, as trapless-backend does [default: the device fails at once]
    #[arg(
        long = "vhost-user-reconnect",
        value_name = "SECONDS",
        default_value = "0",
        value_parser = parse_seconds,
        hide_default_value = true
    )]
    pub reconnect: Duration,

    /// Device of the host that the guest gets for itself: PCI, bound to vfio-pci (0000:00:01.0, or
    /// its folder in /sys/bus/pci/devices), or a platform device, bound to vfio-platform
    /// (10009000.virtio_mmio, or its folder in /sys/bus/platform/devices); with `,relay` the host
    /// relays interrupts even if hardware could interrupt a guest with AIA, or by a wire of
    /// Xtrapless; may be repeated
    #[arg(long, value_name = "DEVICE[,relay]", value_parser = parse_passed)]
    pub vfio: Vec<Chosen>,

    /// Which console is connected to standard input and output
    #[arg(long, value_enum, default_value_t = Console::Uart)]
    pub console: Console,

    /// Host CPUs to bind the vCPU threads to, in turn (vCPU 0 to the first, ...)
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub pin: Vec<u16>,

    /// Start the guest up to 4 ms later and each vCPU up to 1 ms, derived from SEED; GUEST
    /// distinguishes guests of one host [default: start at once]
    #[arg(long, value_name = "SEED[,GUEST]")]
    pub stagger: Option<Stagger>,

    /// The interrupt controller.
    #[command(flatten)]
    pub irqchip: Options,

    /// Behaviour of the guest's WFI; `native` needs this project's KVM
    #[arg(long, value_enum, default_value_t = Wfi::Trap)]
    pub wfi: Wfi,

    /// Add a device with N interrupt sources (1..32) that tests delivery; its guest driver is
    /// `trapless_seq`
    #[arg(long, value_name = "N[,ugenvsei|irqfd|ioctl|mixed]", value_parser = clap::value_parser!(Sources))]
    pub test_device: Option<Sources>,

    /// ISA extensions to hide from the guest, for instance `sstc`
    #[arg(long = "disable-ext", value_name = "EXT,...", value_delimiter = ',')]
    pub hidden: Vec<String>,

    /// Device tree to use unchanged instead of the generated one; it must name command line and
    /// initrd
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,

    /// Write the guest's device tree, then continue
    #[arg(long, value_name = "FILE")]
    pub dump_dtb: Option<PathBuf>,

    /// Handle accesses to the serial port in user mode, without exits (harts with Xuer)
    #[arg(long)]
    pub uer: bool,

    /// Let KVM handle virtio queue notifications (KVM_IOEVENTFD) instead of one MMIO exit each
    #[arg(long)]
    pub ioeventfd: bool,

    /// Let the interrupt controller handle virtio queue notifications, and registers of virtio
    /// devices, without exits (harts with Xvei)
    #[arg(long)]
    pub doorbells: bool,

    /// Let handlers of user contexts, of any process of the host, interrupt the guest (harts with
    /// Xhcs)
    #[arg(long)]
    pub user_contexts: bool,

    /// File to which SIGUSR2 saves the guest, which then ends
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// `--wfi`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wfi {
    /// Exits to KVM, which gives the host CPU to others
    Trap,
    /// Waits on the host CPU, without an exit, as long as no other thread needs it
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

    /// Why the guest cannot be saved or restored, if it cannot.
    pub fn obstacle(&self) -> Option<&'static str> {
        (!self.vfio.is_empty()).then_some(
            "a guest with --vfio cannot be saved: its device's state stays in the device, and what it writes to memory is not noticed",
        )
    }

    /// Checks that involve several options.
    ///
    /// # Errors
    /// [`Error::User`] if options are not consistent.
    pub fn check(&self) -> Result<()> {
        let devices = self.disks.len()
            + self.vhost_user_blk.len()
            + self.vhost_user_net.len()
            + usize::from(self.tap.is_some())
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
                "back ends of vhost-user cannot map huge pages; leave out --hugepages",
            ));
        }
        for (name, used) in [
            ("--vhost-user-blk", !self.vhost_user_blk.is_empty()),
            ("--vhost-user-net", !self.vhost_user_net.is_empty()),
            ("--vhost", self.vhost_net),
        ] {
            if self.save.is_some() && used {
                return Err(Error::user(format!(
                    "a guest with {name} cannot be saved: part of the state is in the back end of its queues"
                )));
            }
        }
        if self.save.is_some() {
            if let Some(why) = self.obstacle() {
                return Err(Error::user(why));
            }
        }
        if self.vfio.len() > trapless_pci::MAX_DEVICES {
            return Err(Error::user(format!(
                "a guest has room for {} PCI devices; use fewer --vfio",
                trapless_pci::MAX_DEVICES
            )));
        }
        if self.hugepages && self.memory % HUGE_PAGE != 0 {
            return Err(Error::user(format!(
                "--hugepages: {} KiB of guest RAM are not a multiple of 2 MiB; use --memory {}M",
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
