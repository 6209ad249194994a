//! Groups ledgers into columns; figures shared by all formats of a report.

use std::collections::{BTreeMap, BTreeSet};

use trapless_ledger::counters::{Counter, Shown};
use trapless_ledger::document::{Clock, HartInfo};
use trapless_ledger::{Latency, LedgerFile, Section, Slot};

use crate::cell::{Row, SAME, cell, cells};
use crate::number::{self, Space};
use crate::statistics::{Difference, Interval, Sample};
use crate::titles::{by_seed, seed, seeds, settings, titles};

/// One run of a column.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Its ledger.
    pub file: &'a LedgerFile,
    /// Its workload phase.
    pub section: &'a Section,
    /// Divisor of figures per 1 000.
    pub work: u64,
}

/// Runs that differ in nothing but the seed.
#[derive(Clone)]
pub struct Column<'a> {
    /// Name, different from that of every other column.
    pub name: String,
    /// At least one, in order of the seeds.
    pub runs: Vec<Run<'a>>,
}

/// Several columns side by side.
#[derive(Clone)]
pub struct Comparison<'a> {
    /// Columns in the order of their first ledgers.
    pub columns: Vec<Column<'a>>,
    /// Index of the baseline column, with which sentences compare the others.
    pub base: usize,
    /// Unit of [`Run::work`], plural.
    pub unit: String,
    /// Whether the workload reported its work itself; else interrupts taken by guests are counted.
    pub reported: bool,
}

/// Ledgers by what is the same in all runs of a column. A seed that a column has already starts
/// another column: a repeated run is not a further sample.
fn grouped(ledgers: &[LedgerFile]) -> Vec<Vec<&LedgerFile>> {
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&LedgerFile>)> = Vec::new();
    for ledger in ledgers {
        let settings = settings(ledger);
        let known = |runs: &[&LedgerFile]| runs.iter().any(|run| seed(run) == seed(ledger));
        let group = groups.iter_mut().find(|g| g.0 == settings && !known(&g.1));
        match group {
            Some((_, runs)) => runs.push(ledger),
            None => groups.push((settings, vec![ledger])),
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(_, runs)| runs).collect();
    for runs in &mut groups {
        runs.sort_by_key(|run| by_seed(run));
    }
    groups
}

impl<'a> Comparison<'a> {
    /// Groups `ledgers`: those that differ only in the seed share a column.
    pub fn new(ledgers: &'a [LedgerFile]) -> Self {
        let units: BTreeSet<_> = ledgers
            .iter()
            .map(|l| l.run.work.as_ref().map(|w| w.unit.as_str()))
            .collect();
        let common = match units.first() {
            Some(Some(unit)) if units.len() == 1 => Some((*unit).to_string()),
            _ => None,
        };
        let work = |l: &LedgerFile| match (&common, &l.run.work) {
            (Some(_), Some(work)) => work.count,
            _ => l.workload().guest_interrupts.taken.values().sum(),
        };
        let run = |file: &'a LedgerFile| Run {
            file,
            section: file.workload(),
            work: work(file),
        };
        let groups = grouped(ledgers);
        let columns = titles(&groups).into_iter().zip(groups);
        Self {
            columns: columns
                .map(|(name, runs)| Column {
                    name,
                    runs: runs.into_iter().map(run).collect(),
                })
                .collect(),
            base: 0,
            reported: common.is_some(),
            unit: common.unwrap_or_else(|| "guest interrupts".to_string()),
        }
    }

    /// The same with column `base` as the baseline.
    pub fn against(&self, base: usize) -> Self {
        Self {
            base,
            ..self.clone()
        }
    }

    /// "per 1 000 wake-ups".
    pub fn per_thousand_text(&self, space: Space) -> String {
        format!("per {} {}", number::count(1000, space), self.unit)
    }

    /// Which part of the runs the figures are about.
    pub fn scope(&self, space: Space) -> String {
        let part = |c: &Column| {
            let length = c.duration(|run| run.section.cycles, space);
            let whole = c.duration(|run| run.file.total.cycles, space);
            format!("{length} of {whole} on {}", c.name)
        };
        let marked = |run: &Run| run.file.phases.iter().any(|p| p.name == "workload");
        if self.columns.iter().all(|c| c.runs.iter().all(marked)) {
            let parts: Vec<String> = self.columns.iter().map(part).collect();
            format!(
                "Counted while the workload ran: {} (virtual time).",
                parts.join("; ")
            )
        } else {
            "Counted over the whole run: the workload did not mark its begin and end.".to_string()
        }
    }

    /// How to read figures of several runs; `None` if each column is a single one.
    pub fn method(&self) -> Option<String> {
        let several = self.columns.iter().filter(|c| c.runs.len() > 1);
        let mut sets: Vec<(usize, String)> = Vec::new();
        for column in several {
            let set = (column.runs.len(), column.seeds());
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        let parts: Vec<String> = sets
            .iter()
            .map(|(n, seeds)| interval_text(*n, seeds))
            .collect();
        let base = self.columns.get(self.base).map_or("", |c| &c.name);
        let mark = if self.columns.len() > 1 {
            format!(" {SAME}: no difference from {base} shown, the intervals overlap.")
        } else {
            String::new()
        };
        (!parts.is_empty()).then(|| {
            format!(
                "Figures are medians of several runs, with an interval for the median in brackets: \
                 {}. Latencies are those of all runs together.{mark}",
                parts.join("; ")
            )
        })
    }
}

