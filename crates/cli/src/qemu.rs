//! Hints for users who type options of QEMU.

/// Options of `qemu-system-riscv64`, and their equivalents.
const OPTIONS: &[(&str, &str)] = &[
    ("-M", "use --machine NAME"),
    ("-S", "use --gdb :PORT, which waits for gdb"),
    ("-accel", "use --engine ENGINE"),
    ("-append", "use --append TEXT"),
    ("-bios", "use --firmware FILE"),
    ("-cdrom", "use --disk FILE,ro"),
    ("-cpu", "use --isa LIST"),
    ("-d", "use --log WHAT:FILE"),
    ("-device", DEVICES),
    ("-display", CONSOLE),
    ("-drive", "use --disk FILE"),
    ("-dtb", "use --dtb FILE"),
    ("-fsdev", "use --share FOLDER"),
    ("-gdb", "use --gdb :PORT"),
    ("-hda", "use --disk FILE"),
    ("-icount", "leave it out: time is always virtual"),
    ("-incoming", "use trapless resume FILE"),
    ("-initrd", "use --initrd FILE"),
    ("-kernel", "use --kernel FILE"),
    ("-loadvm", "use trapless resume FILE"),
    ("-machine", "use --machine NAME"),
    ("-monitor", "use --gdb :PORT, and `monitor help` in gdb"),
    ("-net", NETWORK),
    ("-netdev", NETWORK),
    ("-nic", NETWORK),
    ("-no-reboot", "use --on-panic exit"),
    ("-nographic", CONSOLE),
    ("-object", DEVICES),
    ("-rtc", "use --rtc now or --rtc DATE"),
    ("-s", "use --gdb :1234"),
    ("-serial", "use --console DEVICE"),
    ("-smp", "use --harts N"),
    (
        "-snapshot",
        "leave it out: without ,rw a disk stays as it was",
    ),
    ("-vga", CONSOLE),
    ("-virtfs", "use --share FOLDER"),
];

const CONSOLE: &str = "leave it out: the console is always on the terminal";
const DEVICES: &str = "leave it out: --disk, --share and --net bring their devices, and a source of \
                       entropy is always there";
const NETWORK: &str = "use --net user[,hostfwd=tcp::PORT-:PORT], or --net none";

/// A hint about the first of `arguments` that is an option of QEMU and not of this command.
pub fn hint(arguments: impl Iterator<Item = String>) -> Option<String> {
    arguments.take_while(|word| word != "--").find_map(|word| {
        let found = OPTIONS.iter().find(|(name, _)| *name == word)?;
        Some(format!("{} is an option of QEMU; {}", found.0, found.1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_qemu_are_answered_with_ours() {
        let hint = |line: &str| hint(line.split(' ').map(str::to_owned));
        assert_eq!(
            hint("boot -smp 4").as_deref(),
            Some("-smp is an option of QEMU; use --harts N")
        );
        for option in [
            "-nic user",
            "-netdev user,id=n",
            "-device x",
            "-snapshot",
            "-rtc base=utc",
        ] {
            let answer = hint(&format!("boot {option}")).expect(option);
            assert!(
                answer.contains("; use --") || answer.contains("; leave it out: "),
                "{answer}"
            );
        }
        assert_eq!(hint("boot --harts 4"), None);
        assert_eq!(hint("boot -- -smp"), None);
    }
}
