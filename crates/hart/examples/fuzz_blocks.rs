//! Compares the engines on random programs for as long as you like.
//!
//! `cargo run --release -p trapless-hart --example fuzz_blocks -- SECONDS [SEED]`
//!
//! Programs run in a separate process, a thousand at a time, so that crashes and hangs of compiled
//! code are found, too. `--seeds A..B` runs only these.

#[path = "../tests/fuzz/mod.rs"]
mod fuzz;

use std::ops::Range;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Programs in one process.
const CHUNK: u64 = 1000;
/// Host time after which a process counts as hung.
const PATIENCE: Duration = Duration::from_secs(300);

fn here(seeds: Range<u64>) -> ExitCode {
    let mut result = ExitCode::SUCCESS;
    for seed in seeds {
        let program = fuzz::Program::new(seed);
        if fuzz::check(&program).is_some() {
            println!("{}", fuzz::report(&program));
            result = ExitCode::FAILURE;
        }
        if let Some(wrong) = fuzz::check_triggers(&program, &mut 0) {
            println!("{wrong}");
            result = ExitCode::FAILURE;
        }
    }
    result
}

/// Runs `seeds` in another process. `Some` describes the failure.
fn elsewhere(seeds: &Range<u64>) -> Option<String> {
    let this = std::env::current_exe().expect("this program is a file");
    let mut child = Command::new(this)
        .arg("--seeds")
        .arg(format!("{}..{}", seeds.start, seeds.end))
        .spawn()
        .expect("this program can be run");
    let start = Instant::now();
    loop {
        match child.try_wait().expect("it is ours") {
            Some(status) if status.success() => return None,
            Some(status) => return Some(status.to_string()),
            None if start.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Some("hangs".into());
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    if let [option, seeds] = &arguments[..] {
        if option == "--seeds" {
            let (from, to) = seeds.split_once("..").expect("A..B");
            return here(number(from)..number(to));
        }
    }
    let seconds = arguments.first().map_or(60, |text| number(text));
    let first = arguments.get(1).map_or(0, |text| number(text));
    let (start, mut last) = (Instant::now(), Instant::now());
    let mut failed = 0;
    let mut seed = first;
    while start.elapsed().as_secs() < seconds && failed < 20 {
        let chunk = seed..seed + CHUNK;
        if let Some(what) = elsewhere(&chunk) {
            println!("seeds {chunk:?}: {what}");
            if !what.contains("exit status") {
                let bad = chunk.clone().find(|s| elsewhere(&(*s..s + 1)).is_some());
                println!("seed {bad:?} alone does it");
            }
            failed += 1;
        }
        seed += CHUNK;
        if last.elapsed().as_secs() >= 60 {
            last = Instant::now();
            println!(
                "{} programs in {} s, {failed} chunks of them with differences",
                seed - first,
                start.elapsed().as_secs()
            );
        }
    }
    println!(
        "{} programs (seeds {first}..{seed}), {failed} chunks of them with differences",
        seed - first
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
