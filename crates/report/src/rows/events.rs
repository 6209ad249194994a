//! Events of guests that reach the host without an exit.

use trapless_ledger::document::Events;

use crate::cell::{Row, cells};
use crate::compare::{Comparison, per_thousand};
use crate::number::{self, Space};
use crate::rows::latency;
use crate::rows::redirected::handlers;

impl Comparison<'_> {
    /// The rows; empty if no run has such events.
    pub(crate) fn event_rows(&self, space: Space) -> Vec<Row> {
        if !self.any(|s| u64::from(s.events.is_some())) {
            return Vec::new();
        }
        let mut rows = self.counter_rows(Events::COUNTERS, space, |s| s.events.as_ref());
        if self.any(|s| handlers(s, |r| r.accesses).unwrap_or(0)) {
            let each = self.samples(|run| {
                let begun = handlers(run.section, |r| r.accesses).unwrap_or(0);
                let cycles = handlers(run.section, |r| r.cycles).unwrap_or(0);
                per_thousand(cycles, begun) / 1000.0
            });
            let left = "  handlers handed over to their thread (exits)";
            rows.push(self.count_row(left, space, |s| handlers(s, |r| r.left)));
            rows.push((
                "  cycles of the handler for each".to_string(),
                cells(&each, |v| number::decimal(v, space)),
            ));
        }
        let label = "in µs from the post until the host has it";
        rows.extend(latency::rows(self, label, space, |s| {
            s.events.as_ref()?.latency.as_ref()
        }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::document::Redirected;
    use trapless_ledger::{Config, Ledger, RunInfo};

    #[test]
    fn handlers_of_user_contexts_are_shown_with_events() {
        let mut file = Ledger::new(Config::new(1)).to_file(RunInfo::default(), None);
        let handled = Redirected {
            accesses: 50,
            left: 2,
            cycles: 10_000,
        };
        file.total.redirected = [("event".parse().expect("a reason"), handled)].into();
        file.total.events = Some(Events::default());
        let files = [file];
        let runs = Comparison::new(&files);
        assert!(runs.redirected_rows(Space::Plain).is_empty());
        let rows = runs.event_rows(Space::Plain);
        // No event was counted otherwise.
        let cells: Vec<_> = rows.iter().map(|r| r.1[0].to_string()).collect();
        assert_eq!(cells, ["2", "200"]);
    }

    #[test]
    fn machines_without_events_have_no_rows() {
        let mut file = Ledger::new(Config::new(1)).to_file(RunInfo::default(), None);
        let none = [file.clone()];
        assert!(Comparison::new(&none).event_rows(Space::Plain).is_empty());
        file.total.events = Some(Events {
            doorbell: 1200,
            merged: 200,
            ..Events::default()
        });
        let some = [file];
        let rows = Comparison::new(&some).event_rows(Space::Plain);
        assert_eq!(
            (rows[0].1[0].to_string(), rows[1].1[0].to_string()),
            ("1 200".to_string(), "200".to_string())
        );
    }
}
