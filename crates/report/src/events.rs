//! Events of guests that reach the host without an exit.

use trapless_ledger::Section;
use trapless_ledger::document::Events;

use crate::compare::{Comparison, Row};
use crate::latency;
use crate::number::Space;

/// A figure of events.
type EventCount = fn(&Events) -> u64;

const ROWS: [(&str, EventCount); 10] = [
    ("stores to doorbells", |e| e.doorbell),
    ("posted by guests with a CSR", |e| e.guest),
    ("posted by the host", |e| e.host),
    ("  posted already: nobody is told again", |e| e.merged),
    ("put into the queue of a hart", |e| e.queued),
    ("taken by the host", |e| e.taken),
    ("taken by handlers in user mode", |e| e.handled),
    ("exits by event interrupts", |e| e.exits),
    ("event interrupts outside guests", |e| e.host_interrupts),
    ("words of memory", |e| e.memory_words),
];

impl Comparison<'_> {
    /// Empty if no run has any.
    pub(crate) fn event_rows(&self, space: Space) -> Vec<Row> {
        if !self.any(|s| u64::from(s.events.is_some())) {
            return Vec::new();
        }
        let row = |(label, figure): (&'static str, EventCount)| {
            self.count_row(label, space, |s: &Section| s.events.as_ref().map(figure))
        };
        let mut rows: Vec<Row> = ROWS.map(row).into();
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
    use trapless_ledger::{Config, Ledger, RunInfo};

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
            (rows[0].1[0].as_str(), rows[3].1[0].as_str()),
            ("1 200", "200")
        );
    }
}
