//! Charts as inline SVG. Positions across are percentages and text is outside any scaled
//! coordinate system, so that charts fit every width with readable labels.

use trapless_ledger::Latency;

use super::markup::esc;
use crate::compare::{Column, Comparison, MODE_TEXT};
use crate::exits::ExitRow;
use crate::number::{self, Space};

/// Class that carries the colour of a column.
pub fn colour(index: usize) -> String {
    format!("c{}", index % 6)
}

/// Names of the columns with their colours.
pub fn legend(comparison: &Comparison) -> String {
    let item = |(i, c): (usize, &Column)| {
        format!(
            "<li><span class=\"key {}\"></span>{}</li>",
            colour(i),
            esc(&c.name)
        )
    };
    let items: String = comparison.columns.iter().enumerate().map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

/// Bars of exits per 1 000, grouped by reason; a thin bar under each shows the firmware traps.
pub fn exit_bars(comparison: &Comparison, rows: &[ExitRow]) -> String {
    let rate = |row: &ExitRow, i: usize| {
        let (c, e) = (&comparison.columns[i], &row.exits[i]);
        (c.per_thousand(e.exits), c.per_thousand(e.firmware_traps))
    };
    let all = rows
        .iter()
        .flat_map(|r| (0..r.exits.len()).map(move |i| rate(r, i)));
    let most = all
        .map(|(a, b)| a.max(b))
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    let mut out = String::from("<figure class=\"bars\">");
    for row in rows {
        out.push_str(&format!(
            "<div class=\"name\">{}</div><div>",
            esc(&row.label)
        ));
        for (i, c) in comparison.columns.iter().enumerate() {
            let (exits, firmware) = rate(row, i);
            let text = |v| number::decimal(v, Space::NoBreak);
            let title = format!(
                "{}, {}: {} exits, {} firmware traps {}",
                row.label,
                c.name,
                text(exits),
                text(firmware),
                comparison.per_thousand_text(Space::NoBreak)
            );
            let traps = if firmware == 0.0 {
                String::new()
            } else {
                format!(" <span>+ {} firmware</span>", text(firmware))
            };
            out.push_str(&format!(
                "<div class=\"bar {}\"><svg height=\"17\" role=\"img\"><title>{}</title>\
                 <rect class=\"track\" width=\"100%\" height=\"17\" rx=\"3\"/>\
                 <rect class=\"fill\" width=\"{:.3}%\" height=\"{}\" rx=\"2\"/>\
                 <rect class=\"thin\" y=\"12\" width=\"{:.3}%\" height=\"5\" rx=\"2\"/></svg>\
                 <div class=\"figure\">{}{traps}</div></div>",
                colour(i),
                esc(&title),
                exits * 100.0 / most,
                if firmware == 0.0 { 17 } else { 11 },
                firmware * 100.0 / most,
                text(exits),
            ));
        }
        out.push_str("</div>");
    }
    out.push_str("</figure>");
    out
}

/// Height of one histogram.
const HEIGHT: f64 = 64.0;
/// Bins per decade.
const BINS: f64 = 16.0;

/// Histograms of one latency for every column, under each other on one logarithmic axis.
pub fn histograms(comparison: &Comparison, key: &str, what: &str) -> String {
    let present: Vec<(usize, &Column, &Latency)> = comparison
        .columns
        .iter()
        .enumerate()
        .filter_map(|(i, c)| c.latency(key).map(|l| (i, c, l)))
        .collect();
    // Decades of microseconds that hold everything; 1 ns stands in for 0.
    let log = |c: &Column, cycles: u64| c.micros(cycles as f64).max(0.001).log10();
    let low = present
        .iter()
        .map(|(_, c, l)| log(c, l.min))
        .fold(f64::MAX, f64::min)
        .floor();
    let high = present
        .iter()
        .map(|(_, c, l)| log(c, l.max))
        .fold(f64::MIN, f64::max);
    let high = (high + 1e-9).ceil().max(low + 1.0);
    let across = |log: f64| (log - low) * 100.0 / (high - low);

    let mut out = String::from("<figure class=\"split\">");
    for (i, c, l) in &present {
        let bins = rebin(c, l, low, high);
        let most = bins.iter().copied().fold(0.0, f64::max).max(1.0);
        let time = |v| number::duration(v, c.clock().cycles_per_second, Space::NoBreak);
        let title = format!("{what} on {}", c.name);
        let desc = format!(
            "{} values, median {}, 99th percentile {}, maximum {}",
            number::count(l.count, Space::NoBreak),
            time(l.p50),
            time(l.p99),
            time(l.max)
        );
        out.push_str(&format!(
            "<div class=\"name\"><span class=\"key {0}\"></span>{1}</div>\
             <svg class=\"{0}\" height=\"{2}\" role=\"img\"><title>{3}</title><desc>{4}</desc>",
            colour(*i),
            esc(&c.name),
            HEIGHT + 18.0,
            esc(&title),
            esc(&desc)
        ));
        for decade in 0..=((high - low) as i32) {
            let x = across(low + f64::from(decade));
            let y = HEIGHT + 18.0;
            out.push_str(&format!(
                "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"18\" y2=\"{y}\"/>"
            ));
        }
        let width = 100.0 / bins.len() as f64;
        for (b, n) in bins.iter().enumerate().filter(|(_, n)| **n > 0.0) {
            // A single value must be visible beside a thousand.
            let height = (n / most * HEIGHT).max(1.5);
            out.push_str(&format!(
                "<rect class=\"fill\" x=\"{:.3}%\" y=\"{:.1}\" width=\"{:.3}%\" height=\"{height:.1}\"/>",
                b as f64 * width,
                18.0 + HEIGHT - height,
                width * 0.9
            ));
        }
        for (class, value) in [("mark", l.p50), ("mark dash", l.p99)] {
            let x = across(log(c, value));
            out.push_str(&format!(
                "<line class=\"{class}\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"18\" y2=\"{}\"/>",
                HEIGHT + 18.0
            ));
        }
        out.push_str(&format!(
            "<text class=\"label\" x=\"100%\" y=\"12\" text-anchor=\"end\">median {}, p99 {}, max {}</text>",
            time(l.p50),
            time(l.p99),
            time(l.max)
        ));
        out.push_str("</svg>");
    }
    out.push_str("<div></div><svg height=\"20\" aria-hidden=\"true\">");
    for decade in 0..=((high - low) as i32) {
        let log = low + f64::from(decade);
        let anchor = match decade {
            0 => "start",
            d if f64::from(d) == high - low => "end",
            _ => "middle",
        };
        let text = axis_label(log);
        out.push_str(&format!(
            "<text x=\"{:.2}%\" y=\"14\" text-anchor=\"{anchor}\">{text}</text>",
            across(log)
        ));
    }
    out.push_str("</svg></figure>");
    out
}

fn axis_label(log_micros: f64) -> String {
    match log_micros as i32 {
        d @ ..0 => format!("{} ns", 10i64.pow((d + 3).max(0) as u32)),
        d @ 0..3 => format!("{} µs", 10i64.pow(d as u32)),
        d @ 3..6 => format!("{} ms", 10i64.pow(d as u32 - 3)),
        d => format!("{} s", 10i64.pow((d as u32 - 6).min(12))),
    }
}

/// Counts in bins of equal width on the logarithmic axis. A bucket's count is spread evenly over the
/// bins it covers.
fn rebin(c: &Column, latency: &Latency, low: f64, high: f64) -> Vec<f64> {
    let bins = ((high - low) * BINS) as usize;
    let mut counts = vec![0.0; bins];
    for (from, to, n) in &latency.buckets {
        let place = |cycles: f64| {
            let log = c.micros(cycles).max(0.001).log10();
            ((log - low) * BINS).clamp(0.0, bins as f64 - 1e-9)
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
pub fn mode_legend() -> String {
    let item = |(class, text): (&&str, &&str)| {
        format!("<li><span class=\"key {class}\"></span>{}</li>", esc(text))
    };
    let items: String = MODE_CLASS.iter().zip(&MODE_TEXT).map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>")
}

/// One bar of virtual time, split by mode.
pub fn time_bar(name: &str, time: &[(&'static str, u64); 6]) -> String {
    let whole: u64 = time.iter().map(|t| t.1).sum();
    let mut x = 0.0;
    let mut parts = String::new();
    let mut desc = Vec::new();
    for (i, (_, cycles)) in time.iter().enumerate() {
        let width = if whole == 0 {
            0.0
        } else {
            *cycles as f64 * 100.0 / whole as f64
        };
        let text = format!("{} {}", MODE_TEXT[i], number::percent(*cycles, whole));
        if width > 0.0 {
            parts.push_str(&format!(
                "<rect class=\"fill {}\" x=\"{x:.3}%\" width=\"{width:.3}%\" height=\"20\"><title>{text}</title></rect>",
                MODE_CLASS[i]
            ));
        }
        desc.push(text);
        x += width;
    }
    format!(
        "<div class=\"name\">{0}</div><svg height=\"20\" role=\"img\"><title>{0}</title><desc>{1}</desc>{parts}</svg>",
        esc(name),
        desc.join(", ")
    )
}
