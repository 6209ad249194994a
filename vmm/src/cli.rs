//! Command line.

use crate::devices::test_device::wires::{self, Sources};
use crate::devices::virtio::slots::Disk;
use crate::guest::config::{Config, Console, Wfi};
use crate::irqchip::aia::uapi::Mode;
use crate::irqchip::options::{Choice, Inject, Options};
use crate::irqchip::wire::Way;
use crate::run::stagger::Stagger;
use crate::terminal::EscapeKey;
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  trapless-vmm --kernel Image --initrd initrd.img
  trapless-vmm --kernel Image --initrd initrd.img --cpus 2 --memory 1G --disk root.img --append 'root=/dev/vda'
  trapless-vmm --kernel Image --initrd initrd.img --tap tap0 --disk data.img --disk tools.img,ro
  trapless-vmm --kernel Image --initrd initrd.img --disable-ext sstc --stats exits.json --no-reboot
  trapless-vmm --kernel Image --initrd initrd.img --irqchip trapless --cpus 2 --pin 0,1 --wfi native
  trapless-vmm --kernel Image --initrd initrd.img --irqchip trapless --inject irqfd --test-device 8,mixed
  trapless-vmm --kernel Image --initrd initrd.img --memory 256M --hugepages
  trapless-vmm --kernel Image --initrd initrd.img --irqchip aia --cpus 4 --aia-mode hwaccel --stats exits.json

  trapless-vmm --kernel Image --initrd initrd.img --cpus 2 --control vm.sock &
  trapless-vmm --control vm.sock --send 'save guest.saved' && trapless-vmm --control vm.sock --send quit
  trapless-vmm --restore guest.saved --cpus 2 --control vm.sock

SIGUSR1 pauses or resumes the guest; SIGUSR2 saves it to the file of --save and ends.
On a terminal, Ctrl-A x leaves, Ctrl-A Ctrl-A sends Ctrl-A, Ctrl-A h lists the keys; --escape-key b
makes it Ctrl-B.

Exit codes:
  0    the guest powered off (or rebooted with --no-reboot), or the user left with Ctrl-A x
  2    wrong options, a file that cannot be used, or no KVM
  3    the guest crashed or reported a failure, or KVM failed
  128+N  stopped by signal N (SIGINT 130, SIGTERM 143)";

/// Runs a riscv64 Linux kernel as KVM guest.
#[derive(Parser, Debug, Clone)]
#[command(name = "trapless-vmm", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Linux kernel for riscv64 (the uncompressed `Image`)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["restore", "send"])]
    pub kernel: Option<PathBuf>,

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
    #[arg(long, value_name = "FILE[,ro]", value_parser = parse_disk)]
    pub disk: Vec<Disk>,

    /// Unix socket of a back end that serves a disk by the vhost-user protocol (trapless-backend,
    /// qemu-storage-daemon); behind those of --disk
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user_blk: Vec<PathBuf>,

    /// Tap interface of the host for a virtio network device (created if it does not exist)
    #[arg(long, value_name = "NAME", value_parser = parse_tap)]
    pub tap: Option<String>,

    /// Let the host's kernel move frames between --tap and the guest (/dev/vhost-net)
    #[arg(long, requires = "tap")]
    pub vhost: bool,

    /// Unix socket of a back end that serves a network card by the vhost-user protocol
    /// (trapless-backend); may be repeated
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user_net: Vec<PathBuf>,

    /// Wait so long for a back end that has ended to come again; the guest then notices nothing, if
    /// it serves requests in order, as trapless-backend does [default: the device fails at once]
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub vhost_user_reconnect: u16,

    /// Which console is connected to standard input and output
    #[arg(long, value_enum, default_value_t = Console::Uart)]
    pub console: Console,

    /// Host CPUs to bind the vCPU threads to, in turn (vCPU 0 to the first, ...)
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub pin: Vec<u16>,

    /// Start the guest up to 4 ms later and each vCPU up to 1 ms, as SEED says; GUEST tells guests
    /// of one host apart [default: start at once]
    #[arg(long, value_name = "SEED[,GUEST]")]
    pub stagger: Option<Stagger>,

    /// Interrupt controller of the guest; `--stats` says which one it got
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    pub irqchip: Choice,

    /// How devices interrupt a guest with Xtrapless or AIA
    #[arg(long, value_enum, default_value_t = Inject::Auto)]
    pub inject: Inject,

    /// Where KVM keeps the interrupt files of a guest with AIA
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub aia_mode: Mode,

    /// What WFI of the guest does; `native` needs this project's KVM
    #[arg(long, value_enum, default_value_t = Wfi::Trap)]
    pub wfi: Wfi,

    /// Add a device with N interrupt sources (1..32) that tests delivery; its guest driver is
    /// `trapless_seq`
    #[arg(long, value_name = "N[,ugenvsei|irqfd|ioctl|mixed]", value_parser = parse_test_device)]
    pub test_device: Option<Sources>,

    /// ISA extensions to hide from the guest, for instance `sstc`
    #[arg(long, value_name = "EXT,...", value_delimiter = ',')]
    pub disable_ext: Vec<String>,

    /// Device tree to use as it is instead of the generated one; command line and initrd are then
    /// the ones it names
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,

    /// Write the device tree that the guest gets, then go on
    #[arg(long, value_name = "FILE")]
    pub dump_dtb: Option<PathBuf>,

    /// Exit instead of starting again when the guest reboots
    #[arg(long)]
    pub no_reboot: bool,

    /// On a terminal, the key with Ctrl that is before commands
    #[arg(long, value_name = "LETTER", default_value = "a")]
    pub escape_key: EscapeKey,

    /// Answer accesses to the serial port in user mode, without exits (harts with Xuer)
    #[arg(long)]
    pub uer: bool,

    /// Let KVM take virtio queue notifications (KVM_IOEVENTFD) instead of one MMIO exit each
    #[arg(long)]
    pub ioeventfd: bool,

    /// Let the interrupt controller take virtio queue notifications, and answer registers of virtio
    /// devices, without exits (harts with Xvei)
    #[arg(long)]
    pub doorbells: bool,

    /// Let handlers of user contexts, of any process of the host, interrupt the guest (harts with
    /// Xhcs)
    #[arg(long)]
    pub user_contexts: bool,

    /// Listen for commands (pause, resume, status, save FILE, stats, move, moved, quit; one a line)
    /// at this Unix socket
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,

    /// Send this command to the VMM at --control, print its answer and end
    #[arg(long, value_name = "COMMAND", requires = "control")]
    pub send: Option<String>,

    /// Where SIGUSR2 saves the guest, which ends then
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Continue a saved guest, with the options it was saved with; disks must not have changed
    /// since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["initrd", "dtb"])]
    pub restore: Option<PathBuf>,

    /// Write the numbers of exits to user space, per vCPU and reason, as JSON
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
}

