//! Measures how long a machine with 4 GiB takes to resume from a checkpoint in a file: building it
//! and restoring the state. As many pages are in use as when a host has started a guest, and half
//! of them are duplicates.
//!
//! ```text
//! cargo run --release -p trapless-machine --example restore [MEBIBYTES IN USE] [TIMES]
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use trapless_machine::checkpoint::About;
use trapless_machine::{Machine, MachineConfig, Payload, Peripherals};

/// Bytes of a page.
const PAGE: u64 = 4096;

fn machine() -> Result<Machine, Box<dyn Error>> {
    let mut config = MachineConfig::preset("sstc")?;
    (config.harts, config.ram) = (2, 4 << 30);
    let payload = Payload {
        // `j .`
        firmware: Some(vec![0x6f, 0, 0, 0]),
        ..Payload::default()
    };
    let peripherals = Peripherals::new(Box::new(std::io::sink()));
    Ok(Machine::boot(config, &payload, peripherals)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let used = numbers.next().transpose()?.unwrap_or(240);
    let times = numbers.next().transpose()?.unwrap_or(9).max(1);
    let path = std::env::temp_dir().join(format!("restore-{}.checkpoint", std::process::id()));
    let first = machine()?;
    let start = first.ram().base() + (2 << 20);
    for page in 0..used * 256 {
        for word in 0..PAGE / 8 {
            let value = ((page / 2) << 16 | word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            first.ram().store(start + page * PAGE + word * 8, 8, value);
        }
    }
    let clock = Instant::now();
    let mut file = BufWriter::new(File::create(&path)?);
    first.save(&mut file, About::default(), &[])?;
    file.flush()?;
    let saving = clock.elapsed();
    let size = std::fs::metadata(&path)?.len();
    drop(first);
    let mut measured = Vec::new();
    for _ in 0..times {
        let clock = Instant::now();
        let mut machine = machine()?;
        machine.restore_from(&File::open(&path)?, None)?;
        measured.push(clock.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(&path)?;
    measured.sort_by(f64::total_cmp);
    println!(
        "a machine with 4 GiB, {used} MiB in use: restored in {:.0} ms ({:.0} to {:.0}, {times} times), \
         saved in {:.0} ms, {} MiB",
        measured[measured.len() / 2],
        measured[0],
        measured[measured.len() - 1],
        saving.as_secs_f64() * 1e3,
        size >> 20
    );
    Ok(())
}
