//! The circuits of Xtrapless, Xvei and an IMSIC, and their models under the same random traffic.
//! Every answer, exception, interrupt and word of memory is compared; the first difference ends the
//! run.

mod bench;
mod cycles;
mod driver;
mod imsic;
mod layout;
mod memory;
mod random;
mod reference;
mod xvei;

use std::process::ExitCode;

use clap::Parser;
use trapless_lockstep::{access, circuit};

use crate::driver::Driver;

/// Runs circuit and model in lock-step.
#[derive(Parser)]
struct Arguments {
    /// Seeds to run, each with all numbers of harts, as FIRST..END.
    #[arg(long, default_value = "0..4")]
    seeds: String,
    /// Accesses for each seed and number of harts.
    #[arg(long, default_value_t = 50_000)]
    accesses: u64,
    /// Number of harts instead of all for which a circuit is built.
    #[arg(long)]
    harts: Option<usize>,
    /// Print how many cycles single operations take instead.
    #[arg(long)]
    cycles: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let bounds = arguments.seeds.split_once("..");
    let bounds = bounds.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (first, end): (u64, u64) = bounds.ok_or("--seeds takes two numbers, as in 0..4")?;
    let wanted = |harts: &usize| arguments.harts.is_none_or(|only| only == *harts);
    let harts: Vec<usize> = circuit::built().filter(wanted).collect();
    if arguments.harts.is_some() && harts.is_empty() && !xvei::built().any(|n| wanted(&n)) {
        return Err("no circuit is built for that number of harts".into());
    }
    if arguments.cycles {
        if let Some(most) = harts.into_iter().max() {
            cycles::print(most)?;
        }
        if let Some(most) = xvei::built().filter(wanted).max() {
            xvei::print(most)?;
        }
        return Ok(());
    }
    let mut accesses = 0;
    for seed in first..end {
        if arguments.harts.is_none() {
            for line in imsic::run(seed, arguments.accesses)? {
                println!("{line}");
                accesses += arguments.accesses;
            }
        }
        for harts in xvei::built().filter(wanted) {
            println!("{}", xvei::run(seed, harts, arguments.accesses)?);
            accesses += arguments.accesses;
        }
        for &harts in &harts {
            let mut driver = Driver::new(harts, seed);
            driver.run(arguments.accesses).map_err(|text| {
                format!(
                    "{text}\nseed {seed}, {harts} harts, {} accesses",
                    arguments.accesses
                )
            })?;
            let counts = driver.bench.counts;
            accesses += counts.accesses;
            println!("seed {seed}, {harts} harts: {counts:?}");
        }
    }
    println!("{accesses} accesses without a difference");
    Ok(())
}
