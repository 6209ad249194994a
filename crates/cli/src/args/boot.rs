//! `trapless boot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use trapless_backends::disk::Image;
use trapless_backends::net::Network;
use trapless_backends::share::Share;
use trapless_experiments::Value;
use trapless_run::checkpoint::Request;
use trapless_run::copy::Copied;
use trapless_run::rtc::Rtc;
use trapless_run::spec::{ConsoleDevice, Firmware, Kernel, OnPanic, PciDevice};
use trapless_run::{BootSpec, ObserveOptions};

use super::machine::{MachineArgs, name, setting};
use super::observe::ObserveArgs;

/// Device that the terminal is connected to.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceName {
    #[default]
    Uart,
    Virtio,
}

/// What happens to a machine whose kernel has panicked.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PanicAction {
    /// The command ends with status 1.
    Exit,
    /// The machine keeps running, to be debugged or inspected.
    Keep,
}

/// `trapless boot`.
#[derive(Args)]
#[command(after_help = "\
Keys on the console: Ctrl-A x leaves, Ctrl-A h lists more.

Input need not come from a terminal: lines in a pipe or file reach the guest when it listens. After the last line
the machine keeps running. Once the guest has been idle and silent for 10 s of its time, that time passes
no faster than the wall clock, so that an idle machine costs next to nothing.

Examples:
  trapless boot                                  Debian's kernel as KVM host, with a shell
  trapless boot --machine sbi --harts 4 --ram 4G
  trapless boot --disk debian.img --append 'root=/dev/vda rw console=ttyS0'   a system on a disk
  trapless boot --disk data.img,rw                               a disk that keeps what is written
  trapless boot --share results                                  a folder of this computer
  trapless boot --net user,hostfwd=tcp::2222-:22                 the network, and a port
  trapless boot --pci virtio-net --pci virtio-blk,data.img       PCI Express with two devices
  trapless boot --nvme data.img,rw                               a disk on NVM Express
  trapless boot --machine aia --pci virtio-net,vfs=4             a network card that shares itself (SR-IOV)
  trapless boot --copy prog:/bin/prog --copy data                a program and a folder
  trapless boot --kernel Image --initrd initrd.img --append 'console=ttyS0'
  trapless boot --firmware u-boot.bin                                         nothing but that")]
