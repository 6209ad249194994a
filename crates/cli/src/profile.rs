//! `--profile`: where the host's time goes. A thread looks again and again at what the machine does; the
//! machine does not notice.

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

use crate::setup;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_micros(500);

/// What the looks saw.
struct Samples {
    count: u64,
    /// Seconds by number of the activity.
    seconds: Vec<f64>,
}

/// A profile under way. Dropping it ends it.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Begins one of `machine`.
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

/// Each look stands for the time since the one before, however long the host kept this thread waiting: so the
/// shares add up to the whole.
fn sample(meter: &Meter, mut wait: impl FnMut() -> bool) -> Samples {
    let mut samples = Samples {
        count: 0,
        seconds: vec![0.0; Activity::ALL.len()],
    };
    let mut last = Instant::now();
    loop {
        let go_on = wait();
        let now = Instant::now();
        samples.seconds[meter.now() as usize] += (now - last).as_secs_f64();
        samples.count += 1;
        last = now;
        if !go_on {
            return samples;
        }
    }
}

/// Where the time of a run went, and what its engine did.
pub struct Profile {
    samples: Samples,
    statistics: EngineStatistics,
}

impl Profile {
    fn total(&self) -> f64 {
        self.samples.seconds.iter().sum()
    }

    /// Activities with their seconds.
    fn activities(&self) -> impl Iterator<Item = (Activity, f64)> {
        let seconds = self.samples.seconds.iter().copied();
        Activity::ALL.iter().copied().zip(seconds)
    }

    /// A count for each 1 000 instructions.
    fn per_thousand(&self, n: u64) -> f64 {
        n as f64 * 1e3 / self.statistics.instructions.max(1) as f64
    }

    /// For programs; `docs/benchmark.md` explains the fields.
    fn json(&self) -> Value {
        let total = self.total();
        let activity = |(activity, seconds): (Activity, f64)| {
            json!({
                "name": activity.name(),
                "explanation": activity.explanation(),
                "seconds": seconds,
                "share": seconds / total,
            })
        };
        json!({
            "seconds": total,
            "samples": self.samples.count,
            "activities": self.activities().map(activity).collect::<Vec<_>>(),
            "statistics": self.statistics,
            "tlb_misses_per_1000_instructions": self.per_thousand(self.statistics.tlb_misses()),
        })
    }

    /// Writes the JSON file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(&self.json())?;
        text.push('\n');
        setup::write(path, text)
    }

    /// The tables.
    pub fn text(&self) -> String {
        let total = self.total();
        let mut text = format!(
            "\nTime on the host: {total:.2} s, {} samples\n   share   seconds\n",
            number(self.samples.count)
        );
        let mut rows: Vec<_> = self.activities().filter(|(_, s)| *s > 0.0).collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (activity, seconds) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:6.1} %  {seconds:8.3}  {}",
                100.0 * seconds / total,
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
                ("blocks interpreted", number(harts.interpreted_blocks)),
                ("compiled code entered", each(harts.entries)),
                ("left for an instruction", each(harts.helpers)),
                ("left for a CSR", each(harts.csr_helpers)),
                ("jump-cache misses", each(harts.jump_misses)),
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
    fn each_look_counts_for_the_time_before_it() {
        let meter = Meter::default();
        let mut looks = 0;
        let samples = sample(&meter.clone(), || {
            std::thread::sleep(Duration::from_millis(2));
            looks += 1;
            meter.set([Activity::Compiled, Activity::Walk][usize::from(looks == 3)]);
            looks < 3
        });
        let profile = Profile {
            samples,
            statistics: EngineStatistics::default(),
        };
        let seconds = |a: Activity| profile.samples.seconds[a as usize];
        assert_eq!(profile.samples.count, 3);
        assert!(seconds(Activity::Compiled) >= 0.004 && seconds(Activity::Walk) >= 0.002);
        let known = seconds(Activity::Compiled) + seconds(Activity::Walk);
        assert!((profile.total() - known).abs() < 1e-9);
        let text = profile.text();
        assert!(
            text.contains("guest code, compiled") && !text.contains("ledger"),
            "{text}"
        );
    }
}
