//! Which percentiles a sample of a given size supports, and rows of them.

use trapless_ledger::{Latency, Section};

use crate::cell::{NONE, Row};
use crate::compare::{Column, Comparison};
use crate::number::{self, Space};

/// Minimum number of values for a percentile other than the median.
pub const FEWEST: u64 = 100;

/// The 90th, 99th or 99.9th percentile (900, 990, 999); `None` if it would be the maximum, or of
/// fewer than [`FEWEST`] values.
pub fn percentile(latency: &Latency, per_mille: u64) -> Option<u64> {
    let value = match per_mille {
        900 => latency.p90,
        990 => latency.p99,
        999 => latency.p999,
        _ => return None,
    };
    let beyond = latency.count * (1000 - per_mille) / 1000;
    (latency.count >= FEWEST && beyond >= 1).then_some(value)
}

/// Two rows: median and 99th percentile in microseconds of each column, then the number of values.
pub fn rows(
    comparison: &Comparison,
    label: &str,
    space: Space,
    part: impl Fn(&Section) -> Option<&Latency>,
) -> Vec<Row> {
    let columns = comparison.columns.iter();
    let pooled: Vec<(&Column, Option<Latency>)> = columns.map(|c| (c, c.pooled(&part))).collect();
    if pooled.iter().all(|(_, latency)| latency.is_none()) {
        return Vec::new();
    }
    let times = pooled.iter().map(|(c, l)| short(c, l.as_ref(), space));
    let count = |l: &Option<Latency>| {
        let count = l.as_ref().map(|l| number::count(l.count, space));
        count.unwrap_or_else(|| NONE.to_string())
    };
    let counts = pooled.iter().map(|(_, l)| count(l));
    vec![
        (
            format!("{label}: p50 / p99"),
            times.map(Into::into).collect(),
        ),
        (
            "  number of values".to_string(),
            counts.map(Into::into).collect(),
        ),
    ]
}

fn short(column: &Column, latency: Option<&Latency>, space: Space) -> String {
    let Some(l) = latency else {
        return NONE.to_string();
    };
    let us = |v: u64| number::micros_text(column.micros(v as f64), space);
    let p99 = percentile(l, 990).map_or(NONE.to_string(), us);
    format!("{} / {p99}", us(l.p50))
}
