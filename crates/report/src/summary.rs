//! A comparison as JSON, for programs: the figures of the tables with their intervals.
//!
//! `docs/ledger.md`, section "Several runs", describes it.

use std::collections::BTreeMap;

use serde::Serialize;
use trapless_ledger::{Class, InterruptClass, Latency, LedgerFile};

use crate::compare::{Column, Comparison};
use crate::number::Space;
use crate::rows::figures::Count;
use crate::rows::latency::percentile;
use crate::rows::overview::{Overview, PARTS, Per};
use crate::statistics::{Difference, Interval, Sample};

/// Name and version of the format.
pub const SCHEMA: &str = "trapless-comparison/1";

#[derive(Serialize)]
struct Summary {
    schema: &'static str,
    /// Divisor of `all_exits` and `exits.per_1000`.
    unit: String,
    columns: Vec<Head>,
    /// The verdict on exits per interrupt, in sentences.
    verdict: String,
    /// By class, and `all`; `null` if guests took no interrupts in some run.
    exits_per_interrupt: Option<BTreeMap<&'static str, Vec<Option<Figure>>>>,
    /// Exits of all reasons per 1 000 units.
    all_exits: Vec<Option<Figure>>,
    /// Totals of the measured part.
    totals: BTreeMap<&'static str, Vec<Option<Figure>>>,
    /// By kind of exit.
    exits: BTreeMap<String, Exits>,
    /// Cost of each kind of interrupt work.
    findings: Vec<Finding>,
    /// By class.
    classes: BTreeMap<Class, Counters>,
    /// Measurements of the workloads, by name.
    measurements: BTreeMap<String, Vec<Option<Figure>>>,
    /// Latencies by name; all runs of a column together.
    latency: BTreeMap<&'static str, Vec<Option<Values>>>,
}

#[derive(Serialize)]
struct Head {
    name: String,
    machine: String,
    workload: String,
    seeds: String,
    runs: usize,
    /// Of figures; `null` for a single run.
    interval: Option<Ends>,
}

#[derive(Serialize)]
struct Ends {
    /// Number of values outside at each end.
    outside: usize,
    /// Probability with which it contains the median.
    coverage: f64,
}

/// Median and interval, and the difference from the first column.
#[derive(Serialize)]
struct Figure {
    median: f64,
    interval: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference_percent: Option<f64>,
}

#[derive(Serialize)]
struct Exits {
    count: Vec<Option<Figure>>,
    per_1000: Vec<Option<Figure>>,
    firmware_traps: Vec<Option<Figure>>,
}

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    /// Unit of the divisor; figures are per 1 000 of it.
    unit: &'static str,
    exits: Vec<Option<Figure>>,
    firmware_traps: Vec<Option<Figure>>,
}

#[derive(Serialize)]
struct Counters {
    /// Counters by name.
    counts: BTreeMap<&'static str, Vec<Option<Figure>>>,
    exits_per_1000_taken: Vec<Option<Figure>>,
    firmware_traps_per_1000_taken: Vec<Option<Figure>>,
}

/// A latency in cycles; percentiles are `null` of too few values.
#[derive(Serialize)]
struct Values {
    count: u64,
    min: u64,
    median: u64,
    p90: Option<u64>,
    p99: Option<u64>,
    p999: Option<u64>,
    max: u64,
}

/// What [`report`](crate::report) and [`page`](crate::page) show, as JSON with a final newline.
pub fn summary(ledgers: &[LedgerFile]) -> String {
    let comparison = Comparison::new(ledgers);
    let overview = comparison.overview();
    let summary = Summary {
        schema: SCHEMA,
        unit: comparison.unit.clone(),
        columns: comparison.columns.iter().map(head).collect(),
        verdict: comparison.verdict(&overview, Space::Plain).text(),
        exits_per_interrupt: per_interrupt(&overview),
        all_exits: figures(&comparison.total_exits()),
        totals: totals(&comparison),
        exits: exits(&comparison),
        findings: findings(&comparison),
        classes: classes(&comparison),
        measurements: measurements(&comparison),
        latency: latencies(&comparison),
    };
    // Cannot fail: keys are strings and figures finite.
    let mut text = serde_json::to_string_pretty(&summary).unwrap_or_default();
    text.push('\n');
    text
}

fn head(column: &Column) -> Head {
    let run = &column.first().file.run;
    let runs = column.runs.len();
    let interval = Interval::of(runs);
    Head {
        name: column.name.clone(),
        machine: run.machine.clone(),
        workload: run.workload.clone(),
        seeds: column.seeds(),
        runs,
        interval: (runs > 1).then_some(Ends {
            outside: interval.outside,
            coverage: interval.coverage,
        }),
    }
}

