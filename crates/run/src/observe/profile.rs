//! `--profile`: where the host's time goes. A thread samples the machine's current activity,
//! without an effect on the machine.

use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use trapless_hart::{Activity, Meter};
use trapless_machine::{EngineStatistics, Machine};
use trapless_report::number::{Space, count, decimal};

use crate::files;

/// Sampling period.
const INTERVAL: Duration = Duration::from_micros(500);

/// Samples of a run.
struct Samples {
    /// By number of the activity.
    counts: Vec<u64>,
    /// From the first to the last, in seconds.
    seconds: f64,
}

/// A running profiler. Dropping it ends it.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Starts to profile `machine`.
    pub fn start(machine: &Machine) -> Self {
        let meter = machine.meter();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            sample(&meter, || {
                stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
            })
        });
        Self { stop, thread }
    }

    /// Ends it.
    pub fn finish(self, machine: &Machine) -> Result<Profile> {
        drop(self.stop);
        let samples = self.thread.join();
        Ok(Profile {
            samples: samples.map_err(|_| anyhow!("the thread that makes the profile failed"))?,
            statistics: machine.engine_statistics(),
        })
    }
}

/// Each sample has the same weight, even if the host delayed this thread: the delay has nothing to
/// do with the activity that is sampled after it.
fn sample(meter: &Meter, mut wait: impl FnMut() -> bool) -> Samples {
    let start = Instant::now();
    let mut counts = vec![0; Activity::ALL.len()];
    loop {
        let go_on = wait();
        counts[meter.now() as usize] += 1;
        if !go_on {
            return Samples {
                counts,
                seconds: start.elapsed().as_secs_f64(),
            };
        }
    }
}

/// Where the time of a run went, and what its engine did.
pub struct Profile {
    samples: Samples,
    statistics: EngineStatistics,
}

impl Profile {
    /// Number of samples, at least one.
    fn total(&self) -> u64 {
        self.samples.counts.iter().sum()
    }

    /// Activities with their shares of the time.
    fn shares(&self) -> impl Iterator<Item = (Activity, f64)> {
        let total = self.total() as f64;
        let shares = self.samples.counts.iter().map(move |n| *n as f64 / total);
        Activity::ALL.iter().copied().zip(shares)
    }

    /// A count for each 1 000 instructions.
    fn per_thousand(&self, n: u64) -> f64 {
        n as f64 * 1e3 / self.statistics.instructions.max(1) as f64
    }

    /// The profile as JSON; `docs/benchmark.md` explains the fields.
    fn json(&self) -> Value {
        let total = self.samples.seconds;
        let activity = |(activity, share): (Activity, f64)| {
            json!({
                "name": activity.name(),
                "explanation": activity.explanation(),
                "seconds": share * total,
                "share": share,
            })
        };
        json!({
            "seconds": total,
            "samples": self.total(),
            "activities": self.shares().map(activity).collect::<Vec<_>>(),
            "statistics": self.statistics,
            "tlb_misses_per_1000_instructions": self.per_thousand(self.statistics.tlb_misses()),
        })
    }

    /// Writes the JSON file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(&self.json())?;
        text.push('\n');
        files::write(path, text)
    }

    /// The tables.
    pub fn text(&self) -> String {
        let seconds = self.samples.seconds;
        let mut text = format!(
            "\nTime on the host: {seconds:.2} s, {} samples\n   share   seconds\n",
            number(self.total())
        );
        let mut rows: Vec<_> = self.shares().filter(|(_, share)| *share > 0.0).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (activity, share) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:6.1} %  {:8.3}  {}",
                100.0 * share,
                share * seconds,
                activity.explanation()
            );
        }
        text.push_str("\nEngine\n");
        for (name, value) in self.counts() {
            let _ = writeln!(text, "  {name:24} {value}");
        }
        text
    }

    fn counts(&self) -> Vec<(&'static str, String)> {
        let s = &self.statistics;
        let (harts, code) = (&s.harts, &s.code);
        let each = |n: u64| {
            format!(
                "{} ({} per 1 000 instructions)",
                number(n),
                decimal(self.per_thousand(n), Space::Plain)
            )
        };
        let mut counts = vec![
            ("instructions", number(s.instructions)),
            ("guest exits", number(harts.guest_exits)),
            (
                "blocks decoded",
                format!(
                    "{} of {} instructions, all dropped {} times",
                    number(code.blocks_decoded),
                    number(code.instructions_decoded),
                    number(code.decoded_resets)
                ),
            ),
        ];
        if code.code_capacity > 0 {
            counts.extend([
                (
                    "blocks compiled",
                    format!(
                        "{} to {} KiB, all dropped {} times; {} of {} KiB in use",
                        number(code.blocks_compiled),
                        number(code.code_bytes >> 10),
                        number(code.code_resets),
                        number(code.code_held >> 10),
                        number(code.code_capacity >> 10)
                    ),
                ),
                ("regions compiled", number(code.regions_compiled)),
                ("blocks interpreted", number(harts.interpreted_blocks)),
                ("compiled code entered", each(harts.entries)),
                ("left for an instruction", each(harts.helpers)),
                ("left for a CSR", each(harts.csr_helpers)),
                ("blocks looked up", each(harts.lookups)),
            ]);
        }
        counts.extend([
            ("TLB misses, loads", each(harts.load_misses)),
            ("TLB misses, stores", each(harts.store_misses)),
            ("TLB misses, fetches", each(harts.fetch_misses)),
            ("slow loads and stores", each(harts.slow_hits)),
        ]);
        counts
    }
}

fn number(n: u64) -> String {
    count(n, Space::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_looks() {
        let meter = Meter::default();
        let mut looks = 0;
        let samples = sample(&meter.clone(), || {
            looks += 1;
            meter.set([Activity::Compiled, Activity::Walk][usize::from(looks == 4)]);
            looks < 4
        });
        let profile = Profile {
            samples,
            statistics: EngineStatistics::default(),
        };
        let text = profile.text();
        let wanted = [
            "  75.0 % ",
            "  25.0 % ",
            " 4 samples",
            "guest code, compiled",
            "page walks",
        ];
        assert!(wanted.iter().all(|w| text.contains(w)), "{text}");
        assert!(!text.contains("ledger"), "nobody saw it: {text}");
    }
}
