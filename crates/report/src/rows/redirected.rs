//! Accesses of guests that a handler in user mode answered.

use trapless_ledger::document::Redirected;
use trapless_ledger::reason::Reason;
use trapless_ledger::{ExitReason, Section};

use crate::cell::{Row, cells};
use crate::compare::{Comparison, per_thousand};
use crate::number::{self, Space};

/// Time of handlers of user contexts, which are not accesses (Xhcs).
const EVENT: ExitReason = ExitReason::Fixed(Reason::Event);

/// The sum of a figure over all accesses; `None` if none was redirected.
fn sum(section: &Section, figure: fn(&Redirected) -> u64) -> Option<u64> {
    let accesses = section.redirected.iter();
    let accesses: Vec<_> = accesses.filter(|(key, _)| *key.reason() != EVENT).collect();
    (!accesses.is_empty()).then(|| accesses.into_iter().map(|(_, r)| figure(r)).sum())
}

/// The same of handlers of user contexts.
pub(crate) fn handlers(section: &Section, figure: fn(&Redirected) -> u64) -> Option<u64> {
    let mut all = section.redirected.iter();
    all.find(|(key, _)| *key.reason() == EVENT)
        .map(|(_, r)| figure(r))
}

impl Comparison<'_> {
    /// The rows; empty if no run has such accesses.
    pub(crate) fn redirected_rows(&self, space: Space) -> Vec<Row> {
        if !self.any(|s| sum(s, |r| r.accesses).unwrap_or(0)) {
            return Vec::new();
        }
        let count = |label, figure| self.count_row(label, space, |s| sum(s, figure));
        let each = self.samples(|run| {
            let accesses = sum(run.section, |r| r.accesses).unwrap_or(0);
            let cycles = sum(run.section, |r| r.cycles).unwrap_or(0);
            per_thousand(cycles, accesses) / 1000.0
        });
        vec![
            count("accesses", |r| r.accesses),
            count("  left to the host (exits)", |r| r.left),
            (
                "cycles of the handler for each".to_string(),
                cells(&each, |v| number::decimal(v, space)),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::{Config, Ledger, LedgerFile, RunInfo};

    fn ledger(machine: &str, redirected: Option<Redirected>) -> LedgerFile {
        let info = RunInfo {
            machine: machine.into(),
            ..RunInfo::default()
        };
        let mut file = Ledger::new(Config::new(1)).to_file(info, None);
        let key = "mmio.uart.write".parse().expect("a reason");
        file.total.redirected = redirected.map(|r| (key, r)).into_iter().collect();
        file
    }

    #[test]
    fn machines_without_it_have_no_figures() {
        let some = Redirected {
            accesses: 40,
            left: 2,
            cycles: 20_000,
        };
        let ledgers = [ledger("sstc", None), ledger("haiov", Some(some))];
        let rows = Comparison::new(&ledgers).redirected_rows(Space::Plain);
        let text = |row: &Row| [row.1[0].to_string(), row.1[1].to_string()];
        let cells: Vec<[String; 2]> = rows.iter().map(text).collect();
        assert_eq!(cells[0], ["–", "40"]);
        assert_eq!(cells[1], ["–", "2"]);
        assert_eq!(cells[2][1], "500");
        let none = [ledger("sstc", None)];
        assert!(
            Comparison::new(&none)
                .redirected_rows(Space::Plain)
                .is_empty()
        );
    }
}
