//! Command line.

use crate::error::{Error, Result};
use crate::guest::ram::HUGE_PAGE;
use crate::irqchip::aia::Mode;
use crate::irqchip::trapless::Way;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;

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

SIGUSR1 pauses the guest or lets it go on; SIGUSR2 saves it to the file of --save and ends.
On a terminal, Ctrl-A x leaves, Ctrl-A Ctrl-A sends Ctrl-A, Ctrl-A h lists the keys.

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

    /// Take guest RAM from the host's huge pages of 2 MiB (/proc/sys/vm/nr_hugepages), which saves exits for page faults
    #[arg(long)]
    pub hugepages: bool,

    /// Raw disk image as virtio block device, `,ro` for read-only; may be repeated
    #[arg(long, value_name = "FILE[,ro]", value_parser = parse_disk)]
    pub disk: Vec<Disk>,

    /// Tap interface of the host for a virtio network device (created if it does not exist)
    #[arg(long, value_name = "NAME", value_parser = parse_tap)]
    pub tap: Option<String>,

    /// Which console is connected to standard input and output
    #[arg(long, value_enum, default_value_t = Console::Uart)]
    pub console: Console,

    /// Host CPUs to bind the vCPU threads to, in turn (vCPU 0 to the first, ...)
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pub pin: Vec<u16>,

    /// Interrupt controller of the guest; `--stats` says which one it got
    #[arg(long, value_enum, default_value_t = IrqchipChoice::Auto)]
    pub irqchip: IrqchipChoice,

    /// How devices interrupt a guest with Xtrapless or AIA
    #[arg(long, value_enum, default_value_t = InjectChoice::Auto)]
    pub inject: InjectChoice,

    /// Where KVM keeps the interrupt files of a guest with AIA
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub aia_mode: Mode,

    /// What WFI of a guest with Xtrapless does
    #[arg(long, value_enum, default_value_t = Wfi::Trap)]
    pub wfi: Wfi,

    /// Add a device with N interrupt sources (1..32) that tests delivery; its guest driver is `trapless_seq`
    #[arg(long, value_name = "N[,ugenvsei|irqfd|ioctl|mixed]", value_parser = parse_test_device)]
    pub test_device: Option<TestDevice>,

    /// ISA extensions to hide from the guest, for instance `sstc`
    #[arg(long, value_name = "EXT,...", value_delimiter = ',')]
    pub disable_ext: Vec<String>,

    /// Device tree to use as it is instead of the generated one; command line and initrd are then the ones it names
    #[arg(long, value_name = "FILE")]
    pub dtb: Option<PathBuf>,

    /// Write the device tree that the guest gets, then go on
    #[arg(long, value_name = "FILE")]
    pub dump_dtb: Option<PathBuf>,

    /// Exit instead of starting again when the guest reboots
    #[arg(long)]
    pub no_reboot: bool,

    /// Let KVM take virtio queue notifications (KVM_IOEVENTFD) instead of one MMIO exit each
    #[arg(long)]
    pub ioeventfd: bool,

    /// Listen for commands (pause, resume, status, save FILE, stats, move, moved, quit; one a line) at this Unix socket
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,

    /// Send this command to the VMM at --control, print its answer and end
    #[arg(long, value_name = "COMMAND", requires = "control")]
    pub send: Option<String>,

    /// Where SIGUSR2 saves the guest, which ends then
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Continue a saved guest, with the options it was saved with; disks must not have changed since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["initrd", "dtb"])]
    pub restore: Option<PathBuf>,

    /// Write the numbers of exits to user space, per vCPU and reason, as JSON
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
}

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

/// `--irqchip`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqchipChoice {
    /// PLIC in user space, interprocessor interrupts by SBI; any guest, any host
    Plic,
    /// Xtrapless; the guest needs the drivers of this project and has no UART before they are loaded
    Trapless,
    /// AIA: APLIC and IMSICs in KVM; any guest, hosts with AIA
    Aia,
    /// Xtrapless or AIA if KVM offers it, else the PLIC
    Auto,
}

/// `--inject`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectChoice {
    /// `ugenvsei` with Xtrapless, `ioctl` with AIA
    Auto,
    /// Xtrapless: by the instruction, without a system call
    Ugenvsei,
    /// By writing an eventfd that KVM turns into an interrupt; with AIA into a message to a vCPU's interrupt file, the APLIC
    /// is then the VMM's
    Irqfd,
    /// By KVM_IRQ_LINE: wires of Xtrapless' table or of the APLIC
    Ioctl,
}

/// `--wfi`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wfi {
    /// Exits to KVM, which gives the host CPU to others
    Trap,
    /// Waits on the host CPU, without an exit
    Native,
}

/// `--test-device`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TestDevice {
    /// Number of sources.
    pub sources: u8,
    /// How they interrupt.
    pub inject: TestInject,
}