fn figures(samples: &[Option<Sample>]) -> Vec<Option<Figure>> {
    let base = samples.first().and_then(Option::as_ref);
    let figure = |(i, sample): (usize, &Option<Sample>)| {
        let sample = sample.as_ref()?;
        let difference = match base {
            Some(base) if i > 0 => sample.difference(base),
            _ => Difference::Unknown,
        };
        let (difference, difference_percent) = match difference {
            Difference::Unknown => (None, None),
            Difference::NotShown => (Some("not shown"), None),
            Difference::Shown(percent) => (Some("shown"), percent),
        };
        Some(Figure {
            median: sample.median(),
            interval: sample.interval(),
            difference,
            difference_percent,
        })
    };
    samples.iter().enumerate().map(figure).collect()
}

fn per_interrupt(overview: &Overview) -> Option<BTreeMap<&'static str, Vec<Option<Figure>>>> {
    let name = |part: Option<Class>| part.map_or("other", Class::name);
    let parts = PARTS.into_iter().zip(&overview.parts);
    let mut all: BTreeMap<_, _> = parts
        .map(|(part, samples)| (name(part), figures(samples)))
        .collect();
    all.insert("all", figures(&overview.exits));
    all.insert("firmware_traps", figures(&overview.firmware));
    (overview.per == Per::Interrupt).then_some(all)
}

fn totals(comparison: &Comparison) -> BTreeMap<&'static str, Vec<Option<Figure>>> {
    let counts: [(&str, Count); 4] = [
        ("cycles", |s| s.cycles),
        ("exits", |s| s.guest_exits),
        ("firmware_traps", |s| s.firmware.total),
        ("syscalls", |s| s.exits.values().map(|e| e.syscalls).sum()),
    ];
    let total = |count: Count| comparison.samples(|run| count(run.section) as f64);
    let totals = counts.into_iter();
    totals
        .map(|(name, count)| (name, figures(&total(count))))
        .collect()
}

fn measurements(comparison: &Comparison) -> BTreeMap<String, Vec<Option<Figure>>> {
    let names = comparison.measurements().into_iter();
    let of = |name| figures(&comparison.measurement(name));
    names
        .map(|(name, _)| (name.to_string(), of(name)))
        .collect()
}

fn exits(comparison: &Comparison) -> BTreeMap<String, Exits> {
    let rows = comparison.exit_rows().into_iter();
    let row = |row: crate::rows::exits::ExitRow| {
        let count = row.samples(comparison, |_, exit| exit.exits as f64);
        let rate = row.samples(comparison, |run, exit| run.per_thousand(exit.exits));
        let firmware = row.samples(comparison, |_, exit| exit.firmware_traps as f64);
        let exits = Exits {
            count: figures(&count),
            per_1000: figures(&rate),
            firmware_traps: figures(&firmware),
        };
        (row.label, exits)
    };
    rows.map(row).collect()
}

fn findings(comparison: &Comparison) -> Vec<Finding> {
    let all = comparison.findings().into_iter();
    all.map(|finding| Finding {
        what: finding.what,
        unit: finding.unit,
        exits: figures(&finding.exits),
        firmware_traps: figures(&finding.firmware),
    })
    .collect()
}

fn classes(comparison: &Comparison) -> BTreeMap<Class, Counters> {
    let used = Class::ALL.into_iter().filter(|c| comparison.has_class(*c));
    let class = |class: Class| {
        let counters = InterruptClass::COUNTERS.iter().map(|counter| {
            let samples = comparison.samples(|run| match run.section.interrupts.get(&class) {
                Some(part) => (counter.get)(part) as f64,
                None => f64::NAN,
            });
            (counter.name, figures(&samples))
        });
        let counters = Counters {
            counts: counters.collect(),
            exits_per_1000_taken: figures(&comparison.rates(class, |c| c.exits)),
            firmware_traps_per_1000_taken: figures(&comparison.rates(class, |c| c.firmware_traps)),
        };
        (class, counters)
    };
    used.map(class).collect()
}

fn latencies(comparison: &Comparison) -> BTreeMap<&'static str, Vec<Option<Values>>> {
    let values = |l: Latency| Values {
        count: l.count,
        min: l.min,
        median: l.p50,
        p90: percentile(&l, 900),
        p99: percentile(&l, 990),
        p999: percentile(&l, 999),
        max: l.max,
    };
    let rows = comparison.latency_rows().into_iter();
    let row = |key| {
        let columns = comparison.columns.iter();
        columns.map(|c| c.latency(key).map(values)).collect()
    };
    rows.map(|(key, _)| (key, row(key))).collect()
}
