//! Files with checksums that are right although what they are about is damaged, and images of
//! disks.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use trapless_backends::disk;
use trapless_ledger::Ledger;
use trapless_machine::Limits;
use trapless_machine::preset::Size;
use trapless_run::spec::{Firmware, Kernel, MachineOptions};
use trapless_run::{BootSpec, ObserveOptions, Session, Spec, Trapless};

use super::synthetic::Player;
use super::{FOREVER, Kind, elf_of, mutate, numbers, scratch};

/// Bytes of a disk's image that grow with it.
const OVERLAY: u64 = 1 << 20;
/// Blocks of a checkpoint after its header: state, what the command saves, list of pages.
const PARTS: usize = 3;
/// Where a checkpoint says how long its header is: after magic and format.
const HEADER: usize = 16 + 4;

fn word(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Replaces `file[at..]`, a length of `width` bytes, so many bytes and their checksum, by one with
/// changed bytes.
fn change_block(
    file: &mut Vec<u8>,
    (at, width): (usize, usize),
    change: impl FnOnce(&mut Vec<u8>),
) {
    let (start, len) = (at + width, word(file, at));
    let mut bytes = file[start..start + len].to_vec();
    change(&mut bytes);
    let mut block = (bytes.len() as u64).to_le_bytes()[..width].to_vec();
    block.extend(&bytes);
    block.extend(crc32fast::hash(&bytes).to_le_bytes());
    file.splice(at..start + len + 4, block);
}

/// The header and the parts of a checkpoint: where each is, and how wide its length.
fn blocks(file: &[u8]) -> Vec<(usize, usize)> {
    let mut blocks = vec![(HEADER, 4)];
    let mut at = HEADER + 4 + word(file, HEADER) + 4;
    for _ in 0..PARTS {
        blocks.push((at, 8));
        at += 8 + word(file, at) + 4;
    }
    blocks
}

fn damage_checkpoint(file: &mut Vec<u8>, random: &mut SplitMix64) {
    let blocks = blocks(file);
    let chosen = random.next_u64() as usize % blocks.len();
    let by_number = chosen != 0 && random.next_u64().is_multiple_of(2);
    let damage = if by_number { numbers::damage } else { mutate };
    change_block(file, blocks[chosen], |bytes| damage(bytes, random));
}

/// Lets the ledger of a checkpoint have counted a guest with two vCPUs as well.
fn count_guests(file: &mut Vec<u8>) {
    let saved = blocks(file)[2];
    change_block(file, saved, |bytes| {
        let taken = postcard::take_from_bytes::<Vec<u8>>(bytes);
        let (ledger, rest) = taken.expect("the ledger is the first that the command saves");
        let ledger = postcard::from_bytes::<Ledger>(&ledger).expect("a ledger");
        let mut player = Player::new(ledger);
        player.boot();
        player.sink.mark("workload", player.time);
        (0..20).for_each(|_| player.wake_up(false));
        let ledger = postcard::to_stdvec(&player.sink).expect("a vector takes everything");
        let ledger = postcard::to_stdvec(&ledger).expect("a vector takes everything");
        *bytes = [&ledger, rest].concat();
    });
}

/// Where the frames of a record begin: length, checksum, bytes.
fn frames(file: &[u8]) -> Vec<usize> {
    let mut at = b"trapless record\n".len() + 4;
    let mut frames = Vec::new();
    while at + 8 <= file.len() {
        frames.push(at);
        at += 8 + word(file, at);
    }
    frames
}

fn damage_record(file: &mut Vec<u8>, random: &mut SplitMix64) {
    let frames = frames(file);
    // The header is compared whole: few changes of it are of interest.
    let first = usize::from(random.next_u64() % 16 != 0);
    let at = frames[first + random.next_u64() as usize % (frames.len() - first)];
    let (start, len) = (at + 8, word(file, at));
    let mut bytes = file[start..start + len].to_vec();
    mutate(&mut bytes, random);
    let mut frame = (bytes.len() as u32).to_le_bytes().to_vec();
    frame.extend(crc32fast::hash(&bytes).to_le_bytes());
    frame.extend(&bytes);
    file.splice(at..start + len, frame);
}

/// Counts down for some milliseconds of virtual time, and powers off.
const COUNT: [u32; 3] = [
    0x0040_03b7, // lui t2, 0x400
    0xfff3_8393, // addi t2, t2, -1
    0xfe03_9ee3, // bnez t2, -4
];

/// Takes a trap and reads registers of the hart, for ever.
const TRAP: [u32; 9] = [
    0x0000_0297, // auipc t0, 0
    0x0182_8293, // addi t0, t0, 24
    0x3052_9073, // csrw mtvec, t0
    0xfff3_8393, // addi t2, t2, -1
    0x0002_a303, // lw t1, 0(t0)
    0x0000_0073, // ecall, which goes on behind it
    0xb030_2373, // csrr t1, mhpmcounter3
    0x3440_2373, // csrr t1, mip
    0xfe02_96e3, // bnez t0, -20
];

fn program(name: &str, begin: &[u32]) -> PathBuf {
    let end: [u32; 5] = [
        0x0010_02b7, // lui t0, 0x100
        0x0000_5337, // lui t1, 5
        0x5553_0313, // addi t1, t1, 0x555
        0x0062_a023, // sw t1, 0(t0)
        u32::from_le_bytes(FOREVER),
    ];
    let words = begin.iter().chain(&end);
    let code: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    let path = scratch(name);
    fs::write(&path, elf_of(&code)).expect("scratch is writable");
    path
}

fn checkpoint(program: &Path) -> Vec<u8> {
    let spec = Spec::Boot(Box::new(BootSpec {
        machine: "trapless".into(),
        firmware: Some(Firmware::None),
        kernel: Some(Kernel::File(program.into())),
        options: MachineOptions {
            ram: Some(Size(8 << 20)),
            ..MachineOptions::default()
        },
        ..BootSpec::default()
    }));
    let console = Box::new(std::io::sink());
    let session = Trapless::new().start(&spec, &ObserveOptions::default(), console);
    let mut session = session.expect("it boots");
    run(&mut session).expect("it runs");
    let path = scratch("mutated-sound.checkpoint");
    session.save(&path).expect("it is saved");
    let mut file = fs::read(path).expect("it is there");
    count_guests(&mut file);
    file
}

fn run(session: &mut Session) -> Result<(), String> {
    let limits = Limits {
        until: session.machine().now() + 20_000,
        ..Limits::default()
    };
    let ran = session.run(&limits, &mut |_| Ok(true));
    ran.map(drop).map_err(|e| format!("{e:#}"))
}

fn resume(file: &[u8]) -> Result<(), String> {
    let path = scratch("mutated.checkpoint");
    fs::write(&path, file).expect("scratch is writable");
    let session = Trapless::new().resume(&path, Box::new(std::io::sink()));
    let mut session = session.map_err(|e| format!("{e:#}"))?;
    run(&mut session)?;
    session.ledger().map(drop).map_err(|e| format!("{e:#}"))
}

/// The command that records or replays.
fn session(program: &Path, option: &str, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapless"));
    let folder = scratch("mutated-share");
    fs::create_dir_all(&folder).expect("scratch is writable");
    command.args([
        "boot",
        "--firmware=none",
        "--ram=8M",
        "--net=user",
        "--kernel",
    ]);
    command
        .arg(program)
        .arg("--share")
        .arg(folder)
        .arg(option)
        .arg(file);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn record(program: &Path) -> Vec<u8> {
    let path = scratch("mutated-sound.record");
    let mut command = session(program, "--record", &path);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"typed\n").expect("it reads");
    drop(stdin);
    let ended = child.wait_with_output().expect("it ends");
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    fs::read(path).expect("it is there")
}

fn replay(program: &Path, file: &[u8]) -> Result<(), String> {
    let path = scratch("mutated.record");
    fs::write(&path, file).expect("scratch is writable");
    let mut command = session(program, "--replay", &path);
    let ended = command.stdin(Stdio::null()).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    match ended.status.code() {
        Some(0) => Ok(()),
        Some(1 | 2) => Err(stderr),
        _ => panic!("{}: {stderr}", ended.status),
    }
}

/// An image with clusters of 512 bytes (QEMU, docs/interop/qcow2) that has data: header, refcount
/// table and block, L1 and L2 table, and a cluster of the guest's.
fn qcow2(version: u32) -> Vec<u8> {
    const CLUSTER: usize = 512;
    let mut bytes = vec![0; 6 * CLUSTER];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let in_use = |cluster: usize| (1 << 63 | (cluster * CLUSTER) as u64).to_be_bytes();
    put(0, b"QFI\xfb");
    put(4, &version.to_be_bytes());
    put(20, &9_u32.to_be_bytes());
    put(24, &(64_u64 << 10).to_be_bytes());
    put(36, &2_u32.to_be_bytes());
    put(40, &(3 * CLUSTER as u64).to_be_bytes());
    put(48, &(CLUSTER as u64).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    if version > 2 {
        put(96, &4_u32.to_be_bytes());
        put(100, &104_u32.to_be_bytes());
    }
    put(CLUSTER, &(2 * CLUSTER as u64).to_be_bytes());
    for cluster in 0..6 {
        put(2 * CLUSTER + 2 * cluster, &1_u16.to_be_bytes());
    }
    put(3 * CLUSTER, &in_use(4));
    put(4 * CLUSTER, &in_use(5));
    put(5 * CLUSTER, &[0x55; CLUSTER]);
    bytes
}

/// Opens the image for reading and for writing, and does with it what guests do; what an image that
/// is damaged answers is a matter of its own.
fn use_image(file: &[u8]) -> Result<(), String> {
    let path = scratch("mutated.qcow2");
    let report: trapless_backends::Report = Arc::new(|_: &str| {});
    let mut opened = Vec::new();
    for access in ["", ",rw"] {
        fs::write(&path, file).expect("scratch is writable");
        let image = format!("{}{access}", path.display()).parse()?;
        let disk = disk::open(&image, OVERLAY, &report);
        opened.push(disk.map_err(|e| e.to_string()).map(|mut disk| {
            let mut data = [7; 4096];
            for round in 0..40_u64 {
                let at = (round * 7 % 16) * 4096;
                let _ = disk.read(at, &mut data);
                let _ = disk.write(at, &data);
                if round % 5 == 0 {
                    let _ = disk.write_zeroes(at, 8192);
                }
                if round % 8 == 0 {
                    let _ = disk.flush();
                }
            }
        }));
    }
    opened.into_iter().collect()
}

pub fn kinds() -> Vec<Kind> {
    let sound = checkpoint(&program("mutated-trap.elf", &TRAP));
    let program = program("mutated-program.elf", &COUNT);
    let recorded = record(&program);
    vec![
        Kind {
            mutate: damage_checkpoint,
            slow: 10,
            ..Kind::new("resumed checkpoint", vec![sound], resume)
        },
        Kind {
            mutate: damage_record,
            slow: 10,
            ..Kind::new("record", vec![recorded], move |file| replay(&program, file))
        },
        Kind {
            slow: 5,
            ..Kind::new("qcow2", vec![qcow2(2), qcow2(3)], use_image)
        },
    ]
}
