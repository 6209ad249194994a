//! Promise: a damaged file is refused with a sentence or used as it is, whatever kind it is: no
//! panic, no hang, no more than 512 MiB of memory.
//!
//! Of files with checksums these are also made right again, so that what is behind them is reached;
//! packets of debuggers are damaged as well. `TRAPLESS_MUTATIONS=N` changes the number of inputs of
//! each kind.

mod debugger;
#[path = "../../../ledger/tests/numbers/mod.rs"]
mod numbers;
mod sealed;
#[path = "../../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use trapless_devices::virtio::block::{Block, Overlay, RawDisk};
use trapless_experiments::Experiment;
use trapless_ledger::document::LedgerFile;
use trapless_machine::checkpoint::About;
use trapless_machine::cost::CostTable;
use trapless_machine::{Content, Limits, Machine, MachineConfig, Payload, Peripherals, Transport};
use trapless_report::{Style, page, report, summary};

/// Inputs of each kind; `make test-long` takes ten times as many.
const INPUTS: u64 = 1_000;
/// Most time for one input on a busy computer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most memory of the whole test, in KiB.
const MEMORY: u64 = 512 << 10;
const RAM: u64 = 0x8000_0000;
const RAM_BYTES: u64 = 8 << 20;
/// `j .`
const FOREVER: [u8; 4] = [0x6f, 0, 0, 0];

/// Takes a file that may be damaged. `Err` is the error message.
type Take = Box<dyn Fn(&[u8]) -> Result<(), String> + Send>;

/// Damages a file.
type Mutate = fn(&mut Vec<u8>, &mut SplitMix64);

/// A kind of file: sound ones, and what takes it.
struct Kind {
    name: &'static str,
    sound: Vec<Vec<u8>>,
    take: Take,
    mutate: Mutate,
    /// Where [`INPUTS`] of them would take long, one in so many is enough.
    slow: u64,
}

impl Kind {
    fn new(
        name: &'static str,
        sound: Vec<Vec<u8>>,
        take: impl Fn(&[u8]) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let (take, mutate, slow) = (Box::new(take), self::mutate as Mutate, 1);
        Self {
            name,
            sound,
            take,
            mutate,
            slow,
        }
    }
}

/// One of the values that programs forget, in either byte order.
fn extreme(random: &mut SplitMix64) -> Vec<u8> {
    let values = [
        0,
        1,
        0x7f,
        0xff,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 63,
        u64::MAX,
    ];
    let value = values[random.next_u64() as usize % values.len()];
    let size = 1 << (random.next_u64() % 4);
    match random.next_u64() % 2 {
        0 => value.to_le_bytes()[..size].to_vec(),
        _ => value.to_be_bytes()[8 - size..].to_vec(),
    }
}

/// Damages `file` in one to four places.
fn mutate(file: &mut Vec<u8>, random: &mut SplitMix64) {
    const WORDS: [&str; 8] = [
        "-1",
        "1e999",
        "99999999999999999999",
        "\"",
        "[",
        "{}",
        "null",
        "\n[",
    ];
    for _ in 0..=random.next_u64() % 4 {
        let at = random.next_u64() as usize % (file.len() + 1);
        let len = (random.next_u64() as usize % 64).min(file.len() - at);
        match random.next_u64() % 8 {
            0 => file.truncate(at),
            1 => drop(file.drain(at..at + len)),
            2 => {
                let part = file[at..at + len].to_vec();
                let to = random.next_u64() as usize % (file.len() + 1);
                file.splice(to..to, part);
            }
            3 => {
                let word = WORDS[random.next_u64() as usize % WORDS.len()];
                let end = at + len.min(word.len());
                file.splice(at..end, word.bytes());
            }
            4 | 5 => {
                let value = extreme(random);
                let end = (at + value.len()).min(file.len());
                file.splice(at..end, value);
            }
            _ => {
                if let Some(byte) = file.get_mut(at) {
                    *byte ^= 1 << (random.next_u64() % 8);
                }
            }
        }
    }
}

fn boot(payload: &Payload, peripherals: Peripherals) -> Result<(), String> {
    let mut config = MachineConfig::preset("trapless").expect("a preset");
    config.ram = RAM_BYTES;
    config.code.compiled = 1 << 20;
    let mut machine = Machine::boot(config, payload, peripherals).map_err(|e| e.to_string())?;
    let limits = Limits {
        until: 20_000,
        ..Limits::default()
    };
    machine.run(&limits);
    Ok(())
}