fn parse_test_device(text: &str) -> Result<Sources, String> {
    let (sources, inject) = match text.split_once(',') {
        Some((sources, "ugenvsei")) => (sources, wires::Inject::All(Way::Ugenvsei)),
        Some((sources, "ioctl")) => (sources, wires::Inject::All(Way::Ioctl)),
        Some((sources, "irqfd")) => (sources, wires::Inject::All(Way::Irqfd)),
        Some((sources, "mixed")) => (sources, wires::Inject::Mixed),
        Some((_, other)) => {
            return Err(format!(
                "`{other}` is none of ugenvsei, irqfd, ioctl and mixed"
            ));
        }
        None => (text, wires::Inject::AsOthers),
    };
    let number = sources
        .parse()
        .ok()
        .filter(|n| (1..=crate::map::TEST_SOURCES).contains(n))
        .ok_or("the test device has 1 to 32 sources")?;
    Ok(Sources { number, inject })
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim().char_indices().last() {
        Some((i, 'K' | 'k')) => (&text.trim()[..i], 10),
        Some((i, 'M' | 'm')) => (&text.trim()[..i], 20),
        Some((i, 'G' | 'g')) => (&text.trim()[..i], 30),
        Some((i, 'T' | 't')) => (&text.trim()[..i], 40),
        _ => (text.trim(), 20),
    };
    let value: u64 = digits
        .parse()
        .map_err(|_| "give a size such as 512M or 2G".to_string())?;
    let bytes = value
        .checked_mul(1 << shift)
        .filter(|&b| b <= 1 << 40)
        .ok_or_else(|| "more than 1 TiB of guest RAM is not supported".to_string())?;
    if bytes < 32 << 20 {
        return Err("Linux needs at least 32M".into());
    }
    if bytes % 4096 != 0 {
        return Err("the size must be a multiple of 4K".into());
    }
    Ok(bytes)
}

fn parse_disk(text: &str) -> Result<Disk, String> {
    let (path, read_only) = match text.rsplit_once(',') {
        Some((path, "ro")) => (path, true),
        Some((path, "rw")) => (path, false),
        _ => (text, false),
    };
    if path.is_empty() {
        return Err("the file name is empty".into());
    }
    Ok(Disk {
        path: path.into(),
        read_only,
    })
}

/// Linux limits interface names to IFNAMSIZ - 1 bytes and forbids slashes and blanks.
fn parse_tap(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 15 || text.contains(|c: char| c == '/' || c.is_whitespace())
    {
        return Err("an interface name has 1 to 15 characters, none of them '/' or blank".into());
    }
    Ok(text.into())
}

