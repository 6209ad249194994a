//! An interrupt domain as rows.

use super::super::source::{Mode, Source};
use super::{Delivery, Domain, GUEST, GUEST_SHIFT, HART_SHIFT, IDENTITY, PRIORITY};
use crate::inspect::{Part, Row, words};

impl Domain {
    /// `wires` holds the level of each source's wire.
    pub fn inspect(&self, wires: &[bool], rows: &mut Vec<Row>) {
        let name = if self.machine { "aplic M" } else { "aplic S" };
        let mut part = Part::new(rows, None, name);
        let state = if self.enabled { "on" } else { "off" };
        part.row(self.enabled, "delivery", state);
        for (number, source) in self.sources.iter().enumerate().skip(1) {
            let active = source.enabled || source.pending;
            let wire = wires.get(number).copied().unwrap_or_default();
            part.row(
                active,
                format!("source {number}"),
                self.describe(source, wire),
            );
        }
        if self.delivery == Delivery::Direct {
            self.inspect_harts(name, rows);
        }
    }

    fn describe(&self, source: &Source, wire: bool) -> String {
        let mode = match source.mode {
            Mode::Inactive => return "inactive".into(),
            Mode::Delegated => return "delegated".into(),
            Mode::Detached => "detached",
            Mode::Edge1 => "rising edge",
            Mode::Edge0 => "falling edge",
            Mode::Level1 => "high level",
            Mode::Level0 => "low level",
        };
        let state = words(
            &[
                (true, mode),
                (wire, "wire high"),
                (source.pending, "pending"),
                (source.enabled, "enabled"),
            ],
            "",
        );
        let target = source.target;
        let hart = target >> HART_SHIFT;
        match self.delivery {
            Delivery::Direct => format!("{state}, hart {hart}, priority {}", target & PRIORITY),
            Delivery::Msi => {
                let guest = match (target & GUEST) >> GUEST_SHIFT {
                    0 => String::new(),
                    guest => format!(" guest {guest}"),
                };
                let identity = target & IDENTITY;
                format!("{state}, to hart {hart}{guest} as {identity}")
            }
        }
    }

    fn inspect_harts(&self, name: &str, rows: &mut Vec<Row>) {
        for (hart, own) in self.idcs.iter().enumerate() {
            let mut part = Part::new(rows, Some(hart), name);
            let state = words(&[(own.delivery, "on"), (own.force, "forced")], "off");
            part.row(own.delivery || own.force, "delivery", state);
            part.row(own.threshold != 0, "threshold", own.threshold.to_string());
            let raised = match self.top(hart) >> 16 {
                _ if !self.raised(hart) => "no".into(),
                0 => "yes, forced".into(),
                source => format!("yes, by source {source}"),
            };
            part.row(self.raised(hart), "raised", raised);
        }
    }
}
