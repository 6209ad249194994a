//! A page that needs nothing but itself: no script, no font, no image from elsewhere.

mod charts;
mod markup;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use trapless_ledger::LedgerFile;

use crate::compare::{Comparison, cells};
use crate::findings::Finding;
use crate::number::{self, Space};
use crate::statistics::Sample;
use markup::{details, section};

const STYLE: &str = include_str!("page.css");

/// Harts with a time bar of their own; with more, one bar stands for all.
const MOST_HARTS: usize = 8;

/// Reasons with bars of their own; the rest is in the table.
const BARS: usize = 12;

/// Nothing is loaded from anywhere, whatever names in a ledger say.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A page about one ledger, or several side by side.
///
/// It depends on nothing but the reproducible part of the ledgers: equal runs give equal pages.
pub fn page(ledgers: &[LedgerFile]) -> String {
    let comparison = Comparison::new(ledgers);
    let names: Vec<&str> = comparison.columns.iter().map(|c| c.name.as_str()).collect();
    let workload = ledgers
        .first()
        .map_or("no run", |l| l.run.workload.as_str());
    let title = format!("{workload} workload: {}", names.join(" vs "));
    let line = PreEscaped("\n");
    let page = html! {
        (DOCTYPE) (line)
        html lang="en" {
            (line)
            head {
                (line)
                meta charset="utf-8"; (line)
                meta name="viewport" content="width=device-width, initial-scale=1"; (line)
                meta http-equiv="Content-Security-Policy" content=(POLICY); (line)
                title { (title) " - Trapless" } (line)
                style { (line) (PreEscaped(STYLE)) } (line)
            }
            (line)
            body { (line) (body(&comparison, &title, ledgers.len())) }
            (line)
        }
        (line)
    };
    page.into_string()
}

fn body(comparison: &Comparison, title: &str, ledgers: usize) -> Markup {
    let headlines = comparison.headlines(Space::NoBreak);
    let (lead, rest) = match headlines.split_first() {
        Some((first, rest)) => (first.as_str(), rest),
        None => ("", &[][..]),
    };
    let line = PreEscaped("\n");
    html! {
        header {
            p class="kicker" { "Trapless: every trap of a virtual machine, counted" }
            h1 { (title) }
            p class="lead" { (lead) }
            p class="note" { (comparison.scope(Space::NoBreak)) }
            @if let Some(method) = comparison.method() { p class="note" { (method) } }
            (nav())
        }
        (line)
        main {
            (line)
            div class={ "cards" @if comparison.repeated() { " repeated" } } {
                @for finding in comparison.findings() { (card(comparison, &finding)) }
            }
            (line)
            (exits(comparison, rest))
            (interrupts(comparison))
            (latencies(comparison))
            (time(comparison))
            (details_of_runs(comparison))
        }
        (line)
        footer {
            "Written by trapless from " (ledgers) " ledger" @if ledgers != 1 { "s" }
            ", format " (trapless_ledger::document::SCHEMA)
            ". Counts of a run are exact. Times are virtual time under the stated cost model; what a \
             workload does while it waits, and so its counts, depends on it, too."
        }
        (line)
    }
}

fn details_of_runs(comparison: &Comparison) -> Markup {
    html! {
        (section(
            "chains",
            "Reason chains",
            "What an exit set off until the guest ran again: each kind of trap once, in order of first occurrence.",
            tables::chains(comparison),
            true,
        ))
        (section(
            "traps",
            "Every kind of trap",
            "All harts together, by the mode left, the mode that handles it, and the cause.",
            tables::traps(comparison),
            true,
        ))
        (section(
            "run",
            "What exactly ran",
            "The same images and configuration give the same figures on every computer.",
            tables::provenance(comparison),
            true,
        ))
    }
}

fn nav() -> Markup {
    let links = [
        ("exits", "Exits"),
        ("interrupts", "Interrupts"),
        ("latency", "Latency"),
        ("time", "Time"),
        ("chains", "Chains"),
        ("traps", "Traps"),
        ("run", "What ran"),
    ];
    html! {
        nav aria-label="Sections" {
            @for (id, text) in links { a href={ "#" (id) } { (text) } }
        }
    }
}

