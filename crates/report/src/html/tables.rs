//! Tables of the page.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use trapless_ledger::document::{Cost, Exit};
use trapless_ledger::{RunInfo, Section, Slot};

use super::markup::{Line, TableSpec, block, boxed, details};
use crate::cell::{Cell, NONE, Row, cells};
use crate::compare::{Column, Comparison, Run};
use crate::number::{self, Space};
use crate::rows::classes::Block;
use crate::rows::exits::ExitRow;
use crate::rows::latency::percentile;
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

/// One column per ledger. In `sortable` tables all rows are of one kind.
fn plain(comparison: &Comparison, caption: &str, rows: Vec<Row>, sortable: bool) -> Markup {
    let line = |(label, cells): Row| Line {
        class: "",
        label,
        cells,
    };
    TableSpec {
        caption,
        head: head(comparison, if sortable { "Name" } else { "" }),
        rows: rows.into_iter().map(line).collect(),
        words: false,
        sortable,
    }
    .html()
}

/// A figure as text.
type Text<'a> = &'a dyn Fn(f64) -> String;

/// A figure of a kind of exits in each run.
type ExitFigure = fn(&Run, &Exit) -> f64;

/// Exits by reason: a table of the counts, and one for each figure of what was charged to them.
pub fn exits(comparison: &Comparison, rows: &[ExitRow]) -> Markup {
    let rate = format!("Exits {}", comparison.per_thousand_text(Space::NoBreak));
    let charged = "until the guest ran again";
    let second = comparison
        .columns
        .first()
        .map_or(1, |c| c.clock().cycles_per_second);
    let number = |v: f64| number::decimal(v, Space::NoBreak);
    let time = |v: f64| number::duration((v * second as f64) as u64, second, Space::NoBreak);
    let figures: [(&str, &str, ExitFigure, Text); 4] = [
        (
            "Rates",
            &rate,
            |run, exit| run.per_thousand(exit.exits),
            &number,
        ),
        (
            "Firmware traps",
            &format!("Traps handled in M-mode {charged}"),
            |_, exit| exit.firmware_traps as f64,
            &number,
        ),
        (
            "Host traps",
            &format!("Traps handled in HS-mode {charged}"),
            |_, exit| exit.host_traps as f64,
            &number,
        ),
        (
            "Mean time",
            &format!("Host and firmware time of an exit {charged}, without waiting"),
            |run, exit| busy(run, exit) / exit.exits as f64,
            &time,
        ),
    ];
    html! {
        (exit_table(comparison, rows, "Exits in the measured part", |_, exit| exit.exits as f64, number))
        @for (title, caption, figure, text) in figures {
            (details(title, exit_table(comparison, rows, caption, figure, text)))
        }
    }
}

/// Host and firmware time charged to exits, without waiting, in seconds.
fn busy(run: &Run, exit: &Exit) -> f64 {
    let busy = exit.cycles.iter().filter(|(slot, _)| **slot != Slot::Idle);
    let cycles: u64 = busy.map(|(_, cycles)| cycles).sum();
    cycles as f64 / run.file.run.clock.cycles_per_second as f64
}

/// A figure of each kind of exit, and of all of them.
fn exit_table(
    comparison: &Comparison,
    rows: &[ExitRow],
    caption: &str,
    figure: ExitFigure,
    text: impl Fn(f64) -> String,
) -> Markup {
    let line = |class, row: &ExitRow| Line {
        class,
        label: row.label.clone(),
        cells: cells(&row.samples(comparison, figure), &text),
    };
    let mut lines: Vec<_> = rows.iter().map(|row| line("", row)).collect();
    let total = ExitRow::sum("all exits".to_string(), comparison, rows);
    lines.push(line("sum", &total));
    TableSpec {
        caption,
        head: head(comparison, "Reason"),
        rows: lines,
        words: false,
        sortable: true,
    }
    .html()
}

/// Cost of each kind of interrupt work.
pub fn findings(comparison: &Comparison) -> Markup {
    let text = |v| number::decimal(v, Space::NoBreak);
    let rows = comparison.findings().into_iter().flat_map(|finding| {
        let unit = finding.unit_text(Space::NoBreak);
        [
            (
                format!("{}, {unit}", finding.what),
                cells(&finding.exits, text),
            ),
            (
                "  firmware traps".to_string(),
                cells(&finding.firmware, text),
            ),
        ]
    });
    let caption = "Exits, and the firmware traps charged to them";
    plain(comparison, caption, rows.collect(), false)
}

/// Interrupts as the guests saw them, and firmware.
pub fn interrupts(comparison: &Comparison) -> Markup {
    let caption = "Counts in the workload's part of the run";
    let rows = comparison.interrupt_rows(Space::NoBreak);
    plain(comparison, caption, rows, false)
}

/// Interrupts by class.
pub fn classes(comparison: &Comparison, blocks: Vec<Block>) -> Markup {
    html! {
        @for (title, rows) in blocks {
            @let caption = "Counts in the workload's part of the run";
            (block(title, plain(comparison, caption, rows, false)))
        }
    }
}

