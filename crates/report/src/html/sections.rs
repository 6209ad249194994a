//! Folded sections of the page: everything behind the first screen.

use maud::{Markup, PreEscaped, html};
use trapless_ledger::Class;

use super::charts::{self, Bars};
use super::markup::{Part, against_each, block, details};
use super::tables;
use crate::compare::Comparison;
use crate::number::Space;

/// Harts with a time bar of their own; with more, one bar stands for all.
const MOST_HARTS: usize = 8;

/// Reasons with bars of their own; the rest is in the table.
const BARS: usize = 8;

/// All of them.
pub fn all(comparison: &Comparison) -> Markup {
    html! {
        (words(comparison))
        (exits(comparison))
        (interrupts(comparison))
        (latencies(comparison))
        (time(comparison))
        (details_of_runs(comparison))
    }
}

fn words(comparison: &Comparison) -> Markup {
    let sentences = |c: &Comparison| {
        html! {
            @for sentence in c.headlines(Space::NoBreak) { p class="unit" { (sentence) } }
        }
    };
    let part = Part {
        id: "words",
        title: "In words",
        hint: "what each kind of interrupt work costs, and how long interrupts take",
        note: "",
        printed: true,
    };
    part.html(html! {
        (against_each(comparison, sentences))
        p class="note" { (comparison.scope(Space::NoBreak)) }
    })
}

fn exits(comparison: &Comparison) -> Markup {
    let rows = comparison.exit_rows();
    let rate = comparison.per_thousand_text(Space::NoBreak);
    let mut exits = Bars::of(&rows, |row| {
        row.samples(comparison, |run, e| run.per_thousand(e.exits))
    });
    let mut firmware = Bars::of(&rows, |row| {
        row.samples(comparison, |run, e| run.per_thousand(e.firmware_traps))
    });
    let hidden = exits.len().saturating_sub(BARS);
    exits.truncate(BARS);
    firmware.truncate(BARS);
    let unit = if comparison.reported {
        ""
    } else {
        " The workload did not report its work, so interrupts taken by the guest are the unit."
    };
    let note = format!("Traps from the guest to the hypervisor, {rate}.{unit}");
    let part = Part {
        id: "exits",
        title: "Exits by reason",
        hint: "and the firmware traps that they led to",
        note: &note,
        printed: true,
    };
    part.html(html! {
        @if rows.is_empty() {
            p { "No guest left V=1 in this part of the run." }
        } @else {
            (charts::bars(comparison, &exits))
            @if hidden != 0 {
                p class="note" { (hidden) " rarer reasons are in the table." }
            }
            @if !firmware.is_empty() {
                (block("Firmware traps, by the exit that led to them", html! {
                    p class="note" { "Traps handled in M-mode until the guest ran again, " (rate) "." }
                    (charts::bars(comparison, &firmware))
                }))
            }
            (details("Table of all reasons", tables::exits(comparison, &rows)))
            (details("Table by kind of interrupt work", tables::findings(comparison)))
            (details("Interrupts and firmware", tables::interrupts(comparison)))
        }
    })
}

fn interrupts(comparison: &Comparison) -> Markup {
    let blocks = comparison.class_blocks(Space::NoBreak);
    let part = Part {
        id: "interrupts",
        title: "Interrupts by class",
        hint: "where they found their vCPU, what they cost",
        note: "Where each interrupt found its vCPU, what it cost, and how long it took from being sent to the guest's handler (virtual time).",
        printed: false,
    };
    part.html(html! {
        @if blocks.is_empty() { p { "No guest used an interrupt in this part of the run." } }
        (tables::classes(comparison, blocks))
    })
}

fn latencies(comparison: &Comparison) -> Markup {
    let rows = comparison.latency_rows();
    let part = Part {
        id: "latency",
        title: "Latency",
        hint: "from the cause of an interrupt to its handler in the guest",
        note: "Virtual time; logarithmic axis, each histogram scaled to its own peak, which is the share of values in the tallest bar. Solid line: median; dashed: 99th percentile, if there are at least 100 values.",
        printed: true,
    };
    let class = |key: &str| match key {
        "guest_timer" => Some(Class::Timer),
        "guest_ipi" => Some(Class::Ipi),
        "guest_device" => Some(Class::Device),
        _ => None,
    };
    part.html(html! {
        @for (key, what) in &rows {
            (block(what, html! {
                (charts::histograms(comparison, key, what, class(key)))
                (details("Figures", tables::latency(comparison, key)))
            }))
        }
        @if rows.is_empty() { p { "No guest took an interrupt in this part of the run." } }
    })
}

fn time(comparison: &Comparison) -> Markup {
    let columns = || comparison.columns.iter();
    let bars: Vec<_> = if columns().any(|c| c.harts().len() > MOST_HARTS) {
        columns()
            .map(|c| (format!("{}, all harts", c.name), c.time()))
            .collect()
    } else {
        let harts = columns().flat_map(|c| c.harts().into_iter().map(move |hart| (c, hart)));
        harts
            .map(|(c, hart)| (format!("{}, hart {hart}", c.name), c.time_of_hart(hart)))
            .collect()
    };
    let part = Part {
        id: "time",
        title: "Time by mode",
        hint: "what harts and threads of the host spend",
        note: "Virtual time in which harts did not idle; the busiest fills the width.",
        printed: false,
    };
    part.html(html! {
        (charts::mode_legend())
        (charts::time_bars(&bars))
        (details("Figures", tables::time(comparison)))
    })
}

fn details_of_runs(comparison: &Comparison) -> Markup {
    let chains = Part {
        id: "chains",
        title: "Reason chains",
        hint: "what an exit set off",
        note: "What an exit set off until the guest ran again: each kind of trap once, in order of first occurrence.",
        printed: false,
    };
    let traps = Part {
        id: "traps",
        title: "Every kind of trap",
        hint: "by mode and cause",
        note: "All harts together, by the mode left, the mode that handles it, and the cause.",
        printed: false,
    };
    let run = Part {
        id: "run",
        title: "What exactly ran",
        hint: "configuration, packages, cost model",
        note: "The same images and configuration give the same figures on every computer.",
        printed: false,
    };
    let line = PreEscaped("\n");
    html! {
        (chains.html(tables::chains(comparison))) (line)
        (traps.html(tables::traps(comparison))) (line)
        (run.html(tables::provenance(comparison))) (line)
    }
}
