//! Delays before the guest and its vCPUs start, drawn from a seed.
//!
//! A guest's clock begins when its VM is created, and its timer ticks with it. On a deterministic
//! host every run creates the VM at the same point of the host's tick, so that every run
//! samples the same phase between host and guest ticks. Runs with other seeds sample others.

use std::str::FromStr;
use std::time::Duration;
use trapless_devices::virtio::rng::{Entropy, SeededEntropy};

/// The VM starts less than a tick of a host with `CONFIG_HZ=250` later, in ns.
const VM: u64 = 4_000_000;
/// A vCPU starts less than this later than the others could, in ns.
const VCPU: u64 = 1_000_000;

/// `--stagger`: seed of the delays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stagger {
    seed: u64,
    /// Distinguishes guests of one host.
    guest: u16,
}

impl FromStr for Stagger {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (seed, guest) = text.split_once(',').unwrap_or((text, "0"));
        let wrong =
            || format!("`{text}` is not SEED or SEED,GUEST: two numbers, GUEST below 65536");
        Ok(Self {
            seed: seed.parse().map_err(|_| wrong())?,
            guest: guest.parse().map_err(|_| wrong())?,
        })
    }
}

impl Stagger {
    /// How long to wait before the VM is created.
    pub fn vm(self) -> Duration {
        below(VM, &mut self.sequence())
    }

    /// How long each of `count` vCPUs waits before it first runs.
    pub fn vcpus(self, count: usize) -> Vec<Duration> {
        let mut sequence = self.sequence();
        next(&mut sequence);
        (0..count).map(|_| below(VCPU, &mut sequence)).collect()
    }

    /// The guest's own sequence. Its seed is a value of the seed's sequence, so that seeds that
    /// follow each other share nothing.
    fn sequence(self) -> SeededEntropy {
        let mut seeds = SeededEntropy::new(self.seed);
        for _ in 0..self.guest {
            next(&mut seeds);
        }
        SeededEntropy::new(next(&mut seeds))
    }
}

fn next(sequence: &mut SeededEntropy) -> u64 {
    let mut bytes = [0; 8];
    // A seeded sequence has no end.
    let _ = sequence.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn below(end: u64, sequence: &mut SeededEntropy) -> Duration {
    let scaled = (u128::from(next(sequence)) * u128::from(end)) >> 64;
    Duration::from_nanos(scaled as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stagger(text: &str) -> Stagger {
        text.parse().unwrap()
    }

    /// Promise: delays depend on seed and guest alone, and cover a whole tick.
    #[test]
    fn seeds_and_guests_have_delays_of_their_own_over_a_whole_tick() {
        assert_eq!(stagger("7"), stagger("7,0"));
        assert_eq!(stagger("7").vm(), stagger("7").vm());
        let eighth = |d: Duration| d.as_nanos() as u64 * 8 / VM;
        let of = |text: &dyn Fn(u64) -> String| {
            let mut hit = [0; 8];
            (0..400).for_each(|i| hit[eighth(stagger(&text(i)).vm()) as usize] += 1);
            hit
        };
        for hit in [of(&|i| i.to_string()), of(&|i| format!("5,{i}"))] {
            assert!(hit.iter().all(|n| (25..=75).contains(n)), "{hit:?}");
        }
    }

    #[test]
    fn each_vcpu_waits_for_less_than_a_millisecond() {
        let vcpus = stagger("0").vcpus(8);
        assert!(vcpus.iter().all(|d| *d < Duration::from_millis(1)));
        assert!(vcpus.windows(2).all(|d| d[0] != d[1]));
        // A guest with more of them changes nothing for those it has.
        assert_eq!(stagger("0").vcpus(2), vcpus[..2]);
    }

    #[test]
    fn what_is_no_seed_is_refused() {
        let largest = "18446744073709551615,65535";
        assert!(largest.parse::<Stagger>().is_ok());
        for bad in ["", "-1", "1,", "1,65536", "1,2,3", "x"] {
            assert!(bad.parse::<Stagger>().is_err(), "{bad} was accepted");
        }
    }
}
