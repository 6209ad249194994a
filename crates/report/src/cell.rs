//! Figures of columns as text: median, interval, and the columns from which no difference is shown.

use std::fmt;

use crate::statistics::{Difference, Sample};

/// Follows a figure that is not shown to differ from the baseline's.
pub const SAME: char = '≈';

/// Text in place of a figure that does not exist.
pub const NONE: &str = "–";

/// One figure of one column.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The median, or [`NONE`].
    pub median: String,
    /// The interval in brackets; empty for a single run, or if it has one value only.
    pub interval: String,
    /// The median as a number, to sort by.
    pub value: Option<f64>,
    /// Columns, by index, from which no difference is shown.
    pub same: Vec<usize>,
}

/// A label and one cell per column.
pub type Row = (String, Vec<Cell>);

impl Cell {
    fn new(sample: Option<&Sample>, text: impl Fn(f64) -> String) -> Self {
        let interval = match sample.and_then(Sample::interval) {
            Some((low, high)) if low != high => format!("({}–{})", text(low), text(high)),
            _ => String::new(),
        };
        let value = sample.map(Sample::median);
        Self {
            median: value.map_or(NONE.to_string(), text),
            interval,
            value,
            same: Vec::new(),
        }
    }
}

impl From<String> for Cell {
    /// Text that is not a figure of several runs.
    fn from(text: String) -> Self {
        Self {
            median: text,
            interval: String::new(),
            value: None,
            same: Vec::new(),
        }
    }
}

/// The text in a table whose baseline is the first column.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.median)?;
        if !self.interval.is_empty() {
            write!(f, " {}", self.interval)?;
        }
        if self.same.contains(&0) {
            write!(f, " {SAME}")?;
        }
        Ok(())
    }
}

/// Median, and the interval in brackets if there are several runs; a dash for what does not exist.
pub fn cell(sample: Option<&Sample>, text: impl Fn(f64) -> String) -> String {
    Cell::new(sample, text).to_string()
}

/// The same for each column.
pub fn cells(samples: &[Option<Sample>], text: impl Fn(f64) -> String) -> Vec<Cell> {
    let one = |(i, sample): (usize, &Option<Sample>)| {
        let mut cell = Cell::new(sample.as_ref(), &text);
        let others = samples.iter().enumerate().filter(|(other, _)| *other != i);
        let alike = |(other, base): (usize, &Option<Sample>)| match (sample, base) {
            (Some(sample), Some(base)) if same(sample, base) => Some(other),
            _ => None,
        };
        cell.same = others.filter_map(alike).collect();
        cell
    };
    samples.iter().enumerate().map(one).collect()
}

/// Whether to mark that no difference is shown: not where all values are the same.
fn same(sample: &Sample, base: &Sample) -> bool {
    sample.difference(base) == Difference::NotShown && sample.interval() != base.interval()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a page can take any column for the baseline.
    #[test]
    fn cells_know_every_column_from_which_they_do_not_differ() {
        let of = |values: &[f64]| Sample::new(values.iter().copied());
        let samples = [of(&[1.0, 5.0]), of(&[4.0, 9.0]), of(&[7.0, 8.0]), None];
        let cells = cells(&samples, |v| format!("{v:.0}"));
        let same: Vec<&[usize]> = cells.iter().map(|c| c.same.as_slice()).collect();
        assert_eq!(same, [&[1][..], &[0, 2], &[1], &[]]);
        let text: Vec<String> = cells.iter().map(Cell::to_string).collect();
        assert_eq!(text, ["3 (1–5)", "6 (4–9) ≈", "8 (7–8)", NONE]);
    }
}
