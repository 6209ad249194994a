//! Charts as inline SVG. Positions across are percentages and text is outside any scaled
//! coordinate system, so that charts fit every width with readable labels.

use maud::{Markup, PreEscaped, html};
use trapless_ledger::{Class, Latency, Slot};

use super::markup::figure;
use crate::cell::cells;
use crate::compare::{Column, Comparison, Times, mode_text};
use crate::number::{self, Space};
use crate::rows::exits::ExitRow;
use crate::rows::latency::percentile;
use crate::statistics::Sample;

/// CSS class with the colour of a class of interrupts, or of exits that belong to none.
pub fn class_colour(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Timer) => "timer",
        Some(Class::Ipi) => "ipi",
        Some(Class::Device) => "device",
        None => "other",
    }
}

/// A percentage of the width, for an attribute.
pub fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

/// A row of bars: its label, the class of its colour, and a figure for each column.
pub struct Bars {
    /// Label of the figures.
    pub label: String,
    /// Class of interrupts to which it belongs.
    pub class: Option<Class>,
    /// The figures.
    pub samples: Vec<Option<Sample>>,
}

impl Bars {
    /// Rows with any figure that is not 0, the largest first.
    pub fn of(rows: &[ExitRow], figure: impl Fn(&ExitRow) -> Vec<Option<Sample>>) -> Vec<Self> {
        let bars = rows.iter().map(|row| Self {
            label: row.label.clone(),
            class: row.class,
            samples: figure(row),
        });
        let mut bars: Vec<Self> = bars.filter(|bars| bars.most() > 0.0).collect();
        bars.sort_by(|a, b| b.most().total_cmp(&a.most()));
        bars
    }

    fn most(&self) -> f64 {
        let medians = self.samples.iter().flatten().map(Sample::median);
        medians.fold(0.0, f64::max)
    }
}

/// Bars on one scale, a group for each row.
pub fn bars(comparison: &Comparison, rows: &[Bars]) -> Markup {
    let most = rows
        .iter()
        .map(Bars::most)
        .fold(f64::MIN_POSITIVE, f64::max);
    html! {
        figure class="bars" {
            @for row in rows {
                div class="unit" {
                    div class="name" { (row.label) }
                    @let cells = cells(&row.samples, |v| number::decimal(v, Space::NoBreak));
                    @for (c, (sample, cell)) in comparison.columns.iter().zip(row.samples.iter().zip(&cells)) {
                        @let value = sample.as_ref().map_or(0.0, Sample::median);
                        div class={ "bar " (class_colour(row.class)) } {
                            span class="machine" { (c.name) }
                            svg height="14" aria-hidden="true" {
                                rect class="track" width="100%" height="14" rx="2" {}
                                rect class="fill" width=(percent(value * 100.0 / most)) height="14"
                                    rx="2" {}
                            }
                            span class={ "figure" @if value == 0.0 { " zero" } } { (figure(cell)) }
                        }
                    }
                }
            }
        }
    }
}

/// Height of one histogram.
const HEIGHT: f64 = 64.0;
/// Height of the line of text above it.
const LABEL: f64 = 18.0;
/// Bins per decade.
const BINS: f64 = 16.0;

/// A logarithmic axis of microseconds over whole decades.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// The axis that holds all values of these latencies.
    fn new(present: &[(&Column, Latency)]) -> Self {
        let low = present.iter().map(|(c, l)| Self::log(c, l.min));
        let high = present.iter().map(|(c, l)| Self::log(c, l.max));
        let low = low.fold(f64::MAX, f64::min).floor();
        let high = high.fold(f64::MIN, f64::max);
        let high = (high + 1e-9).ceil().max(low + 1.0);
        Self { low, high }
    }

    /// 0 is drawn as 1 ns.
    fn log(column: &Column, cycles: u64) -> f64 {
        column.micros(cycles as f64).max(0.001).log10()
    }

    /// Position as an attribute.
    fn across(&self, log: f64) -> String {
        format!("{:.2}%", (log - self.low) * 100.0 / (self.high - self.low))
    }

    /// Where decades begin, and the end.
    fn decades(&self) -> impl Iterator<Item = f64> + '_ {
        (0..=((self.high - self.low) as i32)).map(|decade| self.low + f64::from(decade))
    }
}

