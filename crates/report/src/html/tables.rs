//! Tables of the page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use trapless_ledger::document::{Cost, Exit};
use trapless_ledger::{RunInfo, Section};

use super::markup::{TableSpec, boxed, details};
use crate::classes::Block;
use crate::compare::{Column, Comparison, Row, Run, cells};
use crate::exits::ExitRow;
use crate::latency::percentile;
use crate::number::{self, Space};
use crate::statistics::Sample;

/// Lines shown before the rest is folded away.
const OPEN_ROWS: usize = 15;

fn head(comparison: &Comparison, first: &str) -> Vec<String> {
    let names = comparison.columns.iter().map(|c| c.name.clone());
    std::iter::once(first.to_string()).chain(names).collect()
}

fn count(n: u64) -> String {
    number::count(n, Space::NoBreak)
}

/// One column per ledger.
fn plain(comparison: &Comparison, caption: &str, rows: Vec<Row>) -> Markup {
    let cells = |(label, cells): Row| ("", std::iter::once(label).chain(cells).collect());
    let rows = rows.into_iter().map(cells).collect();
    TableSpec {
        caption,
        groups: Vec::new(),
        head: head(comparison, ""),
        rows,
        words: false,
    }
    .html()
}

/// Exits by reason with what was charged to them.
pub fn exits(comparison: &Comparison, rows: &[ExitRow]) -> Markup {
    let mut head = vec!["Reason".to_string()];
    // More would not fit beside each other.
    let shown = if comparison.columns.len() > 2 { 3 } else { 5 };
    let figures = [
        "exits",
        "per\u{a0}1\u{202f}000",
        "firmware",
        "host",
        "mean time",
    ];
    let mut groups = Vec::new();
    for c in &comparison.columns {
        groups.push((c.name.clone(), shown));
        head.extend(figures.iter().take(shown).map(|f| (*f).to_string()));
    }
    let line = |class, row: &ExitRow| {
        let figures = exit_figures(comparison, row);
        let mut cells = vec![row.label.clone()];
        for i in 0..comparison.columns.len() {
            let shown = figures.iter().take(shown);
            cells.extend(shown.map(|figure| figure[i].clone()));
        }
        (class, cells)
    };
    let mut lines: Vec<_> = rows.iter().map(|row| line("", row)).collect();
    let total = ExitRow::sum("all exits".to_string(), comparison, rows);
    lines.push(line("sum", &total));
    let caption = if shown == 3 {
        "Firmware: traps handled in M-mode until the guest ran again"
    } else {
        "Firmware, host: traps handled in M-mode and in HS-mode until the guest ran again. \
         Mean time: host and firmware time until then, without waiting"
    };
    TableSpec {
        caption,
        groups,
        head,
        rows: lines,
        words: false,
    }
    .html()
}

/// Cells of a row of exits by figure: exits, rate, firmware traps, host traps, mean time.
fn exit_figures(comparison: &Comparison, row: &ExitRow) -> [Vec<String>; 5] {
    let hertz = comparison
        .columns
        .first()
        .map_or(1, |c| c.clock().cycles_per_second);
    let number = |v| number::decimal(v, Space::NoBreak);
    let time = |v: f64| number::duration(v as u64, hertz, Space::NoBreak);
    let figure = |f: fn(&Run, &Exit) -> f64| cells(&row.samples(comparison, f), number);
    // In cycles of the first column's clock: one row, one unit.
    let mean = row.samples(comparison, |run, exit| {
        let busy = exit.cycles.iter().filter(|(mode, _)| *mode != "idle");
        let busy: u64 = busy.map(|(_, cycles)| cycles).sum();
        let own = run.file.run.clock.cycles_per_second as f64;
        busy as f64 / exit.exits as f64 * hertz as f64 / own
    });
    [
        figure(|_, exit| exit.exits as f64),
        figure(|run, exit| run.per_thousand(exit.exits)),
        figure(|_, exit| exit.firmware_traps as f64),
        figure(|_, exit| exit.host_traps as f64),
        cells(&mean, time),
    ]
}

