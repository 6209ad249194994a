//! Tables of the page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use trapless_ledger::RunInfo;
use trapless_ledger::document::Cost;

use super::markup::{TableSpec, boxed, details};
use crate::classes::Block;
use crate::compare::{Comparison, Row};
use crate::exits::ExitRow;
use crate::number::{self, Space};

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
    let line = |class, label: &str, exits: &[trapless_ledger::document::Exit]| {
        let mut cells = vec![label.to_string()];
        for (c, e) in comparison.columns.iter().zip(exits) {
            let busy: u64 = e
                .cycles
                .iter()
                .filter(|(m, _)| *m != "idle")
                .map(|(_, n)| n)
                .sum();
            let mean = busy.checked_div(e.exits).map_or("–".to_string(), |mean| {
                number::duration(mean, c.clock().cycles_per_second, Space::NoBreak)
            });
            let rate = number::decimal(c.per_thousand(e.exits), Space::NoBreak);
            let all = [
                count(e.exits),
                rate,
                count(e.firmware_traps),
                count(e.host_traps),
                mean,
            ];
            cells.extend(all.into_iter().take(shown));
        }
        (class, cells)
    };
    let mut lines: Vec<_> = rows.iter().map(|r| line("", &r.label, &r.exits)).collect();
    let mut total = vec![Default::default(); comparison.columns.len()];
    for row in rows {
        total
            .iter_mut()
            .zip(&row.exits)
            .for_each(|(t, e): (&mut trapless_ledger::document::Exit, _)| t.add(e));
    }
    lines.push(line("sum", "all exits", &total));
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
    let columns = comparison
        .columns
        .iter()
        .filter_map(|c| Some((c, c.latency(key)?)));
    let rows = columns.map(|(c, l)| {
        let us = |v: f64| number::micros_text(c.micros(v), Space::NoBreak);
        let values = [l.min, l.p50, l.p90, l.p99, l.p999, l.max].map(|v| us(v as f64));
        let mut cells = vec![c.name.clone(), count(l.count), us(l.mean())];
        cells.extend(values);
        ("", cells)
    });
    let head = [
        "", "count", "mean", "min", "p50", "p90", "p99", "p99.9", "max",
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
    html! {
        (plain(comparison, caption, comparison.time_rows(Space::NoBreak)))
        @if !measured.is_empty() {
            (plain(comparison, "Measured by the workload itself", measured))
        }
    }
}

/// Counts by name over all columns, most frequent first.
fn counted(comparison: &Comparison, maps: Vec<BTreeMap<String, u64>>) -> Vec<Row> {
    let mut rows: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (i, map) in maps.into_iter().enumerate() {
        for (name, n) in map {
            rows.entry(name)
                .or_insert_with(|| vec![0; comparison.columns.len()])[i] += n;
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().copied().max()));
    rows.into_iter()
        .map(|(name, counts)| (name, counts.into_iter().map(count).collect()))
        .collect()
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
    let maps = comparison
        .columns
        .iter()
        .map(|c| c.section.chains.clone())
        .collect();
    folded(comparison, "Number of exits", counted(comparison, maps))
}

/// Traps by kind, all harts.
pub fn traps(comparison: &Comparison) -> Markup {
    let maps = comparison.columns.iter().map(|c| {
        let mut map = BTreeMap::new();
        for t in &c.section.traps {
            *map.entry(format!("{} → {}: {}", t.from, t.to, t.cause))
                .or_default() += t.count;
        }
        map
    });
    folded(
        comparison,
        "Number of traps",
        counted(comparison, maps.collect()),
    )
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
        comparison.columns.iter().map(|c| f(&c.file.run)).collect()
    };
    let packages = map(|run| run.packages.clone());
    let used = "Versions of what the images are made of";
    html! {
        h3 { "Configuration" }
        (texts(comparison, "Rows in which the machines differ are marked", &map(general)))
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
        Some(first) if same && !first.file.run.cost_model.is_empty() => cost_table(&first.file.run),
        Some(_) if !same => html! {
            (texts(comparison, "The machines were run under different models", prices))
            @for c in &comparison.columns {
                (details(&format!("Sources of {}", c.name), cost_table(&c.file.run)))
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
