//! Figures of all runs: medians, ratios, goals, the table and the JSON file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use trapless_images::PackageVersion;

use crate::clock::{median, now};
use crate::counts::{BLOCKS_COMPILED, COUNTS, GUEST_EXITS, INSTRUCTIONS, PER_THOUSAND};
use crate::emulator::{Emulator, Images};
use crate::rows::{Goal, PROGRAMS, Row, SCENARIOS, Scenario, Unit};
use crate::session::Session;

/// Most that totals may cost, as a ratio to no ledger; then the same for totals with all events.
const LEDGER_GOALS: [(&str, f64); 2] = [("totals", 1.05), ("stream", 1.30)];
/// Fewest guest exits by which time is divided: with fewer, it goes elsewhere.
const EXITS: f64 = 10_000.0;
const NS_PER_EXIT: &str = "ns_per_guest_exit";
/// Least geometric mean of the programs' speed, the peer being 1.
const PROGRAMS_GOAL: f64 = 1.0;

/// What one emulator did in one row.
#[derive(Debug, Clone, Default, Serialize)]
struct Figures {
    median: Option<f64>,
    samples: Vec<f64>,
    /// Median of the seconds of wall time.
    seconds: Option<f64>,
    /// Median of the seconds of processor time, of all threads of the emulator.
    processor: Option<f64>,
    /// Runs in which it failed.
    failures: u32,
}