fn card(comparison: &Comparison, finding: &Finding) -> Markup {
    let text = |v| number::decimal(v, Space::NoBreak);
    let exits = cells(&finding.exits, text);
    let firmware = cells(&finding.firmware, text);
    let zero = |sample: &Option<Sample>| sample.as_ref().is_some_and(|s| s.median() == 0.0);
    html! {
        div class="card" {
            h3 { (finding.what) }
            dl {
                @for (i, c) in comparison.columns.iter().enumerate() {
                    dt { span class={ "key " (charts::colour(i)) } {} (c.name) }
                    @let (median, interval) = parts(&exits[i]);
                    dd {
                        b class=[zero(&finding.exits[i]).then_some("zero")] { (median) }
                        " " small { span class="whole" { (interval) } " exits" }
                        @if finding.firmware[i].is_some() && !zero(&finding.firmware[i]) {
                            " " small class="whole" { "+ " (firmware[i]) " firmware" }
                        }
                    }
                }
            }
            small { (finding.unit_text(Space::NoBreak)) }
        }
    }
}

/// The median of a cell, and its interval and mark.
fn parts(cell: &str) -> (&str, &str) {
    cell.split_once(' ').unwrap_or((cell, ""))
}

fn exits(comparison: &Comparison, sentences: &[String]) -> Markup {
    let mut rows = comparison.exit_rows();
    let table = tables::exits(comparison, &rows);
    let hidden = rows.len().saturating_sub(BARS);
    rows.truncate(BARS);
    let content = html! {
        @if rows.is_empty() {
            p { "No guest left V=1 in this part of the run." }
        } @else {
            (charts::legend(comparison))
            (charts::exit_bars(comparison, &rows))
            @if hidden != 0 {
                p class="note" { (hidden) " rarer reasons are in the table." }
            }
            h3 { "All reasons, and what was charged to them" }
            (table)
            h3 { "Interrupts and firmware" }
            (tables::interrupts(comparison))
        }
        @if !sentences.is_empty() {
            h3 { "In words" }
            ul { @for sentence in sentences { li { (sentence) } } }
        }
    };
    let note = format!(
        "Traps from the guest to the hypervisor, {}. The thin bar shows the firmware (M-mode) traps that they led to.{}",
        comparison.per_thousand_text(Space::NoBreak),
        if comparison.reported {
            ""
        } else {
            " The workload did not report its work, so interrupts taken by the guest are the unit."
        }
    );
    section("exits", "Guest exits by reason", &note, content, true)
}

fn interrupts(comparison: &Comparison) -> Markup {
    let blocks = comparison.class_blocks(Space::NoBreak);
    let content = html! {
        @if blocks.is_empty() { p { "No guest used an interrupt in this part of the run." } }
        (tables::classes(comparison, blocks))
    };
    let note = "Where each interrupt found its vCPU, what it cost, and how long it took from being sent to the guest's handler (virtual time).";
    section("interrupts", "Interrupts by class", note, content, true)
}

fn latencies(comparison: &Comparison) -> Markup {
    let rows = comparison.latency_rows();
    let content = html! {
        @for (key, what) in &rows {
            h3 { (what) }
            (charts::histograms(comparison, key, what))
            (details("Figures", tables::latency(comparison, key)))
        }
        @if rows.is_empty() { p { "No guest took an interrupt in this part of the run." } }
    };
    let note = "Virtual time from the cause of an interrupt to its handler in the guest; logarithmic axis, each histogram scaled to its own peak. Solid line: median; dashed: 99th percentile, if there are at least 100 values.";
    section("latency", "Interrupt latency", note, content, true)
}

fn time(comparison: &Comparison) -> Markup {
    let many = comparison
        .columns
        .iter()
        .any(|c| c.harts().len() > MOST_HARTS);
    let content = html! {
        (charts::mode_legend())
        figure class="split" {
            @for c in &comparison.columns {
                @if many {
                    (charts::time_bar(&format!("{}, all harts", c.name), &c.time()))
                } @else {
                    @for hart in c.harts() {
                        @let time = c.time_of_hart(hart);
                        (charts::time_bar(&format!("{}, hart {hart}", c.name), &time))
                    }
                }
            }
        }
        (details("Figures", tables::time(comparison)))
    };
    let note = "How each hart spent its virtual time.";
    section("time", "Time by mode", note, content, true)
}