/// Interrupts as the guests saw them, and firmware.
pub fn interrupts(comparison: &Comparison) -> Markup {
    let caption = "Counts in the workload's part of the run";
    plain(
        comparison,
        caption,
        comparison.interrupt_rows(Space::NoBreak),
    )
}

/// Interrupts by class.
pub fn classes(comparison: &Comparison, blocks: Vec<Block>) -> Markup {
    html! {
        @for (title, rows) in blocks {
            h3 { (title) }
            (plain(comparison, "Counts in the workload's part of the run", rows))
        }
    }
}

/// Percentiles of one latency.
pub fn latency(comparison: &Comparison, key: &str) -> Markup {
    let columns = comparison.columns.iter();
    let columns = columns.filter_map(|c| Some((c, c.latency(key)?)));
    let rows = columns.map(|(c, l)| {
        let us = |v: u64| number::micros_text(c.micros(v as f64), Space::NoBreak);
        let beyond = |per_mille| percentile(&l, per_mille).map_or("–".to_string(), us);
        let mean = number::micros_text(c.micros(l.mean()), Space::NoBreak);
        let (p90, p99, p999) = (beyond(900), beyond(990), beyond(999));
        let cells = vec![c.name.clone(), count(l.count), mean, us(l.min), us(l.p50)];
        let cells = [cells, vec![p90, p99, p999, us(l.max)]].concat();
        ("", cells)
    });
    let head = [
        "", "count", "mean", "min", "median", "p90", "p99", "p99.9", "max",
    ];
    let head = head.map(str::to_string).to_vec();
    TableSpec {
        caption: "Microseconds of virtual time",
        groups: Vec::new(),
        head,
        rows: rows.collect(),
        words: false,
    }
    .html()
}

/// Time by mode, all harts.
pub fn time(comparison: &Comparison) -> Markup {
    let caption = "Share of all harts' time in the workload's part of the run";
    let measured = comparison.measurement_rows(Space::NoBreak);
    let threads = comparison.thread_rows(Space::NoBreak);
    html! {
        (plain(comparison, caption, comparison.time_rows(Space::NoBreak)))
        @if !threads.is_empty() {
            (plain(comparison, &comparison.thread_title(Space::NoBreak), threads))
        }
        @if !measured.is_empty() {
            (plain(comparison, "Measured by the workload itself", measured))
        }
    }
}