/// Histograms of one latency for every column, under each other on one logarithmic axis.
pub fn histograms(comparison: &Comparison, key: &str, what: &str, class: Option<Class>) -> Markup {
    let columns = comparison.columns.iter();
    let present: Vec<(&Column, Latency)> = columns
        .filter_map(|c| c.latency(key).map(|l| (c, l)))
        .collect();
    let axis = Axis::new(&present);
    html! {
        figure class="split" {
            @for (c, l) in &present {
                div class="name" {
                    (c.name)
                    span class="hint" { "n\u{a0}=\u{a0}" (number::count(l.count, Space::NoBreak)) }
                }
                svg class=(class_colour(class)) height=(HEIGHT + LABEL) role="img" {
                    (histogram(c, l, what, &axis))
                }
            }
            div {}
            svg height="20" aria-hidden="true" {
                @for log in axis.decades() {
                    @let anchor = if log == axis.low {
                        "start"
                    } else if log == axis.high {
                        "end"
                    } else {
                        "middle"
                    };
                    text x=(axis.across(log)) y="14" text-anchor=(anchor) { (axis_label(log)) }
                }
            }
        }
    }
}

/// The drawing of one column.
fn histogram(c: &Column, l: &Latency, what: &str, axis: &Axis) -> Markup {
    let bins = rebin(c, l, axis);
    let most = bins.iter().copied().fold(0.0, f64::max).max(1.0);
    let width = 100.0 / bins.len() as f64;
    // A single value must stay visible beside a thousand.
    let height = |n: f64| (n / most * HEIGHT).max(1.5);
    let time = |v| number::duration(v, c.clock().cycles_per_second, Space::NoBreak);
    let p99 = percentile(l, 990);
    let marks = [("mark", Some(l.p50)), ("mark dash", p99)];
    let marks = marks
        .into_iter()
        .filter_map(|(class, value)| Some((class, value?)));
    html! {
        title { (what) " on " (c.name) }
        desc {
            (number::count(l.count, Space::NoBreak)) " values, median " (time(l.p50))
            @if let Some(p99) = p99 { ", 99th percentile " (time(p99)) }
            ", maximum " (time(l.max))
        }
        @for log in axis.decades() {
            @let x = axis.across(log);
            line class="grid" x1=(x) x2=(x) y1=(LABEL) y2=(HEIGHT + LABEL) {}
        }
        @for (b, n) in bins.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            @let y = format!("{:.1}", LABEL + HEIGHT - height(*n));
            @let tall = format!("{:.1}", height(*n));
            rect class="fill" x=(percent(b as f64 * width)) y=(y) width=(percent(width * 0.9)) height=(tall) {}
        }
        @for (class, value) in marks {
            @let x = axis.across(Axis::log(c, value));
            line class=(class) x1=(x) x2=(x) y1=(LABEL) y2=(HEIGHT + LABEL) {}
        }
        text class="label" x="100%" y="12" text-anchor="end" {
            "median " (time(l.p50))
            @if let Some(p99) = p99 { ", p99 " (time(p99)) }
            ", max " (time(l.max))
            // Without it heights of two histograms could not be compared.
            ", peak " (number::percent(most as u64, l.count))
        }
    }
}

fn axis_label(log_micros: f64) -> String {
    match log_micros as i32 {
        d @ ..0 => format!("{} ns", 10i64.pow((d + 3).max(0) as u32)),
        d @ 0..3 => format!("{} µs", 10i64.pow(d as u32)),
        d @ 3..6 => format!("{} ms", 10i64.pow(d as u32 - 3)),
        d => format!("{} s", 10i64.pow((d as u32 - 6).min(12))),
    }
}