/// "5 runs (seeds 0..4), from the smallest to the largest value, which covers it with 93.75 %".
fn interval_text(runs: usize, seeds: &str) -> String {
    let interval = Interval::of(runs);
    let ends = match interval.outside {
        0 => "from the smallest to the largest value".to_string(),
        n => format!(
            "from value {} to value {} in order of size",
            n + 1,
            runs - n
        ),
    };
    let coverage = (interval.coverage * 10_000.0).floor() / 100.0;
    format!("{runs} runs (seeds {seeds}), {ends}, which covers it with {coverage} %")
}

impl<'a> Column<'a> {
    /// Any of the runs, for values that are the same in all of them.
    pub fn first(&self) -> &Run<'a> {
        &self.runs[0]
    }

    /// The seeds of its runs, in short.
    pub fn seeds(&self) -> String {
        let files: Vec<&LedgerFile> = self.runs.iter().map(|run| run.file).collect();
        seeds(&files)
    }

    /// A figure of each run.
    pub fn sample(&self, figure: impl Fn(&Run) -> f64) -> Option<Sample> {
        Sample::new(self.runs.iter().map(figure))
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.first().file.run.clock
    }

    /// Cycles in microseconds of this column's clock.
    pub fn micros(&self, cycles: f64) -> f64 {
        number::micros(cycles, self.clock().cycles_per_second)
    }

    /// A time in cycles with its unit.
    fn duration(&self, cycles: impl Fn(&Run) -> u64, space: Space) -> String {
        let time = |v: f64| number::duration(v as u64, self.clock().cycles_per_second, space);
        cell(self.sample(|run| cycles(run) as f64).as_ref(), time)
    }

    /// A latency histogram of all runs together.
    pub fn latency(&self, key: &str) -> Option<Latency> {
        self.pooled(|section| section.latency.get(key))
    }

    /// A histogram of all runs together.
    pub fn pooled(&self, part: impl Fn(&Section) -> Option<&Latency>) -> Option<Latency> {
        Latency::pooled(self.runs.iter().filter_map(|run| part(run.section)))
    }

    /// Cycles of all harts and runs by mode, in the order VU, VS, U, HS, M, idle.
    pub fn time(&self) -> Times {
        let harts = || self.runs.iter().flat_map(|run| &run.section.harts);
        time_of(harts)
    }

    /// The same of one hart.
    pub fn time_of_hart(&self, hart: usize) -> Times {
        let harts = || self.runs.iter().flat_map(|run| &run.section.harts);
        time_of(|| harts().filter(|h| h.hart == hart))
    }

    /// The harts of any run.
    pub fn harts(&self) -> BTreeSet<usize> {
        let harts = self.runs.iter().flat_map(|run| &run.section.harts);
        harts.map(|h| h.hart).collect()
    }
}

impl Run<'_> {
    /// A count per 1 000 units of work; 0 if there was none.
    pub fn per_thousand(&self, n: u64) -> f64 {
        if self.work == 0 {
            0.0
        } else {
            n as f64 * 1000.0 / self.work as f64
        }
    }
}

