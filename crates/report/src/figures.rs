//! Rows of one figure for each column: interrupts and firmware, time, measurements.

use std::collections::BTreeSet;

use trapless_ledger::Section;

use crate::compare::{Column, Comparison, MODE_TEXT, Row};
use crate::number::{self, Space};

/// A figure of a section.
pub type Count = fn(&Section) -> u64;

/// Traps to VS-mode with this kind of interrupt.
pub fn taken(section: &Section, kind: &str) -> u64 {
    section
        .guest_interrupts
        .taken
        .get(kind)
        .copied()
        .unwrap_or(0)
}

impl Comparison<'_> {
    /// Latencies of guests' interrupts that any column has: key and what it is.
    pub fn latency_rows(&self) -> Vec<(&'static str, &'static str)> {
        let known = [
            ("guest_timer", "Timer: deadline to guest handler"),
            ("guest_ipi", "IPI: send to guest handler"),
            ("guest_device", "Device: signalled to guest handler"),
        ];
        let used = |key| {
            self.columns
                .iter()
                .any(|c| c.section.latency.contains_key(key))
        };
        known.into_iter().filter(|(key, _)| used(*key)).collect()
    }

    /// Interrupts as the guests saw them, and what firmware did. Rows of zeros are left out.
    pub fn interrupt_rows(&self, space: Space) -> Vec<Row> {
        let counts: [(&str, Count); 13] = [
            ("timer set with an exit", |s| {
                s.guest_interrupts.timer_set_with_exit
            }),
            ("timer set without an exit", |s| {
                s.guest_interrupts.timer_set_without_exit
            }),
            ("timer interrupts taken", |s| taken(s, "timer")),
            ("IPIs sent with an exit", |s| s.guest_interrupts.ipi_sends),
            ("software interrupts taken", |s| taken(s, "software")),
            ("external interrupts taken", |s| taken(s, "external")),
            ("guest entries", |s| s.guest_entries),
            ("firmware traps, all", |s| s.firmware.total),
            ("  charged to guest exits", |s| s.firmware.charged_to_exits),
            ("  from a guest, without an exit", |s| {
                s.firmware.direct.values().map(|d| d.traps).sum()
            }),
            ("  before the first guest", |s| s.firmware.host),
            ("host traps charged to guest exits", |s| {
                s.exits.values().map(|e| e.host_traps).sum()
            }),
            ("  system calls among them", |s| {
                s.exits.values().map(|e| e.syscalls).sum()
            }),
        ];
        let used = |f: &Count| self.columns.iter().any(|c| f(c.section) != 0);
        let rows = counts.iter().filter(|(_, f)| used(f));
        rows.map(|(label, f)| self.row(label, |c| number::count(f(c.section), space)))
            .collect()
    }

    /// Virtual time: length, then each mode's share of all harts' time.
    pub fn time_rows(&self, space: Space) -> Vec<Row> {
        let length =
            |c: &Column| number::duration(c.section.cycles, c.clock().cycles_per_second, space);
        let mut rows = vec![self.row("length of the workload", length)];
        for (i, what) in MODE_TEXT.iter().enumerate() {
            let share = |c: &Column| {
                let time = c.time();
                number::percent(time[i].1, time.iter().map(|t| t.1).sum())
            };
            rows.push(self.row(what, share));
        }
        let names: BTreeSet<&String> = self
            .columns
            .iter()
            .flat_map(|c| c.file.run.counters.keys())
            .collect();
        for name in names {
            let value = |c: &Column| match c.file.run.counters.get(name) {
                Some(n) => number::count(*n, space),
                None => "–".to_string(),
            };
            rows.push(self.row(name, value));
        }
        rows
    }

    /// What the workloads printed.
    pub fn measurement_rows(&self, space: Space) -> Vec<Row> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for m in self.columns.iter().flat_map(|c| &c.file.run.measurements) {
            if !names.contains(&(&m.name, &m.unit)) {
                names.push((&m.name, &m.unit));
            }
        }
        let rows = names.into_iter().map(|(name, unit)| {
            let label = if unit.is_empty() {
                name.to_string()
            } else {
                format!("{name} ({unit})")
            };
            self.row(&label, |c| {
                let found = c.file.run.measurements.iter().find(|m| m.name == name);
                found.map_or("–".to_string(), |m| measured(m.value, space))
            })
        });
        rows.collect()
    }
}

/// A value as the workload gave it, without a fraction if it has none.
fn measured(value: f64, space: Space) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        number::count(value as u64, space)
    } else {
        format!("{value}")
    }
}