/// The ways that interrupts of the test device take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestInject {
    /// As the other devices (`--inject`).
    AsOthers,
    /// One for all.
    All(Way),
    /// All, so that each kind of source takes each way it can.
    Mixed,
}

fn parse_test_device(text: &str) -> std::result::Result<TestDevice, String> {
    let (sources, inject) = match text.split_once(',') {
        Some((sources, "ugenvsei")) => (sources, TestInject::All(Way::Ugenvsei)),
        Some((sources, "ioctl")) => (sources, TestInject::All(Way::Ioctl)),
        Some((sources, "irqfd")) => (sources, TestInject::All(Way::Irqfd)),
        Some((sources, "mixed")) => (sources, TestInject::Mixed),
        Some((_, other)) => {
            return Err(format!(
                "`{other}` is none of ugenvsei, irqfd, ioctl and mixed"
            ));
        }
        None => (text, TestInject::AsOthers),
    };
    let sources = sources
        .parse()
        .ok()
        .filter(|n| (1..=crate::map::TEST_SOURCES).contains(n))
        .ok_or("the test device has 1 to 32 sources")?;
    Ok(TestDevice { sources, inject })
}

/// One `--disk`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Raw image.
    pub path: PathBuf,
    /// The guest may not write.
    pub read_only: bool,
}

fn parse_memory(text: &str) -> std::result::Result<u64, String> {
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

fn parse_disk(text: &str) -> std::result::Result<Disk, String> {
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
fn parse_tap(text: &str) -> std::result::Result<String, String> {
    if text.is_empty() || text.len() > 15 || text.contains(|c: char| c == '/' || c.is_whitespace())
    {
        return Err("an interface name has 1 to 15 characters, none of them '/' or blank".into());
    }
    Ok(text.into())
}

impl Cli {
    /// The kernel command line: `--append` and the console. With Xtrapless no console device works before its
    /// driver is loaded, so the kernel prints by SBI until then.
    pub fn command_line(&self, trapless: bool) -> String {
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
        if trapless && self.console != Console::None && !names("earlycon") {
            words.push("earlycon=sbi".into());
        }
        if !append.is_empty() {
            words.push(append.into());
        }
        words.join(" ")
    }

    /// Checks that do not fit into one option.
    ///
    /// # Errors
    /// [`Error::User`] with a sentence for the user.
    pub fn check(&self) -> Result<()> {
        let devices = self.disk.len()
            + usize::from(self.tap.is_some())
            + usize::from(self.console == Console::Virtio)
            + 1; // the random number generator
        if devices > crate::map::VIRTIO_SLOTS {
            return Err(Error::user(format!(
                "{devices} virtio devices do not fit into the {} slots; use fewer --disk",
                crate::map::VIRTIO_SLOTS
            )));
        }
        if self.hugepages && self.memory % HUGE_PAGE != 0 {
            return Err(Error::user(format!(
                "--hugepages: {} KiB of guest RAM are no multiple of 2 MiB; use --memory {}M",
                self.memory >> 10,
                self.memory.next_multiple_of(HUGE_PAGE) >> 20
            )));
        }
        let known = |name: &String| {
            crate::kvm::isa::KVM_EXTENSIONS
                .iter()
                .any(|(_, ext)| ext == name)
        };
        if let Some(name) = self.disable_ext.iter().find(|name| !known(name)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> std::result::Result<Cli, clap::Error> {
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
        let check = |memory| parse(&["--hugepages", "--memory", memory]).unwrap().check();
        assert!(check("256M").is_ok());
        for odd in ["33M", "65540K"] {
            let error = check(odd).unwrap_err();
            assert_eq!(error.code(), 2);
            assert!(parse(&["--memory", odd]).unwrap().check().is_ok());
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
            parse(&["--append", "quiet"]).unwrap().command_line(false),
            "console=ttyS0 quiet"
        );
        assert_eq!(
            parse(&["--append", "console=tty0"])
                .unwrap()
                .command_line(false),
            "console=tty0"
        );
        assert_eq!(
            parse(&["--console", "virtio"]).unwrap().command_line(false),
            "console=hvc0"
        );
        assert_eq!(
            parse(&["--console", "none"]).unwrap().command_line(false),
            ""
        );
    }

    #[test]
    fn xtrapless_adds_an_early_console_unless_named() {
        let line = |args: &[&str]| parse(args).unwrap().command_line(true);
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
        let expected = TestDevice {
            sources: 32,
            inject: TestInject::Mixed,
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
        let error = parse(&args).unwrap().check().unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("slots"));
    }

    #[test]
    fn unknown_extensions_are_a_user_error() {
        assert!(
            parse(&["--disable-ext", "sstc,zbb"])
                .unwrap()
                .check()
                .is_ok()
        );
        let error = parse(&["--disable-ext", "sstc,stsc"])
            .unwrap()
            .check()
            .unwrap_err();
        assert!(error.to_string().contains("stsc"));
    }

    #[test]
    fn wrong_values_are_refused() {
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
