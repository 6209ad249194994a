//! Guest exits by reason: rows of all columns, and reasons in words.

use std::collections::BTreeMap;

use trapless_ledger::document::Exit;
use trapless_ledger::reason::{Access, Reason};
use trapless_ledger::{Class, ExitReason, Section};

use crate::compare::{Column, Comparison, Run};
use crate::statistics::Sample;

/// A kind of exit over all columns.
pub struct ExitRow {
    /// Label; reads and writes of a device are one kind.
    pub label: String,
    /// Class of interrupts to which such an exit always belongs.
    pub class: Option<Class>,
    /// One for each run of each column.
    exits: Vec<Vec<Exit>>,
}

impl ExitRow {
    fn new(label: String, class: Option<Class>, comparison: &Comparison) -> Self {
        let runs = |c: &Column| vec![Exit::default(); c.runs.len()];
        let exits = comparison.columns.iter().map(runs).collect();
        Self {
            label,
            class,
            exits,
        }
    }

    /// The sum of `rows`.
    pub fn sum(label: String, comparison: &Comparison, rows: &[Self]) -> Self {
        let mut sum = Self::new(label, None, comparison);
        for row in rows {
            let mine = sum.exits.iter_mut().flatten();
            let theirs = row.exits.iter().flatten();
            mine.zip(theirs).for_each(|(a, b)| a.add(b));
        }
        sum
    }

    /// A figure of these exits for each column.
    pub fn samples(
        &self,
        comparison: &Comparison,
        figure: impl Fn(&Run, &Exit) -> f64,
    ) -> Vec<Option<Sample>> {
        let columns = comparison.columns.iter().zip(&self.exits);
        let sample = |(c, exits): (&Column, &Vec<Exit>)| {
            let runs = c.runs.iter().zip(exits);
            Sample::new(runs.map(|(run, exit)| figure(run, exit)))
        };
        columns.map(sample).collect()
    }

    /// The largest median of any column.
    fn most(&self, comparison: &Comparison) -> f64 {
        let samples = self.samples(comparison, |_, exit| exit.exits as f64);
        let medians = samples.iter().flatten().map(Sample::median);
        medians.fold(0.0, f64::max)
    }
}

impl Comparison<'_> {
    /// Every kind of exit, the most frequent first.
    pub fn exit_rows(&self) -> Vec<ExitRow> {
        let mut rows: BTreeMap<String, ExitRow> = BTreeMap::new();
        for (i, column) in self.columns.iter().enumerate() {
            for (j, run) in column.runs.iter().enumerate() {
                for (key, exit) in &run.section.exits {
                    let reason = key.reason();
                    let new = || ExitRow::new(label(reason), Class::of_exit(reason), self);
                    let row = rows.entry(row_key(reason)).or_insert_with(new);
                    row.exits[i][j].add(exit);
                }
            }
        }
        let mut rows: Vec<ExitRow> = rows.into_values().collect();
        rows.sort_by(|a, b| b.most(self).total_cmp(&a.most(self)));
        rows
    }
}

/// Key of a row, which also orders rows with equal counts.
fn row_key(reason: &ExitReason) -> String {
    match reason {
        ExitReason::Mmio { device, .. } => format!("mmio.{device}"),
        other => other.to_string(),
    }
}

/// Exits of one reason.
pub(crate) fn exits_for(section: &Section, reason: Reason) -> Exit {
    section.exits_with(|found| *found == ExitReason::Fixed(reason))
}

/// Label of a reason.
pub fn label(reason: &ExitReason) -> String {
    match reason {
        ExitReason::Fixed(reason) => fixed_label(*reason),
        ExitReason::Mmio { device, .. } => format!("MMIO {device}"),
        ExitReason::SbiOther(extension) => format!("SBI {}", extension.to_uppercase()),
        ExitReason::Csr(name) => format!("CSR {name}"),
        ExitReason::Other(cause) => cause.replace('_', " "),
    }
}

fn fixed_label(reason: Reason) -> String {
    let text = match reason {
        Reason::TimerSet => "set timer (SBI call)",
        Reason::TimerFire => "guest timer fires in the host",
        Reason::HostTimer => "host timer",
        Reason::IpiSend => "send IPI (SBI call)",
        Reason::IpiReceive => "host software interrupt",
        Reason::RemoteFence => "remote fence (SBI call)",
        Reason::ExternalInterrupt => "host external interrupt",
        Reason::GuestExternal => "guest external interrupt",
        Reason::Notification => "notification interrupt",
        Reason::Event => "event interrupt",
        Reason::Wfi => "WFI",
        Reason::Wrs => "WRS",
        Reason::PageFault(Access::Fetch) => "guest-page fault, fetch",
        Reason::PageFault(Access::Load) => "guest-page fault, load",
        Reason::PageFault(Access::Store) => "guest-page fault, store",
        Reason::VsLevel(2) => "VS-level interrupt, software",
        Reason::VsLevel(6) => "VS-level interrupt, timer",
        Reason::VsLevel(10) => "VS-level interrupt, external",
        // Labels of these contain a name.
        Reason::VsLevel(_)
        | Reason::Mmio(..)
        | Reason::SbiOther(_)
        | Reason::Csr(_)
        | Reason::Other(_) => return ExitReason::Fixed(reason).to_string(),
    };
    text.to_string()
}
