//! Charts as inline SVG. Positions across are percentages and text is outside any scaled
//! coordinate system, so that charts fit every width with readable labels.

use maud::{Markup, PreEscaped, html};
use trapless_ledger::Latency;

use crate::compare::{Column, Comparison, MODE_TEXT, cells};
use crate::exits::ExitRow;
use crate::latency::percentile;
use crate::number::{self, Space};
use crate::statistics::Sample;

/// Class that carries the colour of a column.
pub fn colour(index: usize) -> String {
    format!("c{}", index % 6)
}

/// Names of the columns with their colours.
pub fn legend(comparison: &Comparison) -> Markup {
    html! {
        ul class="legend" {
            @for (i, c) in comparison.columns.iter().enumerate() {
                li { span class={ "key " (colour(i)) } {} (c.name) }
            }
        }
    }
}

/// A percentage of the width, for an attribute.
fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

/// Exits and firmware traps per 1 000 of a row, for each column.
struct Rates {
    exits: Vec<Option<Sample>>,
    firmware: Vec<Option<Sample>>,
}

impl Rates {
    fn new(comparison: &Comparison, row: &ExitRow) -> Self {
        Self {
            exits: row.samples(comparison, |run, e| run.per_thousand(e.exits)),
            firmware: row.samples(comparison, |run, e| run.per_thousand(e.firmware_traps)),
        }
    }

    fn most(&self) -> f64 {
        let all = self.exits.iter().chain(&self.firmware);
        all.map(median).fold(0.0, f64::max)
    }
}

fn median(sample: &Option<Sample>) -> f64 {
    sample.as_ref().map_or(0.0, Sample::median)
}

/// Bars of exits per 1 000, grouped by reason; a thin bar under each shows the firmware traps.
pub fn exit_bars(comparison: &Comparison, rows: &[ExitRow]) -> Markup {
    let rates: Vec<Rates> = rows.iter().map(|row| Rates::new(comparison, row)).collect();
    let most = rates
        .iter()
        .map(Rates::most)
        .fold(f64::MIN_POSITIVE, f64::max);
    html! {
        figure class={ "bars" @if comparison.repeated() { " repeated" } } {
            @for (row, rates) in rows.iter().zip(&rates) {
                div class="name" { (row.label) }
                div {
                    @for i in 0..comparison.columns.len() {
                        (exit_bar(comparison, row, i, rates, most))
                    }
                }
            }
        }
    }
}

/// The bar of one column; `most` is as wide as the whole.
fn exit_bar(comparison: &Comparison, row: &ExitRow, i: usize, rates: &Rates, most: f64) -> Markup {
    let text = |v| number::decimal(v, Space::NoBreak);
    let (exits, firmware) = (median(&rates.exits[i]), median(&rates.firmware[i]));
    let exits_text = &cells(&rates.exits, text)[i];
    let firmware_text = &cells(&rates.firmware, text)[i];
    let height = if firmware == 0.0 { 17 } else { 11 };
    html! {
        div class={ "bar " (colour(i)) } {
            svg height="17" role="img" {
                title {
                    (row.label) ", " (comparison.columns[i].name) ": " (exits_text) " exits, "
                    (firmware_text) " firmware traps "
                    (comparison.per_thousand_text(Space::NoBreak))
                }
                rect class="track" width="100%" height="17" rx="3" {}
                rect class="fill" width=(percent(exits * 100.0 / most)) height=(height) rx="2" {}
                rect class="thin" y="12" width=(percent(firmware * 100.0 / most)) height="5"
                    rx="2" {}
            }
            div class="figure" {
                (exits_text)
                @if firmware != 0.0 { " " span { "+ " (firmware_text) " firmware" } }
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
    fn new(present: &[(usize, &Column, Latency)]) -> Self {
        let low = present.iter().map(|(_, c, l)| Self::log(c, l.min));
        let high = present.iter().map(|(_, c, l)| Self::log(c, l.max));
        let low = low.fold(f64::MAX, f64::min).floor();
        let high = high.fold(f64::MIN, f64::max);
        let high = (high + 1e-9).ceil().max(low + 1.0);
        Self { low, high }
    }

    /// 1 ns stands in for 0.
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
pub fn histograms(comparison: &Comparison, key: &str, what: &str) -> Markup {
    let present: Vec<(usize, &Column, Latency)> = comparison
        .columns
        .iter()
        .enumerate()
        .filter_map(|(i, c)| c.latency(key).map(|l| (i, c, l)))
        .collect();
    let axis = Axis::new(&present);
    html! {
        figure class="split" {
            @for (i, c, l) in &present {
                div class="name" { span class={ "key " (colour(*i)) } {} (c.name) }
                svg class=(colour(*i)) height=(HEIGHT + LABEL) role="img" {
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

/// What is in the drawing of one column.
fn histogram(c: &Column, l: &Latency, what: &str, axis: &Axis) -> Markup {
    let bins = rebin(c, l, axis);
    let most = bins.iter().copied().fold(0.0, f64::max).max(1.0);
    let width = 100.0 / bins.len() as f64;
    // A single value must be visible beside a thousand.
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
            "n " (number::count(l.count, Space::NoBreak)) ", median " (time(l.p50))
            @if let Some(p99) = p99 { ", p99 " (time(p99)) }
            ", max " (time(l.max))
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

/// Classes that carry the colours of modes.
const MODE_CLASS: [&str; 6] = ["vu", "vs", "u", "hs", "fw", "idle"];

/// Names of the modes with their colours.
pub fn mode_legend() -> Markup {
    html! {
        ul class="legend" {
            @for (class, text) in MODE_CLASS.iter().zip(&MODE_TEXT) {
                li { span class={ "key " (class) } {} (text) }
            }
        }
    }
}

/// One bar of virtual time, split by mode.
pub fn time_bar(name: &str, time: &[(&'static str, u64); 6]) -> Markup {
    let whole: u64 = time.iter().map(|t| t.1).sum();
    let share = |cycles: u64| cycles as f64 * 100.0 / whole.max(1) as f64;
    let texts: [String; 6] =
        std::array::from_fn(|i| format!("{} {}", MODE_TEXT[i], number::percent(time[i].1, whole)));
    let mut x = 0.0;
    let mut parts = String::new();
    for (i, (_, cycles)) in time.iter().enumerate().filter(|(_, t)| t.1 != 0) {
        let width = share(*cycles);
        let part = html! {
            rect class={ "fill " (MODE_CLASS[i]) } x=(percent(x)) width=(percent(width)) height="20" {
                title { (texts[i]) }
            }
        };
        parts.push_str(&part.into_string());
        x += width;
    }
    html! {
        div class="name" { (name) }
        svg height="20" role="img" {
            title { (name) }
            desc { (texts.join(", ")) }
            (PreEscaped(parts))
        }
    }
}