fn quiet() -> Peripherals {
    Peripherals::new(Box::new(std::io::sink()))
}

fn firmware() -> Option<Vec<u8>> {
    Some(FOREVER.into())
}

/// An executable with one segment.
fn elf() -> Vec<u8> {
    elf_of(&FOREVER.repeat(32))
}

/// One with this code.
fn elf_of(code: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 243, 0, 1, 0, 0, 0]);
    for word in [RAM, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for word in [128, RAM, RAM, code.len() as u64, 0x4000, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.resize(128, 0);
    file.extend(code);
    file
}

/// A kernel with the header of Linux's boot protocol.
fn image() -> Vec<u8> {
    let mut file = FOREVER.repeat(2);
    for word in [0x20_0000u64, 0x1_0000, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(2u32.to_le_bytes());
    file.resize(48, 0);
    file.extend(b"RISCV\0\0\0RSC\x05");
    file.resize(0x1000, 0);
    file
}

fn gzip(file: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(file).expect("memory is writable");
    encoder.finish().expect("memory is writable")
}

fn device_tree() -> Vec<u8> {
    let mut config = MachineConfig::preset("aia").expect("a preset");
    config.ram = RAM_BYTES;
    let payload = Payload {
        firmware: firmware(),
        ..Payload::default()
    };
    let machine = Machine::boot(config, &payload, quiet()).expect("it boots");
    machine.device_tree().to_vec()
}

/// A machine that loops.
fn small_machine() -> Machine {
    let mut config = MachineConfig::preset("trapless").expect("a preset");
    config.ram = RAM_BYTES;
    config.code.compiled = 1 << 20;
    let payload = Payload {
        firmware: firmware(),
        ..Payload::default()
    };
    Machine::boot(config, &payload, quiet()).expect("it boots")
}

/// It in a file, with a few pages.
fn checkpoint() -> Vec<u8> {
    let mut machine = small_machine();
    machine.run(&Limits {
        until: 20_000,
        ..Limits::default()
    });
    let mut file = Vec::new();
    machine
        .save(&mut file, About::default(), b"more")
        .expect("it is saved");
    file
}

fn machine_kinds() -> Vec<Kind> {
    vec![
        Kind::new("ELF", vec![elf()], |file| {
            let as_firmware = boot(
                &Payload {
                    firmware: Some(file.into()),
                    ..Payload::default()
                },
                quiet(),
            );
            let as_kernel = boot(
                &Payload {
                    kernel: Some(Content::Bytes(file.into())),
                    ..Payload::default()
                },
                quiet(),
            );
            as_firmware.and(as_kernel)
        }),
        Kind::new("Image", vec![image(), gzip(&image())], |file| {
            boot(
                &Payload {
                    kernel: Some(Content::Bytes(file.into())),
                    ..Payload::default()
                },
                quiet(),
            )
        }),
        Kind::new("DTB", vec![device_tree()], |file| {
            boot(
                &Payload {
                    firmware: firmware(),
                    dtb: Some(file.into()),
                    append: "quiet".into(),
                    ..Payload::default()
                },
                quiet(),
            )
        }),
        Kind::new("initrd", vec![b"070701".repeat(100)], |file| {
            boot(
                &Payload {
                    firmware: firmware(),
                    kernel: Some(Content::Bytes(image())),
                    initrd: Some(Content::Bytes(file.into())),
                    ..Payload::default()
                },
                quiet(),
            )
        }),
        Kind::new("checkpoint", vec![checkpoint()], move |mut file| {
            let whole = file;
            let mut machine = small_machine();
            machine.restore(&mut file).map_err(|e| e.to_string())?;
            assert!(whole == checkpoint(), "a damaged checkpoint is used");
            Ok(())
        }),
        Kind::new("disk", vec![vec![0x55; 8 << 10]], |file| {
            let path = scratch("mutated-disk");
            fs::write(&path, file).expect("scratch is writable");
            let disk = RawDisk::open(&path, false).map_err(|e| e.to_string())?;
            let overlay = Overlay::new(Box::new(disk), Some(1 << 20));
            let mut peripherals = quiet();
            let block = Block::new(Box::new(overlay), "mutated");
            let plugged = peripherals.plug(Transport::Mmio, block, Box::new(()));
            plugged.map_err(|e| e.to_string())?;
            let payload = Payload {
                firmware: firmware(),
                ..Payload::default()
            };
            boot(&payload, peripherals)
        }),
    ]
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn project(path: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn text_kinds() -> Vec<Kind> {
    let folder = scratch("mutated-experiments");
    let common = folder.join("common");
    fs::create_dir_all(&common).expect("scratch is writable");
    let parameters = project("experiments/common/parameters.toml");
    fs::write(common.join("parameters.toml"), parameters).expect("scratch is writable");
    let sound = synthetic::ledger("sstc", 100).to_json().into_bytes();
    vec![
        Kind::new("ledger", vec![sound.clone()], move |file| {
            let ledger = LedgerFile::from_json(&text(file)).map_err(|e| e.to_string())?;
            let good = LedgerFile::from_json(&text(&sound)).map_err(|e| e.to_string())?;
            let both = [good, ledger];
            report(&both, Style::default());
            page(&both);
            summary(&both);
            Ok(())
        }),
        Kind::new(
            "cost model",
            vec![project("crates/machine/src/config/cost.toml")],
            |file| CostTable::from_text(&text(file)).map(drop),
        ),
        Kind::new(
            "experiment",
            vec![project("experiments/mixed.toml")],
            move |file| {
                let path = folder.join("mixed.toml");
                fs::write(&path, file).expect("scratch is writable");
                let experiment = Experiment::load(&path).map_err(|e| e.to_string())?;
                experiment
                    .values(&BTreeMap::new())
                    .map_err(|e| e.to_string())?;
                Ok(())
            },
        ),
        Kind::new(
            "machines",
            vec![project("crates/machine/src/config/machines.toml")],
            |file| trapless_machine::preset::parse(&text(file)).map(drop),
        ),
    ]
}

/// Most memory that this process, or one that it has started, has had, in KiB.
fn peak() -> u64 {
    let children = getrusage(UsageWho::RUSAGE_CHILDREN)
        .expect("Linux")
        .max_rss();
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    let own: u64 = word.and_then(|word| word.parse().ok()).expect("a number");
    own.max(children.try_into().expect("it is positive"))
}

fn inputs(kind: &Kind) -> u64 {
    let given = std::env::var("TRAPLESS_MUTATIONS").ok();
    given.map_or(INPUTS / kind.slow, |n| {
        n.parse().expect("TRAPLESS_MUTATIONS is a number")
    })
}

/// The kinds that `TRAPLESS_MUTATED=PART,...` names by a part of their names; else all.
fn kinds() -> impl Iterator<Item = Kind> {
    let named = std::env::var("TRAPLESS_MUTATED").unwrap_or_default();
    let all = machine_kinds().into_iter().chain(text_kinds());
    let all = all.chain(sealed::kinds()).chain([debugger::kind()]);
    all.filter(move |kind| named.split(',').any(|part| kind.name.contains(part)))
}

#[test]
fn damaged_files_are_refused_or_used() {
    let (done, progress) = channel();
    let worker = std::thread::spawn(move || {
        for kind in kinds() {
            for file in &kind.sound {
                let used = (kind.take)(file);
                assert_eq!(used, Ok(()), "sound {} refused", kind.name);
            }
            let (mut refused, mut longest) = (0, Duration::ZERO);
            for seed in 0..inputs(&kind) {
                let mut random = SplitMix64::seed_from_u64(seed);
                let mut file = kind.sound[seed as usize % kind.sound.len()].clone();
                (kind.mutate)(&mut file, &mut random);
                done.send(format!("{} {seed}", kind.name))
                    .expect("somebody listens");
                let begun = Instant::now();
                match catch_unwind(AssertUnwindSafe(|| (kind.take)(&file))) {
                    Ok(Ok(())) => {}
                    Ok(Err(sentence)) => {
                        assert!(
                            !sentence.trim().is_empty(),
                            "{} {seed}: no reason",
                            kind.name
                        );
                        refused += 1;
                    }
                    Err(_) => {
                        let begin = &file[..file.len().min(512)];
                        panic!("{} {seed} panics: {begin:x?}", kind.name);
                    }
                }
                longest = longest.max(begun.elapsed());
                assert!(peak() < MEMORY, "{} {seed}: {} KiB", kind.name, peak());
            }
            eprintln!(
                "{}: {refused} of {} refused; longest {longest:.1?}; peak {} KiB",
                kind.name,
                inputs(&kind),
                peak()
            );
        }
    });
    let mut last = String::from("the first");
    loop {
        match progress.recv_timeout(PATIENCE) {
            Ok(input) => last = input,
            Err(RecvTimeoutError::Timeout) => panic!("{last} does not come to an end"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    worker.join().unwrap_or_else(|_| panic!("at {last}"));
}