/// Counts by name over all columns, most frequent first.
fn counted(comparison: &Comparison, counts: fn(&Section) -> BTreeMap<String, u64>) -> Vec<Row> {
    let of_run = |run: &Run| counts(run.section);
    let of_column = |c: &Column| c.runs.iter().map(of_run).collect();
    let maps: Vec<Vec<BTreeMap<String, u64>>> = comparison.columns.iter().map(of_column).collect();
    let names: BTreeSet<&String> = maps.iter().flatten().flat_map(BTreeMap::keys).collect();
    let mut rows: Vec<(f64, Row)> = Vec::new();
    for name in names {
        let value = |map: &BTreeMap<String, u64>| map.get(name).copied().unwrap_or(0) as f64;
        let sample = |runs: &Vec<_>| Sample::new(runs.iter().map(value));
        let samples: Vec<Option<Sample>> = maps.iter().map(sample).collect();
        let medians = samples.iter().flatten().map(Sample::median);
        let cells = cells(&samples, |v| number::decimal(v, Space::NoBreak));
        rows.push((medians.fold(0.0, f64::max), (name.clone(), cells)));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn folded(comparison: &Comparison, caption: &str, mut rows: Vec<Row>) -> Markup {
    let rest = rows.split_off(rows.len().min(OPEN_ROWS));
    html! {
        (plain(comparison, caption, rows))
        @if !rest.is_empty() {
            (details(&format!("{} rarer ones", rest.len()), plain(comparison, caption, rest)))
        }
    }
}

/// Reason chains.
pub fn chains(comparison: &Comparison) -> Markup {
    let rows = counted(comparison, |section| section.chains.clone());
    folded(comparison, "Number of exits", rows)
}

/// Traps by kind, all harts.
pub fn traps(comparison: &Comparison) -> Markup {
    let rows = counted(comparison, |section| {
        let mut map = BTreeMap::new();
        for t in &section.traps {
            *map.entry(format!("{} → {}: {}", t.from, t.to, t.cause))
                .or_default() += t.count;
        }
        map
    });
    folded(comparison, "Number of traps", rows)
}

/// A table of texts by name; rows in which columns differ are marked.
fn texts(comparison: &Comparison, caption: &str, maps: &[BTreeMap<String, String>]) -> Markup {
    let names: BTreeSet<&String> = maps.iter().flat_map(|m| m.keys()).collect();
    if names.is_empty() {
        return html! { p { "Not recorded." } };
    }
    let rows = names.into_iter().map(|name| {
        let values: Vec<String> = maps
            .iter()
            .map(|m| m.get(name).cloned().unwrap_or_else(|| "–".to_string()))
            .collect();
        let class = if values.windows(2).any(|w| w[0] != w[1]) {
            "differs"
        } else {
            ""
        };
        (class, std::iter::once(name.clone()).chain(values).collect())
    });
    TableSpec {
        caption,
        groups: Vec::new(),
        head: head(comparison, ""),
        rows: rows.collect(),
        words: true,
    }
    .html()
}

/// Configuration, cost model, packages, revision.
pub fn provenance(comparison: &Comparison) -> Markup {
    let map = |f: fn(&RunInfo) -> BTreeMap<String, String>| -> Vec<_> {
        let runs = comparison.columns.iter().map(|c| &c.first().file.run);
        runs.map(f).collect()
    };
    let mut settings = map(general);
    for (c, settings) in comparison.columns.iter().zip(&mut settings) {
        settings.insert("seed".to_string(), c.seeds());
    }
    let packages = map(|run| run.packages.clone());
    let used = "Versions of what the images are made of";
    html! {
        h3 { "Configuration" }
        (texts(comparison, "Rows in which the columns differ are marked", &settings))
        h3 { "Packages" }
        (texts(comparison, used, &packages))
        h3 { "Cost model" }
        (costs(comparison, &map(prices)))
    }
}

fn general(run: &RunInfo) -> BTreeMap<String, String> {
    let clock = &run.clock;
    let mut map = run.configuration.clone();
    map.insert("machine".to_string(), run.machine.clone());
    map.insert("workload".to_string(), run.workload.clone());
    map.insert("git revision".to_string(), run.git_revision.clone());
    map.insert(
        "clock".to_string(),
        format!(
            "{} MHz, time at {} MHz",
            clock.cycles_per_second as f64 / 1e6,
            clock.cycles_per_second as f64 / clock.cycles_per_tick.max(1) as f64 / 1e6
        ),
    );
    map
}

fn prices(run: &RunInfo) -> BTreeMap<String, String> {
    let figure = |c: &Cost| (c.name.clone(), format!("{} cycles", c.cycles));
    run.cost_model.iter().map(figure).collect()
}

fn costs(comparison: &Comparison, prices: &[BTreeMap<String, String>]) -> Markup {
    let same = prices.windows(2).all(|w| w[0] == w[1]);
    match comparison.columns.first() {
        Some(first) if same && !prices[0].is_empty() => cost_table(&first.first().file.run),
        Some(_) if !same => html! {
            (texts(comparison, "The machines were run under different models", prices))
            @for c in &comparison.columns {
                (details(&format!("Sources of {}", c.name), cost_table(&c.first().file.run)))
            }
        },
        _ => html! { p { "Not recorded." } },
    }
}

fn cost_table(run: &RunInfo) -> Markup {
    let content = html! {
        caption { "Prices of virtual time. Counts of a workload that waits depend on them, too" }
        thead {
            tr {
                th scope="col" { "Work" }
                th scope="col" { "Cycles" }
                th scope="col" { "Source" }
            }
        }
        tbody {
            @for c in &run.cost_model {
                tr { th scope="row" { (c.name) } td { (count(c.cycles)) } td { (c.source) } }
            }
        }
    };
    boxed("Cost model", true, content)
}