impl Cli {
    /// The options that concern the guest itself.
    pub fn config(&self) -> Config {
        Config {
            cpus: self.cpus,
            memory: self.memory,
            hugepages: self.hugepages,
            initrd: self.initrd.clone(),
            append: self.append.clone(),
            dtb: self.dtb.clone(),
            dump_dtb: self.dump_dtb.clone(),
            disks: self.disk.clone(),
            vhost_user_blk: self.vhost_user_blk.clone(),
            vhost_user_net: self.vhost_user_net.clone(),
            reconnect: Duration::from_secs(self.vhost_user_reconnect.into()),
            tap: self.tap.is_some(),
            vhost_net: self.vhost,
            console: self.console,
            test_device: self.test_device,
            irqchip: Options {
                choice: self.irqchip,
                inject: self.inject,
                aia_mode: self.aia_mode,
            },
            hidden: self.disable_ext.clone(),
            uer: self.uer,
            ioeventfd: self.ioeventfd,
            doorbells: self.doorbells,
            user_contexts: self.user_contexts,
            wfi: self.wfi,
            pin: self.pin.clone(),
            stagger: self.stagger,
            save: self.save.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["trapless-vmm", "--kernel", "Image"].iter().chain(args))
    }

    #[test]
    fn memory_sizes_have_suffixes_and_limits() {
        assert_eq!(parse(&["--memory", "2G"]).unwrap().memory, 2 << 30);
        assert_eq!(parse(&["--memory", "256"]).unwrap().memory, 256 << 20);
        for bad in [
            "",
            "G",
            "-1M",
            "1M",
            "99999999999999999999",
            "2T",
            "16777215T",
            "33555K1",
            "é",
        ] {
            assert!(parse(&["--memory", bad]).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn huge_pages_are_asked_for_and_hold_ram_without_a_rest() {
        assert!(!parse(&[]).unwrap().hugepages);
        let check = |memory| {
            parse(&["--hugepages", "--memory", memory])
                .unwrap()
                .config()
                .check()
        };
        assert!(check("256M").is_ok());
        for odd in ["33M", "65540K"] {
            let error = check(odd).unwrap_err();
            assert_eq!(error.code(), 2);
            assert!(parse(&["--memory", odd]).unwrap().config().check().is_ok());
        }
        let text = check("65540K").unwrap_err().to_string();
        assert!(text.contains("--memory 66M"), "{text}");
    }

    #[test]
    fn disk_suffix_selects_read_only() {
        let cli = parse(&["--disk", "a,b.img,ro", "--disk", "c.img"]).unwrap();
        assert_eq!(
            cli.disk[0],
            Disk {
                path: "a,b.img".into(),
                read_only: true
            }
        );
        assert_eq!(
            cli.disk[1],
            Disk {
                path: "c.img".into(),
                read_only: false
            }
        );
        assert!(parse(&["--disk", ",ro"]).is_err());
    }

    #[test]
    fn console_is_appended_unless_named() {
        assert_eq!(
            parse(&["--append", "quiet"])
                .unwrap()
                .config()
                .command_line(false),
            "console=ttyS0 quiet"
        );
        assert_eq!(
            parse(&["--append", "console=tty0"])
                .unwrap()
                .config()
                .command_line(false),
            "console=tty0"
        );
        assert_eq!(
            parse(&["--console", "virtio"])
                .unwrap()
                .config()
                .command_line(false),
            "console=hvc0"
        );
        assert_eq!(
            parse(&["--console", "none"])
                .unwrap()
                .config()
                .command_line(false),
            ""
        );
    }

    #[test]
    fn xtrapless_adds_an_early_console_unless_named() {
        let line = |args: &[&str]| parse(args).unwrap().config().command_line(true);
        assert_eq!(
            line(&["--append", "quiet"]),
            "console=ttyS0 earlycon=sbi quiet"
        );
        assert_eq!(line(&["--append", "earlycon"]), "console=ttyS0 earlycon");
        assert_eq!(line(&["--console", "none"]), "");
    }

    #[test]
    fn test_device_has_a_number_of_sources_and_a_way() {
        let parsed = |text| parse(&["--test-device", text]).map(|cli| cli.test_device);
        let expected = Sources {
            number: 32,
            inject: wires::Inject::Mixed,
        };
        assert_eq!(parsed("32,mixed").unwrap(), Some(expected));
        for bad in ["0", "33", "8,plic", "", ",irqfd"] {
            assert!(parsed(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn more_devices_than_slots_is_a_user_error() {
        let mut args = vec!["--tap", "tap0"];
        for _ in 0..7 {
            args.extend(["--disk", "d"]);
        }
        let error = parse(&args).unwrap().config().check().unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("slots"));
    }

    #[test]
    fn unknown_extensions_are_a_user_error() {
        assert!(
            parse(&["--disable-ext", "sstc,zbb"])
                .unwrap()
                .config()
                .check()
                .is_ok()
        );
        let error = parse(&["--disable-ext", "sstc,stsc"])
            .unwrap()
            .config()
            .check()
            .unwrap_err();
        assert!(error.to_string().contains("stsc"));
    }

    #[test]
    fn wrong_values_are_refused() {
        assert!(parse(&["--vhost"]).is_err(), "there is no --tap");
        for args in [
            &["--cpus", "0"],
            &["--cpus", "513"],
            &["--tap", "a/b"],
            &["--console", "vga"],
            &["--pin", "x"],
            &["--irqchip", "imsic"],
            &["--aia-mode", "fast"],
            &["--wfi", "0"],
        ] {
            assert!(parse(args).is_err(), "{args:?} was accepted");
        }
    }
}
