//! Figures of all runs: medians, counters of our engine, and the JSON file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use trapless_images::PackageVersion;

use crate::clock::{median, now};
use crate::counts::{BLOCKS_COMPILED, COUNTS, GUEST_EXITS, INSTRUCTIONS, PER_THOUSAND};
use crate::emulator::Images;
use crate::entry::{Entry, Figures, NS_PER_EXIT, compared, quotient, variants};
use crate::means::Means;
use crate::native;
use crate::rows::{Row, SCENARIOS, Scenario, Unit};
use crate::session::Session;
use crate::table::{Tables, digits};

/// Minimum number of guest exits for time per exit: with fewer, time is spent elsewhere.
const EXITS: f64 = 10_000.0;

/// Measurements of one emulator in one row.
#[derive(Debug, Default)]
struct Samples {
    figures: Vec<f64>,
    seconds: Vec<f64>,
    processor: Vec<f64>,
    failures: u32,
}

/// Everything that is written.
#[derive(Debug, Serialize)]
struct File<'a> {
    date: &'a str,
    machine: &'a BTreeMap<&'static str, String>,
    emulators: &'a BTreeMap<String, String>,
    packages: &'a [PackageVersion],
    runs: u32,
    rows: Vec<Entry>,
    /// Of programs: by scenario.
    geometric_means: BTreeMap<&'static str, Means>,
    /// Median of the peak resident memory, in MiB: by scenario and emulator.
    peak_memory: BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
}

