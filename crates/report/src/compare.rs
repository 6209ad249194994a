//! Ledgers side by side: columns, and what is the same for all that a report says about them.

use std::collections::BTreeSet;

use trapless_ledger::document::{Clock, HartInfo};
use trapless_ledger::{Latency, LedgerFile, Section};

use crate::number::{self, Space};

/// One ledger as a column of a comparison.
pub struct Column<'a> {
    /// Name, different from that of every other column.
    pub name: String,
    /// The ledger.
    pub file: &'a LedgerFile,
    /// Its workload phase.
    pub section: &'a Section,
    /// What counts are divided by, for figures per 1 000.
    pub work: u64,
}

/// Several ledgers side by side; the first is the baseline.
pub struct Comparison<'a> {
    /// Columns in the order given.
    pub columns: Vec<Column<'a>>,
    /// Unit of [`Column::work`], plural.
    pub unit: String,
    /// Whether the workload reported its work itself; else interrupts taken by guests are counted.
    pub reported: bool,
}

impl<'a> Comparison<'a> {
    /// Lays out `ledgers`.
    pub fn new(ledgers: &'a [LedgerFile]) -> Self {
        let units: BTreeSet<_> = ledgers
            .iter()
            .map(|l| l.run.work.as_ref().map(|w| w.unit.as_str()))
            .collect();
        let common = match units.first() {
            Some(Some(unit)) if units.len() == 1 => Some((*unit).to_string()),
            _ => None,
        };
        let work = |l: &LedgerFile| match (&common, &l.run.work) {
            (Some(_), Some(work)) => work.count,
            _ => l.workload().guest_interrupts.taken.values().sum(),
        };
        let columns = names(ledgers)
            .into_iter()
            .zip(ledgers)
            .map(|(name, file)| Column {
                name,
                file,
                section: file.workload(),
                work: work(file),
            });
        Self {
            columns: columns.collect(),
            reported: common.is_some(),
            unit: common.unwrap_or_else(|| "guest interrupts".to_string()),
        }
    }

    /// "per 1 000 wake-ups".
    pub fn per_thousand_text(&self, space: Space) -> String {
        format!("per {} {}", number::count(1000, space), self.unit)
    }

    /// Which part of the runs the figures are about.
    pub fn scope(&self, space: Space) -> String {
        let part = |c: &Column| {
            let time = |cycles| number::duration(cycles, c.clock().cycles_per_second, space);
            format!(
                "{} of {} on {}",
                time(c.section.cycles),
                time(c.file.total.cycles),
                c.name
            )
        };
        let marked = |c: &Column| c.file.phases.iter().any(|p| p.name == "workload");
        if self.columns.iter().all(marked) {
            let parts: Vec<String> = self.columns.iter().map(part).collect();
            format!(
                "Counted while the workload ran: {} (virtual time).",
                parts.join("; ")
            )
        } else {
            "Counted over the whole run: the workload did not mark its begin and end.".to_string()
        }
    }
}

impl Column<'_> {
    /// A count per 1 000 units of work; 0 if there was none.
    pub fn per_thousand(&self, n: u64) -> f64 {
        if self.work == 0 {
            0.0
        } else {
            n as f64 * 1000.0 / self.work as f64
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.file.run.clock
    }

    /// Cycles in microseconds of this column's clock.
    pub fn micros(&self, cycles: f64) -> f64 {
        number::micros(cycles, self.clock().cycles_per_second)
    }

    /// A latency histogram.
    pub fn latency(&self, key: &str) -> Option<&Latency> {
        self.section.latency.get(key)
    }

    /// Cycles of all harts by mode, in the order VU, VS, U, HS, M, idle.
    pub fn time(&self) -> [(&'static str, u64); 6] {
        MODES.map(|mode| {
            let of = |h: &HartInfo| h.cycles.get(mode).copied().unwrap_or(0);
            (mode, self.section.harts.iter().map(of).sum())
        })
    }
}

/// Time slots of a hart.
pub const MODES: [&str; 6] = ["VU", "VS", "U", "HS", "M", "idle"];

/// Machine names; the workload or a number is added where they are not enough to tell columns
/// apart.
fn names(ledgers: &[LedgerFile]) -> Vec<String> {
    let distinct = |list: &[String]| list.iter().collect::<BTreeSet<_>>().len() == list.len();
    let machines: Vec<String> = ledgers.iter().map(|l| l.run.machine.clone()).collect();
    if distinct(&machines) {
        return machines;
    }
    let longer: Vec<String> = ledgers
        .iter()
        .map(|l| format!("{} {}", l.run.machine, l.run.workload))
        .collect();
    if distinct(&longer) {
        return longer;
    }
    machines
        .iter()
        .enumerate()
        .map(|(i, m)| format!("{m} #{}", i + 1))
        .collect()
}

/// A label and one cell per column.
pub type Row = (String, Vec<String>);

impl Comparison<'_> {
    pub(crate) fn row(&self, label: &str, cell: impl Fn(&Column) -> String) -> Row {
        (label.to_string(), self.columns.iter().map(cell).collect())
    }
}

/// What each of [`MODES`] is.
pub const MODE_TEXT: [&str; 6] = [
    "guest user (VU)",
    "guest kernel (VS)",
    "host user (U)",
    "host kernel (HS)",
    "firmware (M)",
    "idle (WFI)",
];