/// What was measured of one emulator in one row.
#[derive(Debug, Default)]
struct Samples {
    figures: Vec<f64>,
    seconds: Vec<f64>,
    processor: Vec<f64>,
    failures: u32,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
struct Entry {
    name: String,
    explanation: String,
    unit: &'static str,
    /// By emulator: `qemu` and `trapless`, or what varies.
    figures: BTreeMap<String, Figures>,
    /// Trapless to QEMU: of the figures themselves.
    ratio: Option<f64>,
    /// How many times as fast as QEMU (for memory: as small).
    speed: Option<f64>,
    /// Trapless to QEMU: processor time.
    processor_ratio: Option<f64>,
    /// Instructions that Trapless executes in it, of all harts.
    instructions: Option<f64>,
    /// Of them, 10^6 in each second of wall time.
    million_per_second: Option<f64>,
    /// What else Trapless' engine does in it, by name.
    engine: BTreeMap<&'static str, f64>,
    goal: Option<String>,
    met: Option<bool>,
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
    /// Of the programs' speed.
    geometric_mean: Option<f64>,
    /// Median of the most memory ever resident, in MiB: by scenario and emulator.
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
    /// What our engine did, by row and name of the count.
    counts: BTreeMap<(&'static str, &'static str), f64>,
}

impl Results {
    /// None yet.
    pub fn new(runs: u32, qemu: &Emulator, trapless: &Emulator, images: &Images) -> Self {
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
            emulators: [qemu, trapless]
                .map(|e| (e.name.clone(), e.version.clone()))
                .into(),
            packages: images.packages.clone(),
            samples: BTreeMap::new(),
            peaks: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Takes in what a session measured.
    pub fn add(
        &mut self,
        scenario: &'static Scenario,
        rows: &[&'static Row],
        emulator: &Emulator,
        session: &Session,
    ) {
        for row in rows {
            let of = self
                .samples
                .entry((row.name, emulator.name.clone()))
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
        if let Some(peak) = session.peak {
            self.peaks
                .entry((scenario.name, emulator.name.clone()))
                .or_default()
                .push(peak);
        }
    }

    /// Takes in what our engine does in the rows.
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

    /// Whether anything did not give a figure.
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
        for scenario in SCENARIOS {
            for row in scenario.rows {
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

    /// Of the programs, of what `speed` says.
    fn geometric_mean(&self, speed: impl Fn(&Entry) -> Option<f64>) -> Option<f64> {
        let programs = SCENARIOS.iter().find(|s| s.name == PROGRAMS)?;
        let logs: Vec<f64> = programs
            .rows
            .iter()
            // The integer loop is no real program and has a row of its own kind.
            .filter(|row| row.unit == Unit::Seconds)
            .filter_map(|row| speed(&compared(row, self.figures(row))))
            .map(f64::ln)
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
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
            geometric_mean: self.geometric_mean(|e| e.speed),
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
        let head = [
            "measured",
            "QEMU",
            "Trapless",
            "ratio",
            "speed",
            "CPU ratio",
            "M/s",
            "goal",
            "",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let mut ledger = vec![
            ["", "without", "with", "ratio", "CPU ratio", "goal", ""]
                .map(str::to_owned)
                .to_vec(),
        ];
        let head = ["our engine", "M/s", "ns/exit", "blocks compiled"];
        let heads = head
            .into_iter()
            .chain(PER_THOUSAND.map(|(_, head, _)| head));
        let mut engine = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for entry in self.entries() {
            let number = |n: Option<f64>| n.map_or_else(String::new, digits);
            let goal = entry.goal.clone().unwrap_or_default();
            let met = match entry.met {
                Some(true) => "met".into(),
                Some(false) => "missed".into(),
                None => String::new(),
            };
            if let Some((_, kind)) = entry.name.split_once(' ') {
                ledger.push(vec![
                    entry.name.clone(),
                    entry.cell("none"),
                    entry.cell(kind),
                    number(entry.ratio),
                    number(entry.processor_ratio),
                    goal,
                    met,
                ]);
                continue;
            }
            if !entry.engine.is_empty() {
                let figure = |key| number(entry.engine.get(key).copied());
                let mut cells = vec![
                    entry.name.clone(),
                    number(entry.million_per_second),
                    figure(NS_PER_EXIT),
                    figure("blocks_compiled"),
                ];
                cells.extend(PER_THOUSAND.map(|(_, _, key)| figure(key)));
                engine.push(cells);
            }
            rows.push(vec![
                entry.name.clone(),
                entry.cell("qemu"),
                entry.cell("trapless"),
                number(entry.ratio),
                number(entry.speed),
                number(entry.processor_ratio),
                number(entry.million_per_second),
                goal,
                met,
            ]);
        }
        let mut text = String::new();
        if rows.len() > 1 {
            text += &format_table(&rows);
        }
        if let Some(mean) = self.geometric_mean(|e| e.speed) {
            let met = if mean >= PROGRAMS_GOAL {
                "met"
            } else {
                "missed"
            };
            let cpu = self.geometric_mean(|e| e.processor_ratio.map(|r| 1.0 / r));
            let _ = writeln!(
                text,
                "\nGeometric mean of the programs' speed: {} (goal: at least {PROGRAMS_GOAL:.1}; {met}); by processor time {}",
                digits(mean),
                cpu.map_or_else(|| "unknown".into(), digits)
            );
        }
        if ledger.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&ledger));
        }
        if engine.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&engine));
        }
        let head = ["most memory, MiB", "QEMU", "Trapless", "ratio"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (scenario, of) in self.peak_memory() {
            let of = |name| of.get(name).copied().flatten();
            if let (Some(qemu), Some(trapless)) = (of("qemu"), of("trapless")) {
                let (q, t) = (format!("{qemu:.0}"), format!("{trapless:.0}"));
                rows.push(vec![scenario.into(), q, t, digits(trapless / qemu)]);
            }
        }
        if rows.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&rows));
        }
        text
    }
}

impl Entry {
    /// What one emulator reached.
    fn cell(&self, emulator: &str) -> String {
        let Some(figures) = self.figures.get(emulator) else {
            return "-".into();
        };
        let failures = match figures.failures {
            0 => String::new(),
            n => format!(" ({n} failed)"),
        };
        match figures.median {
            Some(median) => format!("{} {}{failures}", digits(median), self.unit),
            None => "failed".into(),
        }
    }
}

/// A quotient that is a number.
fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a / b).filter(|q| q.is_finite())
}