/// Figures of all runs so far.
pub struct Results {
    runs: u32,
    date: String,
    machine: BTreeMap<&'static str, String>,
    emulators: BTreeMap<String, String>,
    packages: Vec<PackageVersion>,
    /// Samples and failures by row and emulator.
    samples: BTreeMap<(&'static str, String), Samples>,
    peaks: BTreeMap<(&'static str, String), Vec<f64>>,
    /// Counters of our engine, by row and name.
    counts: BTreeMap<(&'static str, &'static str), f64>,
}

impl Results {
    /// None yet. `versions`: those of what is compared, by name.
    pub fn new(runs: u32, versions: Vec<(String, String)>, images: &Images) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(':'))
            .map_or_else(
                || std::env::consts::ARCH.to_owned(),
                |(_, name)| name.trim().to_owned(),
            );
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            runs,
            date: now(),
            machine: BTreeMap::from([
                ("processor", cpu),
                ("processors", processors.to_string()),
                ("load at the start", read("/proc/loadavg").trim().to_owned()),
            ]),
            emulators: versions.into_iter().collect(),
            packages: images.packages.clone(),
            samples: BTreeMap::new(),
            peaks: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Adds the measurements of a session.
    pub fn add(
        &mut self,
        scenario: &'static Scenario,
        rows: &[&'static Row],
        subject: &str,
        session: &Session,
    ) {
        for row in rows {
            let of = self
                .samples
                .entry((row.name, subject.to_owned()))
                .or_default();
            match session.figure(row) {
                Some(figure) => {
                    eprintln!("  {:18} {} {}", row.name, digits(figure), row.unit.text());
                    of.figures.push(figure);
                    let took = session.took(row);
                    of.seconds.extend(took.map(|t| t.wall));
                    of.processor.extend(took.map(|t| t.cpu));
                }
                None => of.failures += 1,
            }
        }
        // Natively, it is the memory of the shell.
        if let Some(peak) = session.peak.filter(|_| subject != native::NAME) {
            self.peaks
                .entry((scenario.name, subject.to_owned()))
                .or_default()
                .push(peak);
        }
    }

    /// Adds the counters of our engine in the rows.
    pub fn count(&mut self, rows: &[&'static Row], session: &Session) {
        for row in rows {
            for what in COUNTS.map(|count| count.name) {
                if let Some(count) = session.count(row, what) {
                    self.counts.insert((row.name, what), count);
                }
            }
        }
    }

    /// Figures of our engine in a row that took `seconds`.
    fn engine(&self, row: &Row, seconds: Option<f64>) -> BTreeMap<&'static str, f64> {
        let count = |what| self.counts.get(&(row.name, what)).copied();
        let instructions = count(INSTRUCTIONS);
        let exits = count(GUEST_EXITS).filter(|exits| *exits >= EXITS);
        let mut figures = BTreeMap::new();
        let mut put = |key, figure: Option<f64>| {
            if let Some(figure) = figure {
                figures.insert(key, figure);
            }
        };
        put("guest_exits", count(GUEST_EXITS));
        put(NS_PER_EXIT, quotient(seconds.map(|s| s * 1e9), exits));
        put("blocks_compiled", count(BLOCKS_COMPILED));
        for (what, _, key) in PER_THOUSAND {
            put(key, quotient(count(what).map(|n| n * 1e3), instructions));
        }
        figures
    }

    /// Whether a figure is missing.
    pub fn failed(&self) -> bool {
        self.samples.values().any(|samples| samples.failures > 0)
    }

    fn figures(&self, row: &Row) -> BTreeMap<String, Figures> {
        self.samples
            .iter()
            .filter(|((name, _), _)| *name == row.name)
            .map(|((_, emulator), samples)| {
                let figures = Figures {
                    median: median(&samples.figures),
                    samples: samples.figures.clone(),
                    seconds: median(&samples.seconds),
                    processor: median(&samples.processor),
                    failures: samples.failures,
                };
                (emulator.clone(), figures)
            })
            .collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for scenario in SCENARIOS.iter() {
            for row in &scenario.rows {
                let figures = self.figures(row);
                if figures.is_empty() {
                    continue;
                }
                if scenario.variants.is_some() {
                    entries.extend(variants(row, &figures));
                } else {
                    let mut entry = compared(row, figures);
                    let count = self.counts.get(&(row.name, INSTRUCTIONS)).copied();
                    if row.unit != Unit::Resident {
                        entry.instructions = count;
                        let seconds = entry.figures.get("trapless").and_then(|f| f.seconds);
                        entry.million_per_second = quotient(count.map(|c| c / 1e6), seconds);
                        entry.engine = self.engine(row, seconds);
                    }
                    entries.push(entry);
                }
            }
        }
        entries
    }

    /// Of scenarios that were measured.
    fn geometric_means(&self) -> BTreeMap<&'static str, Means> {
        let mut all = BTreeMap::new();
        for scenario in SCENARIOS.iter() {
            let Some(programs) = scenario.programs else {
                continue;
            };
            // The integer loop is not a real program and has a row of its own kind.
            let rows = scenario.rows.iter().filter(|row| row.unit == Unit::Seconds);
            let entries: Vec<_> = rows
                .map(|row| (row, self.figures(row)))
                .filter(|(_, figures)| !figures.is_empty())
                .map(|(row, figures)| compared(row, figures))
                .collect();
            if !entries.is_empty() {
                all.insert(scenario.name, Means::new(&entries, programs.goal));
            }
        }
        all
    }

    fn peak_memory(&self) -> BTreeMap<&'static str, BTreeMap<String, Option<f64>>> {
        let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((scenario, emulator), samples) in &self.peaks {
            all.entry(*scenario)
                .or_default()
                .insert(emulator.clone(), median(samples));
        }
        all
    }

    /// Writes the JSON file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file = File {
            date: &self.date,
            machine: &self.machine,
            emulators: &self.emulators,
            packages: &self.packages,
            runs: self.runs,
            rows: self.entries(),
            geometric_means: self.geometric_means(),
            peak_memory: self.peak_memory(),
        };
        let mut text = serde_json::to_string_pretty(&file)?;
        text.push('\n');
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The tables for a terminal; they are Markdown, too.
    pub fn table(&self) -> String {
        Tables {
            entries: &self.entries(),
            means: &self.geometric_means(),
            peaks: &self.peak_memory(),
        }
        .text()
    }
}
