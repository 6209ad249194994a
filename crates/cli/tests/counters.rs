//! The hart's own counters, read by a bare-metal program (`programs/counters.S`), against the
//! ledger that `trapless exec --ledger` writes, and against the log of instructions.

use std::path::{Path, PathBuf};
use std::process::Command;

use trapless_ledger::document::{LedgerFile, Section};

/// What the program does; the same figures stand in its source.
const EXITS: u64 = 100;
const OWN_TRAPS: u64 = 7;
const HOST_TRAPS: u64 = 5;
const FIRMWARE: u64 = 11 + 1;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn succeed(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// Assembles the program with event `first` for `mhpmcounter3`, into files of its own.
fn program(name: &str, first: u32) -> PathBuf {
    let (object, file) = (
        scratch(&format!("{name}.o")),
        scratch(&format!("{name}.elf")),
    );
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/counters.S");
    succeed(
        Command::new("riscv64-linux-gnu-as")
            .args([
                "-march=rv64imac_zicsr_h",
                "--defsym",
                &format!("FIRST={first}"),
                "-o",
            ])
            .arg(&object)
            .arg(source),
    );
    succeed(
        Command::new("riscv64-linux-gnu-ld")
            .args(["-N", "-Ttext=0x80000000", "-o"])
            .arg(&file)
            .arg(object),
    );
    file
}

/// What the program read, the ledger, and the lines of the instruction log.
fn run(name: &str, machine: &str, first: u32) -> (Vec<u64>, LedgerFile, Vec<String>) {
    let name = format!("counters-{name}-{machine}-{first}");
    let file = |what: &str| scratch(&format!("{name}.{what}"));
    let (signature, ledger, log) = (file("sig"), file("json"), file("log"));
    succeed(
        Command::new(env!("CARGO_BIN_EXE_trapless"))
            .arg("exec")
            .arg(program(&name, first))
            .args([
                "--machine",
                machine,
                "--signature-granularity",
                "8",
                "--signature",
            ])
            .arg(&signature)
            .arg("--ledger")
            .arg(&ledger)
            .arg("--log")
            .arg(format!("exec:{}", log.display())),
    );
    let read = |path: &Path| std::fs::read_to_string(path).expect("trapless wrote it");
    let text = read(&signature);
    let words = text
        .lines()
        .map(|l| u64::from_str_radix(l, 16).expect("signatures are hexadecimal"));
    let lines = read(&log);
    let ledger = LedgerFile::read(&ledger).expect("it is a ledger");
    (
        words.collect(),
        ledger,
        lines.lines().map(String::from).collect(),
    )
}

fn traps(section: &Section, from: &[&str], to: &str) -> u64 {
    let list = section.traps.iter();
    list.filter(|t| from.contains(&t.from.as_str()) && t.to == to)
        .map(|t| t.count)
        .sum()
}

/// Promise: `mhpmcounter3..6` count traps to M, traps to HS, guest exits, traps to VS and guest
/// entries as the ledger does, and both are what the program did.
#[test]
fn performance_counters_inside_agree_with_the_ledger_outside() {
    for machine in ["sbi", "sstc"] {
        let (first, ledger, _) = run("traps", machine, 1);
        let total = &ledger.total;
        let outside = [
            total.firmware.total,
            traps(total, &["HS", "U"], "HS"),
            total.guest_exits,
            traps(total, &["VS", "VU"], "VS"),
        ];
        assert_eq!(first[..4], outside, "{machine}");
        assert_eq!(
            outside,
            [FIRMWARE, HOST_TRAPS, EXITS, OWN_TRAPS],
            "{machine}"
        );
        assert_eq!(total.exits["sbi_other.base"].exits, EXITS, "{machine}");

        let (second, ledger, _) = run("traps", machine, 5);
        assert_eq!(second[0], ledger.total.guest_entries, "{machine}");
        assert_eq!(
            second[0], EXITS,
            "each exit but the last leads back, and there was a first entry"
        );
    }
}

/// Promise: retired instructions are the same for the program (`minstret`), for the ledger, and in
/// the log of instructions, of which those that trap do not retire.
#[test]
fn retired_instructions_inside_agree_with_ledger_and_log() {
    /// From reading `minstret` to the end: csrr, sd, li, la (two), sd, wfi.
    const TAIL: u64 = 7;
    let (words, ledger, log) = run("instret", "sstc", 1);
    let trapped = EXITS + OWN_TRAPS + HOST_TRAPS + FIRMWARE;
    let ends_in_trap = |l: &&String| l.contains(" ecall") || l.contains(" ebreak");
    assert_eq!(log.iter().filter(ends_in_trap).count() as u64, trapped);
    let instructions = ledger.run.counters["instructions"];
    assert_eq!(instructions, log.len() as u64 - trapped);
    assert_eq!(words[4] + TAIL, instructions);
}
