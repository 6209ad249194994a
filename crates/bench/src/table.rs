//! Results as tables for a terminal; they are Markdown, too.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::counts::PER_THOUSAND;
use crate::entry::{Entry, NS_PER_EXIT};

/// Least geometric mean of the programs' speed, the peer being 1.
const PROGRAMS_GOAL: f64 = 1.0;

/// What the tables show.
pub struct Tables<'a> {
    /// The lines.
    pub entries: &'a [Entry],
    /// Geometric mean of the programs' speed.
    pub mean: Option<f64>,
    /// The same by processor time.
    pub processor_mean: Option<f64>,
    /// Median of the most memory ever resident, in MiB: by scenario and emulator.
    pub peaks: &'a BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
}

impl Tables<'_> {
    /// One after the other.
    pub fn text(&self) -> String {
        let head = [
            "measured",
            "QEMU",
            "Trapless",
            "ratio",
            "speed",
            "CPU ratio",
            "M/s",
            "goal",
            "",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        let mut ledger = vec![
            ["", "without", "with", "ratio", "CPU ratio", "goal", ""]
                .map(str::to_owned)
                .to_vec(),
        ];
        let head = ["our engine", "M/s", "ns/exit", "blocks compiled"];
        let heads = head
            .into_iter()
            .chain(PER_THOUSAND.map(|(_, head, _)| head));
        let mut engine = vec![heads.map(str::to_owned).collect::<Vec<_>>()];
        for entry in self.entries {
            let number = |n: Option<f64>| n.map_or_else(String::new, digits);
            let goal = entry.goal.clone().unwrap_or_default();
            let met = match entry.met {
                Some(true) => "met".into(),
                Some(false) => "missed".into(),
                None => String::new(),
            };
            if let Some((_, kind)) = entry.name.split_once(' ') {
                ledger.push(vec![
                    entry.name.clone(),
                    entry.cell("none"),
                    entry.cell(kind),
                    number(entry.ratio),
                    number(entry.processor_ratio),
                    goal,
                    met,
                ]);
                continue;
            }
            if !entry.engine.is_empty() {
                let figure = |key| number(entry.engine.get(key).copied());
                let mut cells = vec![
                    entry.name.clone(),
                    number(entry.million_per_second),
                    figure(NS_PER_EXIT),
                    figure("blocks_compiled"),
                ];
                cells.extend(PER_THOUSAND.map(|(_, _, key)| figure(key)));
                engine.push(cells);
            }
            rows.push(vec![
                entry.name.clone(),
                entry.cell("qemu"),
                entry.cell("trapless"),
                number(entry.ratio),
                number(entry.speed),
                number(entry.processor_ratio),
                number(entry.million_per_second),
                goal,
                met,
            ]);
        }
        let mut text = String::new();
        if rows.len() > 1 {
            text += &format_table(&rows);
        }
        if let Some(mean) = self.mean {
            let met = if mean >= PROGRAMS_GOAL {
                "met"
            } else {
                "missed"
            };
            let _ = writeln!(
                text,
                "\nGeometric mean of the programs' speed: {} (goal: at least {PROGRAMS_GOAL:.1}; {met}); by processor time {}",
                digits(mean),
                self.processor_mean.map_or_else(|| "unknown".into(), digits)
            );
        }
        if ledger.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&ledger));
        }
        if engine.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&engine));
        }
        let head = ["most memory, MiB", "QEMU", "Trapless", "ratio"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (scenario, of) in self.peaks {
            let of = |name| of.get(name).copied().flatten();
            if let (Some(qemu), Some(trapless)) = (of("qemu"), of("trapless")) {
                let (q, t) = (format!("{qemu:.0}"), format!("{trapless:.0}"));
                rows.push(vec![(*scenario).into(), q, t, digits(trapless / qemu)]);
            }
        }
        if rows.len() > 1 {
            let _ = write!(text, "\n{}", format_table(&rows));
        }
        text
    }
}

impl Entry {
    /// What one emulator reached.
    fn cell(&self, emulator: &str) -> String {
        let Some(figures) = self.figures.get(emulator) else {
            return "-".into();
        };
        let failures = match figures.failures {
            0 => String::new(),
            n => format!(" ({n} failed)"),
        };
        match figures.median {
            Some(median) => format!("{} {}{failures}", digits(median), self.unit),
            None => "failed".into(),
        }
    }
}

/// Three significant digits.
pub fn digits(n: f64) -> String {
    let places = if n >= 100.0 {
        0
    } else if n >= 10.0 {
        1
    } else if n >= 1.0 {
        2
    } else {
        3
    };
    format!("{n:.places$}")
}

/// Columns as wide as they need; the first to the left, the others to the right.
fn format_table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|c| {
            rows.iter()
                .filter_map(|r| r.get(c))
                .map(|t| t.chars().count())
                .max()
                .unwrap_or(0)
                .max(2)
        })
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(text, "| {cell:width$} ")
            } else {
                write!(text, "| {cell:>width$} ")
            };
        }
        text.push_str("|\n");
        if index == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if column == 0 { '-' } else { ':' };
                let _ = write!(text, "|{}{end}", "-".repeat(width + 1));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_three() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.1234].map(digits),
            ["123", "12.3", "1.23", "0.123"]
        );
    }
}
