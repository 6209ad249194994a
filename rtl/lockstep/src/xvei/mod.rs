//! Xvei in lock-step: doorbell pages, events, queues.

mod bench;
mod cycles;
mod driver;

pub use bench::built;
pub use cycles::print;

use driver::Driver;

/// Runs the circuit for `harts` harts for `accesses` accesses; returns what has been done.
///
/// # Errors
/// The first difference.
pub fn run(seed: u64, harts: usize, accesses: u64) -> Result<String, String> {
    let mut driver = Driver::new(harts, seed);
    let done = driver.run(accesses);
    let name = format!("Xvei with {harts} harts, seed {seed}");
    let counts = driver.bench.counts;
    let after = counts.accesses;
    done.map_err(|text| format!("{name}: after {after} accesses: {text}"))?;
    Ok(format!("{name}: {counts:?}"))
}
