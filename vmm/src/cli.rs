//! Command line.

use crate::guest::config::Config;
use crate::terminal::EscapeKey;
use clap::Parser;
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
  trapless-vmm --kernel Image --initrd initrd.img --irqchip aia --vfio 0000:00:01.0

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

    /// The guest.
    #[command(flatten)]
    pub config: Config,

    /// Exit instead of restarting when the guest reboots
    #[arg(long)]
    pub no_reboot: bool,

    /// On a terminal, the key that with Ctrl precedes commands
    #[arg(long, value_name = "LETTER", default_value = "a")]
    pub escape_key: EscapeKey,

    /// Listen for commands (pause, resume, status, save FILE, stats, move, moved, quit; one a line)
    /// at this Unix socket
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,

    /// Send this command to the VMM at --control, print its answer and end
    #[arg(long, value_name = "COMMAND", requires = "control")]
    pub send: Option<String>,

    /// Continue a saved guest, with the options it was saved with; disks must not have changed
    /// since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["initrd", "dtb"])]
    pub restore: Option<PathBuf>,

    /// Write the numbers of exits to user space, per vCPU and reason, as JSON
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::test_device::wires::Sources;
    use crate::devices::vfio::device::Chosen;
    use crate::devices::virtio::slots::Disk;
    use crate::irqchip::options::Injection;

    fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(["trapless-vmm", "--kernel", "Image"].iter().chain(args))
    }

    #[test]
    fn memory_sizes_have_suffixes_and_limits() {
        assert_eq!(parse(&["--memory", "2G"]).unwrap().config.memory, 2 << 30);
        assert_eq!(
            parse(&["--memory", "256"]).unwrap().config.memory,
            256 << 20
        );
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
        assert!(!parse(&[]).unwrap().config.hugepages);
        let check = |memory| {
            parse(&["--hugepages", "--memory", memory])
                .unwrap()
                .config
                .check()
        };
        assert!(check("256M").is_ok());
        for odd in ["33M", "65540K"] {
            let error = check(odd).unwrap_err();
            assert_eq!(error.code(), 2);
            assert!(parse(&["--memory", odd]).unwrap().config.check().is_ok());
        }
        let text = check("65540K").unwrap_err().to_string();
        assert!(text.contains("--memory 66M"), "{text}");
    }

    #[test]
    fn disk_suffix_selects_read_only() {
        let cli = parse(&["--disk", "a,b.img,ro", "--disk", "c.img"]).unwrap();
        assert_eq!(
            cli.config.disks[0],
            Disk {
                path: "a,b.img".into(),
                read_only: true
            }
        );
        assert_eq!(
            cli.config.disks[1],
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
                .config
                .command_line(false),
            "console=ttyS0 quiet"
        );
        assert_eq!(
            parse(&["--append", "console=tty0"])
                .unwrap()
                .config
                .command_line(false),
            "console=tty0"
        );
        assert_eq!(
            parse(&["--console", "virtio"])
                .unwrap()
                .config
                .command_line(false),
            "console=hvc0"
        );
        assert_eq!(
            parse(&["--console", "none"])
                .unwrap()
                .config
                .command_line(false),
            ""
        );
    }

    #[test]
    fn xtrapless_adds_an_early_console_unless_named() {
        let line = |args: &[&str]| parse(args).unwrap().config.command_line(true);
        assert_eq!(
            line(&["--append", "quiet"]),
            "console=ttyS0 earlycon=sbi quiet"
        );
        assert_eq!(line(&["--append", "earlycon"]), "console=ttyS0 earlycon");
        assert_eq!(line(&["--console", "none"]), "");
    }

    #[test]
    fn test_device_has_a_number_of_sources_and_a_way() {
        let parsed = |text| parse(&["--test-device", text]).map(|cli| cli.config.test_device);
        let expected = Sources {
            number: 32,
            inject: &Injection::ALL,
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
        let error = parse(&args).unwrap().config.check().unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("slots"));
    }

    #[test]
    fn passed_devices_have_addresses_names_or_folders() {
        let paths = |text| parse(&["--vfio", text]).map(|cli| cli.config.vfio);
        let mut expected = [Chosen {
            path: "/sys/bus/pci/devices/0000:00:0a.0".into(),
            relay: false,
        }];
        for text in [
            "0000:00:0A.0",
            "00:0a.0",
            "/sys/bus/pci/devices/0000:00:0a.0/",
        ] {
            assert_eq!(paths(text).unwrap(), expected);
        }
        expected[0].relay = true;
        assert_eq!(paths("00:0a.0,relay").unwrap(), expected);
        let port = "/sys/bus/platform/devices/10009000.virtio_mmio";
        expected[0].path = port.into();
        assert_eq!(paths("10009000.virtio_mmio,relay").unwrap(), expected);
        let folder = format!("{port}/,relay");
        assert_eq!(paths(&folder).unwrap(), expected);
        for bad in [
            "00:0a.0,direct",
            "",
            "0a.0",
            "00:0a:0",
            "0000.00.0a:0",
            "00:0g.0",
            "00:0a.0.",
            "1.0",
            "10009000.a.b",
            "x.virtio_mmio",
            "pci",
        ] {
            assert!(paths(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn a_guest_with_a_passed_device_is_not_saved() {
        let args = ["--vfio", "00:01.0", "--save", "x"];
        let error = parse(&args).unwrap().config.check().unwrap_err();
        assert!(
            error.to_string().contains("--vfio cannot be saved"),
            "{error}"
        );
        assert!(parse(&args[..2]).unwrap().config.check().is_ok());
    }

    #[test]
    fn unknown_extensions_are_a_user_error() {
        assert!(
            parse(&["--disable-ext", "sstc,zbb"])
                .unwrap()
                .config
                .check()
                .is_ok()
        );
        let error = parse(&["--disable-ext", "sstc,stsc"])
            .unwrap()
            .config
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