/// Cycles of some harts by mode.
pub(crate) fn time_of<'h, I: Iterator<Item = &'h HartInfo>>(harts: impl Fn() -> I) -> Times {
    Slot::ALL.map(|slot| {
        let of = |h: &HartInfo| h.cycles.get(&slot).copied().unwrap_or(0);
        (slot, harts().map(of).sum())
    })
}

/// Cycles by mode.
pub type Times = [(Slot, u64); Slot::ALL.len()];

impl Comparison<'_> {
    /// A figure of each run of each column.
    pub(crate) fn samples(&self, figure: impl Fn(&Run) -> f64) -> Vec<Option<Sample>> {
        self.columns.iter().map(|c| c.sample(&figure)).collect()
    }

    /// A row of a count.
    pub(crate) fn count_row(
        &self,
        label: &str,
        space: Space,
        count: impl Fn(&Section) -> Option<u64>,
    ) -> Row {
        let value = |run: &Run| count(run.section).map_or(f64::NAN, |n| n as f64);
        let text = |v| number::decimal(v, space);
        (label.to_string(), cells(&self.samples(value), text))
    }

    /// Rows of the counters of a part, by their declarations.
    pub(crate) fn counter_rows<T>(
        &self,
        counters: &[Counter<T>],
        space: Space,
        part: impl Fn(&Section) -> Option<&T>,
    ) -> Vec<Row> {
        let of = |counter: &Counter<T>, s: &Section| part(s).map(|part| (counter.get)(part));
        let shown = counters
            .iter()
            .filter(|counter| self.has_row(counter, |s| of(counter, s).unwrap_or(0)));
        let row = |counter: &Counter<T>| self.count_row(counter.label, space, |s| of(counter, s));
        shown.map(row).collect()
    }

    /// Whether a counter has a row; `count` is its value.
    pub(crate) fn has_row<T>(&self, counter: &Counter<T>, count: impl Fn(&Section) -> u64) -> bool {
        match counter.shown {
            Shown::IfAny => self.any(count),
            Shown::Always | Shown::WithRate => true,
            Shown::Elsewhere => false,
        }
    }

    /// How the figure of column `i` differs from the baseline's, as text to follow it directly:
    /// each figure is judged by itself. Empty for the baseline, for single runs, and where all
    /// values are the same.
    pub(crate) fn judgement(&self, samples: &[Option<Sample>], i: usize) -> String {
        let of = |column: usize| samples.get(column).and_then(Option::as_ref);
        let (Some(sample), Some(base)) = (of(i), of(self.base)) else {
            return String::new();
        };
        match sample.difference(base) {
            Difference::NotShown if sample.interval() != base.interval() => {
                " (no difference shown)".to_string()
            }
            Difference::Shown(Some(change)) => {
                let sign = if change < 0.0 { "−" } else { "+" };
                format!(" ({sign}{} %)", number::magnitude(change))
            }
            _ => String::new(),
        }
    }

    /// A figure of each column with its difference: "110 exits on aia (−78 %)".
    pub(crate) fn figure_parts(
        &self,
        samples: &[Option<Sample>],
        what: &str,
        space: Space,
    ) -> Vec<String> {
        let part = |(i, c): (usize, &Column)| {
            let text = cell(samples[i].as_ref(), |v| number::decimal(v, space));
            let judgement = self.judgement(samples, i);
            format!("{text}{what} on {}{judgement}", c.name)
        };
        self.columns.iter().enumerate().map(part).collect()
    }

    /// Whether any run has a count that is not 0.
    pub(crate) fn any(&self, count: impl Fn(&Section) -> u64) -> bool {
        let runs = self.columns.iter().flat_map(|c| &c.runs);
        runs.into_iter().any(|run| count(run.section) != 0)
    }
}

/// A count per 1 000 of something else. Not a number if that did not occur while the count did.
pub(crate) fn per_thousand(n: u64, of: u64) -> f64 {
    match (n, of) {
        (0, 0) => 0.0,
        (_, 0) => f64::NAN,
        (n, of) => n as f64 * 1000.0 / of as f64,
    }
}

/// Description of a mode.
pub fn mode_text(slot: Slot) -> &'static str {
    match slot {
        Slot::VU => "guest user (VU)",
        Slot::VS => "guest kernel (VS)",
        Slot::U => "host user (U)",
        Slot::HS => "host kernel (HS)",
        Slot::M => "firmware (M)",
        Slot::Idle => "idle (WFI)",
    }
}
