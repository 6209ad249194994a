//! The first screen: the verdict, a bar of exits per interrupt for each column, a tile for each
//! class.

use maud::{Markup, PreEscaped, html};
use trapless_ledger::Class;

use super::charts::{class_colour, percent};
use super::markup::{Line, TableSpec, against_each, baselines, details, figure, same_mark};
use crate::cell::{Cell, NONE, cells};
use crate::compare::Comparison;
use crate::number::{self, Space};
use crate::rows::overview::{Overview, PARTS, Per, Tile, rate_text};
use crate::statistics::{Difference, Sample};

/// Characters of a verdict beyond which it is set smaller.
const LONG: usize = 150;

/// Characters of all names beyond which the baseline is chosen from a list.
const BESIDE: usize = 48;

/// Minimum share of the width that has room for a figure inside a bar.
const LABELLED: f64 = 9.0;

/// Height of a bar.
const HEIGHT: f64 = 24.0;

/// Height of a bar with the line of its interval below it.
const WITH_INTERVAL: f64 = HEIGHT + 8.0;

const NAMES: [&str; 4] = ["timer", "IPI", "device", "host and other"];

/// Explanation of the last of them.
const OTHERS: &str = "WFI, page faults, registers of devices";

/// The verdict, for the head of the page.
pub fn verdict(comparison: &Comparison, overview: &Overview) -> Markup {
    html! {
        p class="verdict" {
            (against_each(comparison, |c| {
                let verdict = c.verdict(overview, Space::NoBreak);
                let long = verdict.sentence.chars().count() > LONG;
                html! {
                    span class=[long.then_some("long")] { (together(&verdict.sentence)) }
                    @if !verdict.limits.is_empty() {
                        " " small { (verdict.limits.join(" ")) }
                    }
                }
            }))
        }
    }
}

/// Figures without line breaks: between a figure and its interval, or a number and its unit.
fn together(sentence: &str) -> String {
    let parts = [
        (" (", "\u{a0}("),
        (" %", "\u{a0}%"),
        ("–", "\u{2060}–\u{2060}"),
    ];
    let replaced = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    parts.into_iter().fold(sentence.to_string(), replaced)
}

