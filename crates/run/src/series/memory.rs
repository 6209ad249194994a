//! Number of parallel runs.

use std::num::NonZero;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::spec::MachineOptions;

/// Memory of a machine besides its RAM in bytes: compiled code, tables of blocks, and the ledger.
const BESIDE_RAM: u64 = 256 << 20;

/// The requested number, or one for each processor, but no more than there is memory for. A
/// machine's RAM takes only what its guest touches, which may be all of it.
pub fn at_a_time(asked: Option<usize>, runs: usize, options: &MachineOptions) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let wanted = asked.unwrap_or(processors).min(runs).max(1);
    let (each, free) = (of_run(options), available());
    let fitting = fitting(wanted, each, free);
    if fitting < wanted {
        note!(
            "{fitting} of {runs} runs at a time, not {wanted}: each may need {}, and {} are free; \
             a smaller --ram leaves room for more",
            size(each),
            size(free)
        );
    }
    fitting
}

/// Memory in bytes that a run may need.
pub fn of_run(options: &MachineOptions) -> u64 {
    options.memory() + BESIDE_RAM
}

/// At least one, even if its RAM may not fit.
fn fitting(wanted: usize, each: u64, free: u64) -> usize {
    let room = usize::try_from(free / each).unwrap_or(usize::MAX);
    wanted.min(room).max(1)
}

/// Memory that this process can have without swapping, in bytes; no limit if that is unknown.
fn available() -> u64 {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let refresh = RefreshKind::nothing().with_memory(memory);
    let Ok(system) = System::new_with_specifics(refresh) else {
        return u64::MAX;
    };
    let limit = system.cgroup_limits().map_or(u64::MAX, |c| c.free_memory);
    system.available_memory().min(limit)
}

fn size(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: runs side by side do not use more memory than there is.
    #[test]
    fn no_more_runs_than_fit_into_memory_but_one() {
        const GIB: u64 = 1 << 30;
        assert_eq!(fitting(8, 2 * GIB, 7 * GIB), 3);
        assert_eq!(fitting(2, 2 * GIB, 7 * GIB), 2);
        assert_eq!(fitting(2, 2 * GIB, GIB), 1);
        assert!(available() > 0);
    }

    #[test]
    fn there_are_no_more_jobs_than_runs() {
        let small = MachineOptions {
            ram: "64M".parse().ok(),
            ..MachineOptions::default()
        };
        assert_eq!(at_a_time(Some(9), 1, &small), 1);
        assert_eq!(at_a_time(None, 1, &small), 1);
    }
}