/// A value without an interval.
fn value(text: String, value: f64) -> Cell {
    Cell {
        value: Some(value),
        ..text.into()
    }
}

/// Percentiles of one latency.
pub fn latency(comparison: &Comparison, key: &str) -> Markup {
    let columns = comparison.columns.iter();
    let columns = columns.filter_map(|c| Some((c, c.latency(key)?)));
    let rows = columns.map(|(c, l)| {
        let us = |cycles: f64| {
            let micros = c.micros(cycles);
            let text = number::micros_text(micros, Space::NoBreak);
            value(text, micros)
        };
        let beyond = |per_mille| {
            let found = percentile(&l, per_mille);
            found.map_or(NONE.to_string().into(), |v| us(v as f64))
        };
        let count = value(count(l.count), l.count as f64);
        let (p90, p99, p999) = (beyond(900), beyond(990), beyond(999));
        let exact = [us(l.mean()), us(l.min as f64), us(l.p50 as f64)];
        let tail = [p90, p99, p999, us(l.max as f64)];
        Line {
            class: "",
            label: c.name.clone(),
            cells: [vec![count], exact.into(), tail.into()].concat(),
        }
    });
    let head = [
        "Column", "n", "mean", "min", "median", "p90", "p99", "p99.9", "max",
    ];
    let head = head.map(str::to_string).to_vec();
    TableSpec {
        caption: "Microseconds of virtual time; n values",
        head,
        rows: rows.collect(),
        words: false,
        sortable: true,
    }
    .html()
}

/// Time by mode, all harts.
pub fn time(comparison: &Comparison) -> Markup {
    let caption = "Share of all harts' time in the workload's part of the run";
    let measured = comparison.measurement_rows(Space::NoBreak);
    let threads = comparison.thread_rows(Space::NoBreak);
    html! {
        (plain(comparison, caption, comparison.time_rows(Space::NoBreak), false))
        @if !threads.is_empty() {
            (plain(comparison, &comparison.thread_title(Space::NoBreak), threads, true))
        }
        @if !measured.is_empty() {
            (plain(comparison, "Measured by the workload itself", measured, false))
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
        (plain(comparison, caption, rows, true))
        @if !rest.is_empty() {
            (details(&format!("{} rarer ones", rest.len()), plain(comparison, caption, rest, true)))
        }
    }
}

/// Reason chains.
pub fn chains(comparison: &Comparison) -> Markup {
    // The ledger's arrow has two characters.
    let rows = counted(comparison, |section| {
        let chains = section.chains.iter();
        let shown = |(chain, count): (&String, &u64)| (chain.replace(" -> ", " → "), *count);
        chains.map(shown).collect()
    });
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

/// Tables of texts by name: those that differ between columns, and those that are the same in all.
fn texts(comparison: &Comparison, maps: &[BTreeMap<String, String>]) -> Markup {
    let names: BTreeSet<&String> = maps.iter().flat_map(|m| m.keys()).collect();
    if names.is_empty() {
        return html! { p { "Not recorded." } };
    }
    let row = |name: &String| -> (String, Vec<&str>) {
        let of = |map| text_of(map, name);
        (name.clone(), maps.iter().map(of).collect())
    };
    let rows = names.into_iter().map(row);
    let (same, different): (Vec<_>, Vec<_>) =
        rows.partition(|(_, texts)| texts.iter().all(|text| *text == texts[0]));
    let table = |caption, rows: Vec<(String, Vec<&str>)>, head: Vec<String>| {
        let lines = rows.into_iter().map(|(label, texts)| Line {
            class: "",
            label,
            cells: texts
                .into_iter()
                .take(head.len() - 1)
                .map(|text| text.to_string().into())
                .collect(),
        });
        TableSpec {
            caption,
            rows: lines.collect(),
            head: head.clone(),
            words: true,
            sortable: false,
        }
        .html()
    };
    html! {
        @if !different.is_empty() {
            (table("In which the columns differ", different, head(comparison, "")))
        }
        @if !same.is_empty() {
            @let caption = if maps.len() > 1 { "The same in all columns" } else { "Of this run" };
            (table(caption, same, vec![String::new(); 2]))
        }
    }
}

fn text_of<'m>(map: &'m BTreeMap<String, String>, name: &str) -> &'m str {
    match map.get(name).map(String::as_str) {
        Some("") => "none",
        Some(text) => text,
        None => NONE,
    }
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
    html! {
        (block("Configuration", texts(comparison, &settings)))
        (details("Packages: what the images are made of", texts(comparison, &packages)))
        (details("Cost model", costs(comparison, &map(prices))))
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
            (texts(comparison, prices))
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
                tr {
                    th scope="row" { (c.name) }
                    td data-c="Cycles" { (count(c.cycles)) }
                    td data-c="Source" { (c.source) }
                }
            }
        }
    };
    boxed("Cost model", "words", content)
}