pub struct BootArgs {
    /// Machine preset; `trapless machines` lists them.
    #[arg(long, short, default_value = "sstc", value_name = "NAME", value_parser = name)]
    pub machine: String,
    /// Linux Image (plain or gzip), ELF or flat binary; `debian`, `patched` (built from Debian's
    /// source with this project's patches) or `none` [default: debian, with --firmware FILE none].
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<Kernel>,
    /// Initial RAM disk [default with these two kernels: one that starts the system on the disk if
    /// --append has root=, else the KVM host image].
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// Disk image (raw or qcow2) on virtio-blk; what the guest writes stays in memory. With `rw` it
    /// goes to the file, with `ro` the guest cannot write. Repeat for more.
    #[arg(long, value_name = "FILE[,rw|,ro][,format=raw|qcow2]")]
    pub disk: Vec<Image>,
    /// Share a folder with the guest by virtio-fs: `mount -t virtiofs share /mnt`, which the host
    /// image does by itself. With `ro` the guest cannot write; `tag` is the name to mount it by
    /// [default: share]. Repeat for more.
    #[arg(long, value_name = "FOLDER[,ro][,tag=NAME]")]
    pub share: Vec<Share>,
    /// Disk image on a controller of NVM Express, Linux' /dev/nvme0n1, with the options of --disk;
    /// the same as `--pci nvme,FILE`. Repeat for more.
    #[arg(long, value_name = "FILE[,rw|,ro][,format=raw|qcow2]")]
    pub nvme: Vec<Image>,
    /// PCI device: `virtio-net`, `virtio-rng` or `virtio-console` is the machine's own, on PCI
    /// instead of in a virtio-mmio slot; `virtio-blk,FILE` and `virtio-fs,FOLDER` are further ones,
    /// with options as for --disk and --share. `virtio-net,vfs=N` has N virtual functions (SR-IOV),
    /// up to 7, which a driver switches on; with `port` it has a platform port (virtio-mmio with a
    /// wire, behind the IOMMU). `endpoint-test` is a function for tests of drivers. Repeat for
    /// more.
    #[arg(long, value_name = "DEVICE[,FILE|,FOLDER][,OPTION...]")]
    pub pci: Vec<PciDevice>,
    /// What the network card is connected to: `user` (the network of this computer, without
    /// privileges; hostfwd forwards ports of it to the guest), `peer` (a machine at 10.0.2.2 that
    /// answers pings) or `none` [default: peer].
    #[arg(
        long,
        value_name = "user[,hostfwd=tcp:[ADDR]:PORT-:PORT]|peer|none",
        default_value = "peer",
        hide_default_value = true
    )]
    pub net: Network,
    /// Date of the machine's clock at power-on, in UTC: `now` is that of this computer, or with
    /// --replay that of the record [default: now with --net user, else 2025-01-01, so that a run is
    /// the same each time].
    #[arg(long, value_name = "now|DATE")]
    pub rtc: Option<Rtc>,
    /// Write a checkpoint at this virtual time, from which `trapless resume` continues, as in
    /// `20=booted.checkpoint`. Repeat for more. Ctrl-A c makes one at any time.
    #[arg(long, value_name = "SECONDS=FILE", conflicts_with = "replay")]
    pub checkpoint: Vec<Request>,
    /// Record all input from outside, with virtual times: typed lines, frames of --net user,
    /// answers of --share.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Repeat the run of a record, made with the same other options: its ledger is the same.
    /// Folders and networks are not needed, and disks are not written to.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "script", "until"])]
    pub replay: Option<PathBuf>,
    /// Copy a file or folder of this computer into the guest's initial RAM file system [default
    /// place: /root]. Repeat for more.
    #[arg(long, value_name = "FILE[:/PATH]")]
    pub copy: Vec<Copied>,
    /// Kernel command line.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// M-mode firmware; `none` starts the kernel in M-mode [default: OpenSBI].
    #[arg(long, value_name = "FILE")]
    pub firmware: Option<Firmware>,
    /// Device tree to use instead of the machine's own.
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,
    /// Write the machine's device tree to this file and stop.
    #[arg(long, value_name = "FILE")]
    pub dump_dtb: Option<PathBuf>,
    /// Device that the terminal is connected to; output of the other is shown, too. Linux calls
    /// them ttyS0 and hvc0.
    #[arg(long, value_enum, default_value_t, value_name = "DEVICE")]
    pub console: DeviceName,
    /// What happens when the kernel panics and prints nothing more [default: exit, or keep if
    /// standard input is a terminal].
    #[arg(long, value_enum, value_name = "ACTION")]
    pub on_panic: Option<PanicAction>,
    /// Type what this script says, in virtual time, so that every run is the same. Lines are
    /// `expect REGEX`, `send TEXT`, `timeout SECONDS` (of virtual time; 60) and `end`, which leaves
    /// the machine; else it has to power off. Exit status 1 if something expected does not come.
    /// Standard input is not read.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Stop the machine with exit status 0 when the console output matches this. Standard input is
    /// not read.
    #[arg(long, value_name = "REGEX", conflicts_with = "script")]
    pub until: Option<String>,
    /// Let virtual time run no faster than the wall clock, as for interactive use.
    #[arg(long)]
    pub real_time: bool,
    /// Give up after this much virtual time [default: never].
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// Number of harts.
    #[arg(long, default_value_t = BootSpec::HARTS, value_name = "N")]
    pub harts: usize,
    /// Write the ledger of the run to this file.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write a trace that Perfetto opens, as in `ipi.perfetto-trace`.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Set an option that only this machine has, as in `aia.guests=3`. Repeat for more.
    #[arg(long = "set", short = 's', value_name = "NAME=VALUE", value_parser = setting, help_heading = "Machine")]
    pub settings: Vec<(String, Value)>,
    #[command(flatten)]
    pub machine_options: MachineArgs,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// How a machine of `boot` is driven: its input, when it ends, and what is written about it.
#[derive(Clone, Default)]
pub struct Driving {
    /// What is typed on its console, and when the session ends.
    pub script: Option<PathBuf>,
    /// Console output that ends the session.
    pub until: Option<String>,
    /// Limit of virtual time in seconds.
    pub time_limit: Option<u64>,
    /// File for its ledger.
    pub ledger: Option<PathBuf>,
    /// Checkpoints to make.
    pub checkpoint: Vec<Request>,
    /// File for its device tree, without running it.
    pub dump_dtb: Option<PathBuf>,
    /// Logs, traces and gdb.
    pub observe: ObserveOptions,
}

impl BootArgs {
    /// The machine that they describe.
    pub fn spec(&self) -> BootSpec {
        BootSpec {
            machine: self.machine.clone(),
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            disks: self.disk.clone(),
            share: self.share.clone(),
            pci: {
                let nvme = self.nvme.iter().cloned().map(PciDevice::Nvme);
                self.pci.iter().cloned().chain(nvme).collect()
            },
            net: self.net.clone(),
            rtc: self.rtc,
            record: self.record.clone(),
            replay: self.replay.clone(),
            copy: self.copy.clone(),
            append: self.append.clone(),
            firmware: self.firmware.clone(),
            dtb: self.dtb.clone(),
            console: match self.console {
                DeviceName::Uart => ConsoleDevice::Uart,
                DeviceName::Virtio => ConsoleDevice::Virtio,
            },
            on_panic: self.on_panic.map(|action| match action {
                PanicAction::Exit => OnPanic::Exit,
                PanicAction::Keep => OnPanic::Keep,
            }),
            real_time: self.real_time,
            harts: self.harts,
            settings: self.settings.iter().cloned().collect(),
            options: self.machine_options.options(),
        }
    }

    /// How it is driven.
    pub fn driving(&self) -> Driving {
        Driving {
            script: self.script.clone(),
            until: self.until.clone(),
            time_limit: self.time_limit,
            ledger: self.ledger.clone(),
            checkpoint: self.checkpoint.clone(),
            dump_dtb: self.dump_dtb.clone(),
            observe: self.observe.options(self.trace.as_deref()),
        }
    }
}