/// Bars, with total and change.
pub fn bars(comparison: &Comparison, overview: &Overview) -> Markup {
    let ends = overview.exits.iter().flatten().map(high);
    let most = ends.fold(f64::MIN_POSITIVE, f64::max);
    let text = |v| overview.per.text(v, Space::NoBreak);
    let (exits, firmware) = (
        cells(&overview.exits, text),
        cells(&overview.firmware, text),
    );
    let per = comparison.per_text(overview.per, Space::NoBreak);
    html! {
        section class="overview" aria-labelledby="overview" {
            div class="head" {
                h2 id="overview" { "Exits " (per) }
                (legend())
                (baseline_choice(comparison))
            }
            table class="machines" {
                thead {
                    tr {
                        td {} td {}
                        th scope="col" { "exits" }
                        th scope="col" { "change" }
                        th scope="col" { "firmware traps" }
                        th scope="col" { "change" }
                    }
                }
                tbody {
                    @for (i, column) in comparison.columns.iter().enumerate() {
                        tr {
                            th scope="row" { span { (column.name) } }
                            td class="chart" { (bar(overview, i, most)) }
                            td data-c="exits" { (large(&exits[i])) }
                            td data-c="change" {
                                (against_each(comparison, |c| change(c, &overview.exits, i)))
                            }
                            td data-c="firmware traps" { (plain(&firmware[i])) }
                            td data-c="change" {
                                (against_each(comparison, |c| change(c, &overview.firmware, i)))
                            }
                        }
                        (PreEscaped("\n"))
                    }
                }
            }
            @if !comparison.columns.is_empty() {
                (details("Figures", parts(comparison, overview)))
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        ul class="legend" {
            @for (part, name) in PARTS.into_iter().zip(NAMES) {
                li {
                    span class={ "key " (class_colour(part)) } {} (name)
                    @if part.is_none() { " (" (OTHERS) ")" }
                }
            }
        }
    }
}

/// Choice of the baseline column. The style sheet implements it, without a script.
fn baseline_choice(comparison: &Comparison) -> Markup {
    let names = comparison.columns.iter().map(|c| c.name.chars().count());
    let long = names.sum::<usize>() > BESIDE;
    html! {
        @if baselines(comparison) > 1 && long {
            label class="baselines" {
                "Compare with "
                select {
                    @for (i, column) in comparison.columns.iter().enumerate() {
                        option id={ "base-" (i) } selected[i == 0] { (column.name) }
                    }
                }
            }
        } @else if baselines(comparison) > 1 {
            fieldset class="baselines" {
                legend { "Compare with" }
                @for (i, column) in comparison.columns.iter().enumerate() {
                    label {
                        input type="radio" name="base" id={ "base-" (i) } checked[i == 0];
                        span { (column.name) }
                    }
                }
            }
        }
    }
}

/// Rules of the style sheet that show the content of the chosen baseline.
pub fn rules(comparison: &Comparison) -> String {
    let first = ".for:not(.b0) { display: none; }\n".to_string();
    let choice = 0..baselines(comparison);
    if choice.len() < 2 {
        return first;
    }
    // Browsers without `:has` compare with the first.
    let old =
        format!("@supports not selector(:has(a)) {{ .baselines {{ display: none; }} {first}}}\n");
    let one = |i| format!("body:has(#base-{i}:checked) .for:not(.b{i}) {{ display: none; }}\n");
    choice.map(one).fold(old, |rules, rule| rules + &rule)
}

fn high(sample: &Sample) -> f64 {
    sample.interval().map_or(sample.median(), |ends| ends.1)
}

/// The bar of one column: as long as the median, divided like the exits of all runs together, with
/// a line over the interval. `most` is as wide as the whole.
fn bar(overview: &Overview, column: usize, most: f64) -> Markup {
    let Some(sample) = &overview.exits[column] else {
        return html! {};
    };
    let text = |v| overview.per.text(v, Space::NoBreak);
    let across = |v: f64| v * 100.0 / most;
    let shares = overview.shares[column];
    let lengths = shares.map(|share| across(share * sample.median()));
    let texts = NAMES.iter().zip(shares).map(|(name, share)| {
        let value = text(share * sample.median());
        format!("{name} {value}")
    });
    let texts: Vec<String> = texts.collect();
    let mut left = 0.0;
    let starts = lengths.map(|length| {
        left += length;
        left - length
    });
    html! {
        svg height=(WITH_INTERVAL) role="img" aria-label=(texts.join(", ")) {
            rect class="track" width="100%" height=(HEIGHT) rx="3" {}
            @for (i, length) in lengths.into_iter().enumerate().filter(|(_, l)| *l > 0.0) {
                g class=(class_colour(PARTS[i])) {
                    title { (texts[i]) }
                    rect class="fill" x=(percent(starts[i])) width=(percent(length))
                        height=(HEIGHT) {}
                    @if length >= LABELLED {
                        text class="in" x=(percent(starts[i] + length / 2.0)) y="16.5"
                            text-anchor="middle" { (text(shares[i] * sample.median())) }
                    }
                }
            }
            @if sample.median() == 0.0 { rect class="nothing" width="3" height=(HEIGHT) {} }
            @if let Some((low, high)) = sample.interval().filter(|(low, high)| low != high) {
                @let [low, high] = [low, high].map(|v| percent(across(v)));
                line class="interval" x1=(low) x2=(high) y1="28" y2="28" {}
                line class="interval" x1=(low) x2=(low) y1="25" y2="31" {}
                line class="interval" x1=(high) x2=(high) y1="25" y2="31" {}
            }
        }
    }
}

/// A figure with an emphasized median.
fn large(cell: &Cell) -> Markup {
    let zero = cell.value == Some(0.0);
    html! {
        b class=[zero.then_some("zero")] { (cell.median) }
        @if !cell.interval.is_empty() { " " span class="interval" { (cell.interval) } }
    }
}

/// A figure with a judgement beside it.
fn plain(cell: &Cell) -> Markup {
    html! {
        (cell.median)
        @if !cell.interval.is_empty() { " " span class="interval" { (cell.interval) } }
    }
}

/// How a figure of a column differs from that of the baseline.
fn change(comparison: &Comparison, samples: &[Option<Sample>], i: usize) -> Markup {
    let (Some(sample), Some(base)) = (&samples[i], &samples[comparison.base]) else {
        return html! { (NONE) };
    };
    if i == comparison.base {
        let name = if comparison.columns.len() > 1 {
            "baseline"
        } else {
            NONE
        };
        return html! { span class="quiet" { (name) } };
    }
    match sample.difference(base) {
        Difference::Unknown => html! { span class="quiet" { "one run: unknown" } },
        Difference::NotShown => html! { span class="quiet" { "none shown" } },
        Difference::Shown(None) => html! { "more" },
        Difference::Shown(Some(change)) => {
            let (class, sign) = if change < 0.0 {
                ("fewer", "−")
            } else {
                ("more", "+")
            };
            html! { b class=(class) { (sign) (number::magnitude(change)) " %" } }
        }
    }
}

/// The figures that the bars show.
fn parts(comparison: &Comparison, overview: &Overview) -> Markup {
    let text = |v| overview.per.text(v, Space::NoBreak);
    let line = |class, label: &str, samples: &[Option<Sample>]| Line {
        class,
        label: label.to_string(),
        cells: cells(samples, text),
    };
    let mut rows: Vec<Line> = NAMES
        .iter()
        .zip(&overview.parts)
        .map(|(name, samples)| line("", name, samples))
        .collect();
    rows.push(line("sum", "all exits", &overview.exits));
    rows.push(line(
        "",
        "firmware traps charged to exits",
        &overview.firmware,
    ));
    let names = comparison.columns.iter().map(|c| c.name.clone());
    let caption = match overview.per {
        Per::Interrupt => {
            "For each interrupt that guests took, of any class. Host and other: WFI, page faults, \
             registers of devices, fences, and what the host does for itself"
        }
        Per::Work | Per::Run => "No interrupts were taken in some run, so exits are not for each",
    };
    TableSpec {
        caption,
        head: std::iter::once(String::new()).chain(names).collect(),
        rows,
        words: false,
        sortable: false,
    }
    .html()
}

/// A tile for each class: the cost of each of its interrupts.
pub fn tiles(comparison: &Comparison) -> Markup {
    html! {
        div class="tiles" {
            @for tile in comparison.tiles() { (one_tile(comparison, &tile)) (PreEscaped("\n")) }
        }
    }
}

fn one_tile(comparison: &Comparison, tile: &Tile) -> Markup {
    let (title, unit) = match tile.class {
        Class::Timer => ("Timer", "timer interrupt"),
        Class::Ipi => ("IPI", "IPI"),
        Class::Device => ("Device", "device interrupt"),
    };
    let text = |v| rate_text(v, Space::NoBreak);
    let (exits, firmware) = (cells(&tile.exits, text), cells(&tile.firmware, text));
    let halted = tile.halted.as_ref().map(|samples| cells(samples, text));
    html! {
        section class="tile" {
            h3 { span class={ "key " (class_colour(Some(tile.class))) } {} (title) }
            @if tile.exits.iter().all(Option::is_none) {
                p class="note" { "No " (unit) " was taken." }
            } @else { table {
                caption { "per " (unit) " taken" }
                thead {
                    tr {
                        td {}
                        th scope="col" { "exits" }
                        th scope="col" { "firmware" }
                        @if halted.is_some() { th scope="col" { "firmware, halted" } }
                    }
                }
                tbody {
                    @for (i, column) in comparison.columns.iter().enumerate() {
                        tr {
                            th scope="row" { (column.name) }
                            td { (large(&exits[i])) (same_mark(&exits[i])) }
                            td { (figure(&firmware[i])) }
                            @if let Some(cells) = &halted { td { (figure(&cells[i])) } }
                        }
                    }
                }
            } }
            @if halted.is_some() {
                p class="note" {
                    "Halted: firmware traps for timers while a vCPU was halted. They are charged to \
                     its WFI, not to timer interrupts."
                }
            }
        }
    }
}
