//! Results as tables for a terminal; they are Markdown, too.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::counts::PER_THOUSAND;
use crate::entry::{Entry, NS_PER_EXIT};
use crate::means::Means;
use crate::native;

/// Content of the tables.
pub struct Tables<'a> {
    /// The lines.
    pub entries: &'a [Entry],
    /// Geometric means of programs: by scenario.
    pub means: &'a BTreeMap<&'static str, Means>,
    /// Median of the peak resident memory, in MiB: by scenario and emulator.
    pub peaks: &'a BTreeMap<&'static str, BTreeMap<String, Option<f64>>>,
}

impl Tables<'_> {
    /// All tables in sequence.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let rows = self.entries.iter().filter(|e| e.costs_of().is_none());
        add_table(&mut text, &HEAD, rows.map(Entry::beside_qemu));
        for (scenario, means) in self.means {
            if let Some(mean) = means.speed {
                let met = if mean >= means.goal { "met" } else { "missed" };
                let _ = writeln!(
                    text,
                    "\nGeometric mean of the speed of {scenario}: {} (goal: at least {:.1}; {met}); by processor time {}",
                    digits(mean),
                    means.goal,
                    means
                        .processor_speed
                        .map_or_else(|| "unknown".into(), digits)
                );
            }
            if let Some(mean) = means.native_ratio {
                let left_out = match means.left_out {
                    0 => String::new(),
                    n => format!(" (without {n} in parentheses, which do other work there)"),
                };
                let _ = writeln!(
                    text,
                    "Geometric mean of the time of {scenario}, relative to native: {}{left_out}",
                    digits(mean)
                );
            }
        }
        add_table(
            &mut text,
            &COSTS_HEAD,
            self.entries.iter().filter_map(Entry::costs),
        );
        let head = ["our engine", "M/s", "ns/exit", "blocks compiled"];
        let head: Vec<_> = head
            .into_iter()
            .chain(PER_THOUSAND.map(|(_, head, _)| head))
            .collect();
        let rows = self
            .entries
            .iter()
            .filter(|e| e.costs_of().is_none() && !e.engine.is_empty());
        add_table(&mut text, &head, rows.map(Entry::in_our_engine));
        let rows = self.peaks.iter().filter_map(|(scenario, of)| {
            let of = |name| of.get(name).copied().flatten();
            let (qemu, trapless) = (of("qemu")?, of("trapless")?);
            let (q, t) = (format!("{qemu:.0}"), format!("{trapless:.0}"));
            Some(vec![(*scenario).into(), q, t, digits(trapless / qemu)])
        });
        add_table(
            &mut text,
            &["most memory, MiB", "QEMU", "Trapless", "ratio"],
            rows,
        );
        text
    }
}

const HEAD: [&str; 11] = [
    "measured",
    "QEMU",
    "Trapless",
    "native",
    "ratio",
    "speed",
    "CPU ratio",
    "x native",
    "M/s",
    "goal",
    "",
];
const COSTS_HEAD: [&str; 7] = ["", "without", "with", "ratio", "CPU ratio", "goal", ""];

/// Adds a table after an empty line, unless it has no rows.
fn add_table(text: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    if rows.len() > 1 {
        if !text.is_empty() {
            text.push('\n');
        }
        *text += &format_table(&rows);
    }
}

fn number(n: Option<f64>) -> String {
    n.map_or_else(String::new, digits)
}

impl Entry {
    /// The receivers whose cost the entry measures, compared with the same scenario without them.
    fn costs_of(&self) -> Option<&str> {
        self.name.split_once(' ').map(|(_, kind)| kind)
    }

    fn verdict(&self) -> [String; 2] {
        let met = match self.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        [self.goal.clone().unwrap_or_default(), met.into()]
    }

    fn beside_qemu(&self) -> Vec<String> {
        let mut cells = vec![self.name.clone()];
        cells.extend(["qemu", "trapless"].map(|name| self.cell(name)));
        let native = self.figures.contains_key(native::NAME);
        cells.push(if native {
            self.cell(native::NAME)
        } else {
            String::new()
        });
        cells.extend([self.ratio, self.speed, self.processor_ratio].map(number));
        let native_ratio = number(self.native_ratio);
        cells.push(if self.other_work && !native_ratio.is_empty() {
            format!("({native_ratio})")
        } else {
            native_ratio
        });
        cells.push(number(self.million_per_second));
        cells.extend(self.verdict());
        cells
    }

    fn costs(&self) -> Option<Vec<String>> {
        let mut cells = vec![
            self.name.clone(),
            self.cell("none"),
            self.cell(self.costs_of()?),
        ];
        cells.extend([self.ratio, self.processor_ratio].map(number));
        cells.extend(self.verdict());
        Some(cells)
    }

    fn in_our_engine(&self) -> Vec<String> {
        let figure = |key| number(self.engine.get(key).copied());
        let mut cells = vec![
            self.name.clone(),
            number(self.million_per_second),
            figure(NS_PER_EXIT),
            figure("blocks_compiled"),
        ];
        cells.extend(PER_THOUSAND.map(|(_, _, key)| figure(key)));
        cells
    }
    /// The figure of one emulator.
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