/// Counts in bins of equal width on the logarithmic axis. A bucket's count is spread evenly over
/// the bins it covers.
fn rebin(c: &Column, latency: &Latency, axis: &Axis) -> Vec<f64> {
    let bins = ((axis.high - axis.low) * BINS) as usize;
    let mut counts = vec![0.0; bins];
    for (from, to, n) in &latency.buckets {
        let place = |cycles: f64| {
            let log = c.micros(cycles).max(0.001).log10();
            ((log - axis.low) * BINS).clamp(0.0, bins as f64 - 1e-9)
        };
        let (start, end) = (place(*from as f64), place(*to as f64 + 1.0));
        if end as usize == start as usize {
            counts[start as usize] += *n as f64;
            continue;
        }
        for (bin, count) in counts
            .iter_mut()
            .enumerate()
            .take(end as usize + 1)
            .skip(start as usize)
        {
            let part = (end.min(bin as f64 + 1.0) - start.max(bin as f64)) / (end - start);
            *count += *n as f64 * part;
        }
    }
    counts
}

/// Modes that a bar shows: not idling.
const BUSY: [Slot; 5] = [Slot::VU, Slot::VS, Slot::U, Slot::HS, Slot::M];

/// CSS class with the colour of a mode.
fn mode_class(slot: Slot) -> &'static str {
    match slot {
        Slot::VU => "vu",
        Slot::VS => "vs",
        Slot::U => "u",
        Slot::HS => "hs",
        Slot::M => "fw",
        Slot::Idle => "",
    }
}

/// Names of the modes with their colours.
pub fn mode_legend() -> Markup {
    html! {
        ul class="legend" {
            @for slot in BUSY {
                li { span class={ "key " (mode_class(slot)) } {} (mode_text(slot)) }
            }
        }
    }
}

/// Cycles that were not idle.
fn busy_cycles(time: &Times) -> u64 {
    let busy = time.iter().filter(|(slot, _)| *slot != Slot::Idle);
    busy.map(|t| t.1).sum()
}

/// Share of the time that was not idle: 0 to 1.
fn busy(time: &Times) -> f64 {
    let whole: u64 = time.iter().map(|t| t.1).sum();
    busy_cycles(time) as f64 / whole.max(1) as f64
}

/// Bars of virtual time, split by mode. All have the same scale; the busiest fills the width,
/// because most harts are idle most of the time.
pub fn time_bars(bars: &[(String, Times)]) -> Markup {
    let most = bars.iter().map(|(_, time)| busy(time));
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    html! {
        figure class="split" {
            @for (name, time) in bars { (time_bar(name, time, most)) }
        }
    }
}

fn time_bar(name: &str, time: &Times, most: f64) -> Markup {
    let whole: u64 = time.iter().map(|t| t.1).sum();
    let share = |cycles: u64| cycles as f64 * 100.0 / whole.max(1) as f64 / most;
    let text = |(slot, cycles): (Slot, u64)| {
        format!("{} {}", mode_text(slot), number::percent(cycles, whole))
    };
    let texts = time.map(text);
    let mut x = 0.0;
    let mut parts = String::new();
    for slot in BUSY {
        let cycles = time[slot as usize].1;
        if cycles == 0 {
            continue;
        }
        let width = share(cycles);
        let part = html! {
            rect class={ "fill " (mode_class(slot)) } x=(percent(x)) width=(percent(width)) height="20" {
                title { (texts[slot as usize]) }
            }
        };
        parts.push_str(&part.into_string());
        x += width;
    }
    let all = busy_cycles(time);
    html! {
        div class="name" {
            (name)
            span class="hint" { "busy\u{a0}" (number::percent(all, whole)) }
        }
        svg height="20" role="img" {
            title { (name) }
            desc { (texts.join(", ")) }
            rect class="track" width="100%" height="20" {}
            (PreEscaped(parts))
        }
    }
}
