//! Wrong options and broken files: a sentence that says what is wrong, exit status 2, and never a
//! panic, with and without `RUST_BACKTRACE`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a mistake may take to be told, on a busy computer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes a file that a case names as `@NAME`.
fn file(name: &str, bytes: &[u8]) {
    std::fs::write(folder().join(name), bytes).expect("the scratch folder can be written");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors")
}

/// A Linux Image (`Documentation/arch/riscv/boot-image-header.rst`) that says it needs `size`
/// bytes.
fn image(size: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(64)];
    // jal x0, 0
    bytes[..4].copy_from_slice(&0x6Fu32.to_le_bytes());
    bytes[8..16].copy_from_slice(&0x20_0000u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&size.to_le_bytes());
    bytes[32..36].copy_from_slice(&2u32.to_le_bytes());
    bytes[48..56].copy_from_slice(b"RISCV\0\0\0");
    bytes[56..60].copy_from_slice(b"RSC\x05");
    bytes.truncate(len);
    bytes
}

/// An ELF header for `machine` with one program header at `phoff` that loads `size` bytes.
fn elf(machine: u16, phoff: u64, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 120];
    bytes[..7].copy_from_slice(b"\x7FELF\x02\x01\x01");
    bytes[16..18].copy_from_slice(&2u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[20] = 1;
    bytes[24..32].copy_from_slice(&0x8000_0000u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&phoff.to_le_bytes());
    bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    bytes[64] = 1;
    bytes[80..88].copy_from_slice(&0x8000_0000u64.to_le_bytes());
    bytes[88..96].copy_from_slice(&0x8000_0000u64.to_le_bytes());
    bytes[96..104].copy_from_slice(&size.to_le_bytes());
    bytes[104..112].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn files() {
    std::fs::create_dir_all(folder().join("folder")).expect("the scratch folder can be made");
    let noise: Vec<u8> = (0u32..4096)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    file("empty", b"");
    file("noise", &noise);
    file("sparse", b"");
    let sparse = std::fs::File::options()
        .write(true)
        .open(folder().join("sparse"));
    sparse
        .and_then(|file| file.set_len(1 << 40))
        .expect("it may have holes");
    file("text", b"hello\n");
    file("kernel", &image(4096, 4096));
    file("huge-kernel", &image(u64::MAX, 4096));
    file("header", &image(4096, 40));
    file("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03garbage");
    file("cut-elf", &elf(243, 64, 16)[..80]);
    file("x86-elf", &elf(62, 64, 16));
    file("elf-beyond", &elf(243, 64, 1 << 40));
    file("elf-headers", &elf(243, u64::MAX - 8, 16));
    file("firmware", &0x6Fu32.to_le_bytes());
    // A device tree's magic number, a length, and nothing that fits it.
    file(
        "cut-dtb",
        &[0xD0, 0x0D, 0xFE, 0xED, 0, 0, 0x10, 0, 0, 0, 0, 0x38],
    );
    file("cut.json", b"{\"schema\":");
    file("other.json", b"{\"schema\":\"something/9\"}\n");
    file(
        "shape.json",
        b"{\"schema\":\"trapless-ledger/1\",\"total\":7}\n",
    );
}

/// Options (words between spaces; `@NAME` is a file), and what the sentence must say.
const CASES: &[(&str, &str)] = &[
    // Programs.
    ("exec @missing", "cannot read the program"),
    ("exec @folder", "cannot read the program"),
    ("exec @empty", "not an ELF file"),
    ("exec @noise", "not an ELF file"),
    ("exec @cut-elf", "ELF"),
    ("exec @x86-elf", "another processor than RISC-V"),
    ("exec @elf-beyond", ""),
    ("exec @elf-headers", ""),
    (
        "exec @x86-elf --signature-granularity 3",
        "[possible values: 4, 8, 16]",
    ),
    ("exec @noise --profile=/", "is a folder"),
    ("exec @noise --ledger /dev/null/x", "cannot make the folder"),
    ("exec @noise --gdb nonsense", "cannot listen for gdb"),
    ("exec /dev/zero", "more than 1 GiB"),
    (
        "run --machine sstc --workload boot --engine both --profile",
        "observe one machine",
    ),
    ("exec @noise --code-cache many", "is not a size"),
    // Kernels and what goes with them.
    (
        "boot --firmware @firmware --kernel @missing",
        "cannot read the kernel",
    ),
    (
        "boot --firmware @firmware --kernel @empty",
        "the file is empty",
    ),
    (
        "boot --firmware @firmware --kernel @sparse",
        "bytes, more than fit",
    ),
    (
        "boot --firmware @firmware --kernel @noise",
        "neither a RISC-V Linux Image",
    ),
    (
        "boot --firmware none --kernel none",
        "there is nothing to boot",
    ),
    ("boot --firmware @firmware --kernel @header", "kernel"),
    ("boot --firmware @firmware --kernel @huge-kernel", "kernel"),
    ("boot --firmware @firmware --kernel @gzip", "gzip"),
    ("boot --firmware @firmware --kernel @cut-elf", "ELF"),
    (
        "boot --firmware @firmware --kernel @x86-elf",
        "another processor than RISC-V",
    ),
    ("boot --firmware @firmware --kernel @elf-beyond", ""),
    ("boot --firmware @firmware --kernel @elf-headers", ""),
    (
        "boot --firmware @missing --kernel @kernel",
        "cannot read the firmware",
    ),
    ("boot --firmware @empty --kernel @kernel", "empty"),
    (
        "boot --firmware @x86-elf --kernel @kernel",
        "another processor than RISC-V",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --initrd @missing",
        "cannot read the initrd",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --dtb @missing",
        "cannot read the device tree",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --dtb @empty",
        "device tree",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --dtb @noise",
        "not a flattened device tree",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --dtb @cut-dtb",
        "damaged or truncated",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --disk @missing",
        "disk image",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --disk @folder",
        "is a directory",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --disk @empty",
        "less than one sector",
    ),
    (
        "boot --firmware /dev/zero --kernel @kernel",
        "more than 1 GiB",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --disk /dev/zero",
        "neither a file nor a block device",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --share @missing",
        "give a folder that exists",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --share @folder --engine both",
        "does not go with --engine both",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --copy @kernel",
        "needs an initial RAM file system",
    ),
    (
        "boot --firmware @firmware --kernel @kernel --replay @kernel",
        "is not a record of a run",
    ),
    ("boot --net tap", "tap is unknown"),
    // What is wrong is found before images are made.
    ("boot --trace /proc/none/x", "cannot make the folder"),
    (
        "run --machine sstc --workload timer --ledger /proc/x.json",
        "cannot write",
    ),
    (
        "run --machine sstc --workload timer --gdb :99999",
        "cannot listen for gdb",
    ),
    (
        "run --machine sstc --workload timer --gdb :0 --at soon",
        "write the time and hart of a line of --log trap",
    ),
    ("boot --at 1s", "--gdb"),
    (
        "compare --machines sbi,sstc --workload timer --out /proc/x",
        "cannot write",
    ),
    // Several seeds.
    (
        "run --machine sstc --workload timer --seeds 3 --trace x",
        "--trace observes one run, and --seeds 3 makes 3",
    ),
    (
        "run --machine sstc --workload timer --seeds 2 --profile",
        "--profile observes one run",
    ),
    (
        "run --machine sstc --workload timer --seeds 2 --ledger x.json",
        "name a folder",
    ),
    (
        "run --machine sstc --workload timer --seeds 2 --ledger @text",
        "name a folder",
    ),
    (
        "run --machine sstc --workload timer --seeds 2 --seed 18446744073709551615",
        "is not followed by 1 more seeds",
    ),
    ("run --machine sstc --workload timer --seeds 0", "--seeds"),
    (
        "compare --machines sbi,sstc --workload timer --log trap:x",
        "unexpected argument",
    ),
    // Habits from QEMU.
    ("boot -m 4G", "use --ram 4G"),
    ("boot -smp 4", "use --harts N"),
    ("boot -kernel @kernel -append x", "use --kernel FILE"),
    // Machines.
    ("boot --machine nope", "use one of: aia, full, haiov, sbi"),
    ("boot --harts 0", "1 to 64 harts"),
    ("boot --harts 65", "1 to 64 harts"),
    ("boot --harts x", "invalid value 'x'"),
    ("boot --ram 1", "multiple of 4 KiB"),
    ("boot --ram 65G", "64G"),
    ("boot --ram 99999999999999999999G", "is not a size"),
    ("boot --ram -1", ""),
    ("boot --isa +nope", "no extension"),
    ("boot --quantum 0", "quantum"),
    ("boot --cost @missing", "cannot read"),
    ("boot --cost @noise", "cannot read"),
    ("boot --cost @text", "cost model"),
    ("boot --log nope:x", "no log called"),
    ("boot --log trap", "names no log file"),
    ("boot --diagram ipi", "names no file"),
    ("boot --diagram ipi.asleep=x", "names no interrupt"),
    ("boot --ledger @folder", "is a folder"),
    ("machines nope", "use one of: aia, full, haiov, sbi"),
    // Workloads.
    (
        "run --machine sstc --workload nope",
        "known: applications, blk, boot, cable, ",
    ),
    (
        "run --machine nope --workload timer",
        "use one of: aia, full, haiov, sbi",
    ),
    ("run --machine sstc", "--workload"),
    (
        "run --machine sstc --workload timer --set nope=1",
        "no parameter named `nope`",
    ),
    (
        "run --machine sstc --workload timer --set aia.guests=3",
        "aia.guests belongs to the machine aia",
    ),
    (
        "run --machine aia --workload timer --set aia.guests=64",
        "a number from 0 to 63",
    ),
    (
        "boot --machine aia --set aia.files=3",
        "use iommu, windows, aia.guests or aia.delivery",
    ),
    (
        "run --machine sstc --workload timer --set wakeups=0",
        "out of range",
    ),
    (
        "run --machine sstc --workload timer --set wakeups",
        "NAME=NUMBER",
    ),
    (
        "run --machine sstc --workload timer --set wakeups=99999999999999999999",
        "NAME=NUMBER",
    ),
    (
        "run --machine sstc --workload timer --vmm xen",
        "trapless, qemu",
    ),
    (
        "run --machine sstc --workload timer --guest-harts 0",
        "--guest-harts",
    ),
    (
        "run --machine sstc --workload timer --host-harts 0",
        "1 to 64 harts",
    ),
    (
        "run --machine sstc --workload timer --isa -h",
        "hypervisor extension",
    ),
    (
        "run --machine sstc --workload timer --ledger @folder",
        "is a folder",
    ),
    (
        "run --machine sstc --workload timer --log nope:x",
        "no log called",
    ),
    (
        "compare --machines sbi,nope --workload timer",
        "use one of: aia, full, haiov, sbi",
    ),
    ("compare --machines sbi", "--workload"),
    ("workloads nope", "known: applications, blk, boot, cable, "),
    (
        "workloads ./nope.toml",
        "cannot read the workload ./nope.toml",
    ),
    // Images and reports.
    ("images nope", "no image named `nope`"),
    ("report @missing", "cannot read the ledger"),
    ("report @noise", "cannot read the ledger"),
    ("report @cut.json", "is not a ledger"),
    ("report @other.json", "its schema is"),
    ("report @shape.json", "is not a ledger"),
    // Checkpoints.
    ("resume @missing", "cannot read the checkpoint"),
    ("resume @noise", "this is not a checkpoint"),
    ("resume @empty --show", "this is not a checkpoint"),
    (
        "run --machine sstc --workload boot --checkpoint soon=x",
        "is not SECONDS=FILE",
    ),
    (
        "run --machine sstc --workload boot --checkpoint 1=x --seeds 2",
        "saves one run",
    ),
    (
        "run --machine sstc --workload boot --checkpoint 1=x --engine both",
        "saves one machine",
    ),
    (
        "run --machine sstc --workload boot --checkpoint 1=/",
        "is a folder",
    ),
    ("report", "required"),
    ("nope", "unrecognized subcommand"),
];

fn run(options: &str, backtrace: Option<&str>) -> Output {
    let words = options.split(' ').map(|word| match word.strip_prefix('@') {
        Some(name) => folder().join(name).into_os_string(),
        None => word.into(),
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    command
        .args(words)
        .stdin(Stdio::null())
        .env_remove("RUST_BACKTRACE");
    if let Some(value) = backtrace {
        command.env("RUST_BACKTRACE", value);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    // A mistake that is not noticed runs a machine for ever.
    let started = Instant::now();
    while started.elapsed() < PATIENCE && child.try_wait().is_ok_and(|status| status.is_none()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // An error says that it has ended already.
    let _ = child.kill();
    child.wait_with_output().expect("the command ends")
}

/// Promise: a user's mistake is a sentence and exit status 2, at once, and no backtrace.
#[test]
fn mistakes_are_reported_in_a_sentence_with_status_2() {
    files();
    let mut wrong = Vec::new();
    for (options, says) in CASES {
        for backtrace in [None, Some("1")] {
            let output = run(options, backtrace);
            let text = String::from_utf8_lossy(&output.stderr);
            // The parser of options adds a hint on lines of its own.
            let by_parser = text.starts_with("error: ");
            let one_sentence = text.starts_with("trapless: ") && text.lines().count() == 1;
            let good = output.status.code() == Some(2)
                && (by_parser || one_sentence)
                && text.contains(says)
                && output.stdout.is_empty()
                && !text.contains("panicked")
                && !text.contains("stack backtrace");
            if !good {
                wrong.push(format!("trapless {options}\n  {}\n  {text}", output.status));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        2 * CASES.len(),
        wrong.join("\n")
    );
}

/// Promise: machines and workloads of a `trapless.toml` in the current folder, or in the user's
/// configuration, can be named, and a mistake in it is reported with its place.
#[test]
fn machines_of_files_can_be_named() {
    let here = folder().join("own");
    let users = here.join("config");
    std::fs::create_dir_all(users.join("trapless")).expect("the scratch folder can be made");
    let write = |path: &Path, text: &str| {
        std::fs::write(path.join("trapless.toml"), text)
            .expect("the scratch folder can be written");
    };
    let command = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
        command
            .args(words)
            .current_dir(&here)
            .env("XDG_CONFIG_HOME", &users);
        command.output().expect("the command starts")
    };
    write(
        &users.join("trapless"),
        "[machines.mine]\nbase = \"sstc\"\nquantum = 500\n",
    );
    write(
        &here,
        "[machines.ours]\nbase = \"mine\"\nextensions = { svadu = true }\n",
    );
    let output = command(&["machines", "ours", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let ours: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(ours["machine"], "ours");
    assert_eq!(ours["quantum"], 500);
    assert_eq!(ours["hart"]["extensions"]["svadu"], true);
    write(&here, "[workloads.mine]\nbase = \"ipi\"\n");
    let output = command(&["workloads"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("  mine "), "{text}");
    write(&here, "[workloads.mine]\nbase = \"ipo\"\n");
    let output = command(&["run", "--machine", "sstc", "--workload", "ipi"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text.contains("trapless.toml: line 2, column 1: base"),
        "{text}"
    );
    let mut many = "[workloads.mine]\nbase = \"ipi\"\n".to_owned();
    for letter in 'a'..='z' {
        many += &format!("[workloads.mine.parameters.a_parameter_with_a_long_name_{letter}]\n");
        many += "default = 1\nmaximum = 9\nexplanation = \"e\"\n";
    }
    write(&here, &many);
    let output = command(&["run", "--machine", "sstc", "--workload", "mine"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("give it fewer parameters"), "{text}");
    write(&here, "[machines.ours]\nbase = \"sstc\"\nquantm = 500\n");
    let output = command(&["exec", "--machine", "sstc", "x"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text.contains("trapless.toml") && text.contains("line 3, column 1"),
        "{text}"
    );
}

/// Promise: a kernel cut off in its header is refused (further cuts: `system/broken.rs`).
#[test]
fn kernels_cut_in_their_header_are_refused() {
    std::fs::create_dir_all(folder()).expect("the scratch folder can be made");
    let whole = image(4096, 4096);
    for len in [1, 2, 47, 48, 55, 56, 59] {
        let name = format!("cut-at-{len}");
        file(&name, &whole[..len]);
        let output = run(&format!("boot --firmware none --kernel @{name}"), Some("1"));
        assert_eq!(output.status.code(), Some(2), "cut at {len}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.starts_with("trapless: ") && !text.contains("panicked"),
            "{text}"
        );
    }
}
