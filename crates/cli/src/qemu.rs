//! What options of QEMU are called here, for those who type them out of habit.

/// Options of `qemu-system-riscv64`, and what does the same here.
const OPTIONS: &[(&str, &str)] = &[
    ("-append", "--append TEXT"),
    ("-bios", "--firmware FILE"),
    ("-cpu", "--isa LIST"),
    ("-drive", "--disk FILE"),
    ("-dtb", "--dtb FILE"),
    ("-gdb", "--gdb :PORT"),
    ("-hda", "--disk FILE"),
    ("-initrd", "--initrd FILE"),
    ("-kernel", "--kernel FILE"),
    ("-M", "--machine NAME"),
    ("-machine", "--machine NAME"),
    (
        "-nographic",
        "nothing: the console is always on the terminal",
    ),
    ("-no-reboot", "--on-panic exit"),
    ("-s", "--gdb :1234"),
    ("-serial", "--console DEVICE"),
    ("-smp", "--harts N"),
];

/// A sentence about the first of `arguments` that QEMU takes and this command does not.
pub fn hint(arguments: impl Iterator<Item = String>) -> Option<String> {
    arguments.take_while(|word| word != "--").find_map(|word| {
        let found = OPTIONS.iter().find(|(name, _)| *name == word)?;
        Some(format!("{} is an option of QEMU; use {}", found.0, found.1))
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
        assert_eq!(hint("boot --harts 4"), None);
        assert_eq!(hint("boot -- -smp"), None);
    }
}