fn compared(row: &Row, figures: BTreeMap<String, Figures>) -> Entry {
    let median = |name: &str| figures.get(name).and_then(|f: &Figures| f.median);
    let (qemu, trapless) = (median("qemu"), median("trapless"));
    let ratio = quotient(trapless, qemu);
    let processor = |name: &str| figures.get(name).and_then(|f: &Figures| f.processor);
    // Memory takes no time.
    let timed = row.unit != Unit::Resident;
    let processor_ratio = quotient(processor("trapless"), processor("qemu")).filter(|_| timed);
    let speed = ratio.map(|r| if row.unit.is_rate() { r } else { 1.0 / r });
    let (goal, met) = match row.goal {
        Goal::Ratio(most) => (Some(format!("<= {most:.2} x")), ratio.map(|r| r <= most)),
        Goal::Absolute(most) => (
            Some(format!("<= {most} {}", row.unit.text())),
            trapless.map(|t| t <= most),
        ),
        Goal::None => (None, None),
    };
    Entry {
        name: row.name.into(),
        explanation: row.explanation.into(),
        unit: row.unit.text(),
        figures,
        ratio,
        speed,
        processor_ratio,
        instructions: None,
        million_per_second: None,
        engine: BTreeMap::new(),
        goal,
        met,
    }
}

/// Each way of watching against none.
fn variants(row: &Row, figures: &BTreeMap<String, Figures>) -> Vec<Entry> {
    let pair = |(name, most): (&str, f64)| {
        let of: BTreeMap<_, _> = ["none", name]
            .into_iter()
            .filter_map(|n| Some((n.to_owned(), figures.get(n)?.clone())))
            .collect();
        let median = |n: &str| of.get(n).and_then(|f| f.median);
        let processor = |n: &str| of.get(n).and_then(|f| f.processor);
        let ratio = quotient(median(name), median("none"));
        let processor_ratio = quotient(processor(name), processor("none"));
        Entry {
            name: format!("{} {name}", row.name),
            explanation: format!("{}, Trapless without a ledger and with it", row.explanation),
            unit: row.unit.text(),
            figures: of,
            ratio,
            speed: ratio.map(|r| 1.0 / r),
            processor_ratio,
            instructions: None,
            million_per_second: None,
            engine: BTreeMap::new(),
            goal: Some(format!("<= {most:.2} x")),
            met: ratio.map(|r| r <= most),
        }
    };
    LEDGER_GOALS.map(pair).into()
}

/// Three significant digits.
fn digits(n: f64) -> String {
    let places = if n >= 100.0 {
        0
    } else if n >= 10.0 {
        1
    } else if n >= 1.0 {
        2
    } else {
        3
    };
    format!("{n:.places$}")
}

/// Columns as wide as they need; the first to the left, the others to the right.
fn format_table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            rows.iter()
                .filter_map(|r| r.get(c))
                .map(|t| t.chars().count())
                .max()
                .unwrap_or(0)
                .max(2)
        })
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(text, "| {cell:width$} ")
            } else {
                write!(text, "| {cell:>width$} ")
            };
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if column == 0 { '-' } else { ':' };
                let _ = write!(text, "|{}{end}", "-".repeat(width + 1));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Mark;

    fn row(unit: Unit, goal: Goal) -> Row {
        Row {
            name: "r",
            explanation: "",
            from: Mark::Start,
            to: Mark::Exit,
            unit,
            goal,
        }
    }

    fn figures(qemu: f64, trapless: f64) -> BTreeMap<String, Figures> {
        let of = |m| Figures {
            median: Some(m),
            ..Figures::default()
        };
        BTreeMap::from([("qemu".into(), of(qemu)), ("trapless".into(), of(trapless))])
    }

    #[test]
    fn half_the_time_and_twice_the_rate_are_twice_the_speed() {
        let time = compared(&row(Unit::Seconds, Goal::Ratio(0.4)), figures(4.0, 2.0));
        assert_eq!(
            (time.ratio, time.speed, time.met),
            (Some(0.5), Some(2.0), Some(false))
        );
        let rate = compared(&row(Unit::Rate(1), Goal::None), figures(2.0, 4.0));
        assert_eq!((rate.speed, rate.met), (Some(2.0), None));
        let own = compared(&row(Unit::Seconds, Goal::Absolute(2.0)), figures(1.0, 2.0));
        assert_eq!(own.met, Some(true));
    }

    #[test]
    fn digits_are_three() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.1234].map(digits),
            ["123", "12.3", "1.23", "0.123"]
        );
    }
}
