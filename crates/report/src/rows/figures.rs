//! Rows of one figure for each column: interrupts and firmware, time, measurements.

use std::collections::BTreeSet;

use trapless_ledger::document::{Exit, Firmware, GuestInterrupts};
use trapless_ledger::{Section, Slot};

use crate::cell::{Row, cells};
use crate::compare::{Column, Comparison, Run, mode_text, time_of};
use crate::number::{self, Space};
use crate::statistics::Sample;

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
    /// Latencies of guests' interrupts that any column has: key and description.
    pub fn latency_rows(&self) -> Vec<(&'static str, &'static str)> {
        let known = [
            ("guest_timer", "Timer: deadline to guest handler"),
            ("guest_ipi", "IPI: send to guest handler"),
            ("guest_device", "Device: signalled to guest handler"),
        ];
        let used = |key| self.columns.iter().any(|c| c.latency(key).is_some());
        known.into_iter().filter(|(key, _)| used(*key)).collect()
    }

    /// Interrupts taken by guests, and traps to firmware. Rows of zeros are left out.
    pub fn interrupt_rows(&self, space: Space) -> Vec<Row> {
        let own = self.counter_rows(GuestInterrupts::COUNTERS, space, |s| {
            Some(&s.guest_interrupts)
        });
        let counts: [(&str, Count); 3] = [
            ("timer interrupts taken", |s| taken(s, "timer")),
            ("software interrupts taken", |s| taken(s, "software")),
            ("external interrupts taken", |s| taken(s, "external")),
        ];
        let used = counts.iter().filter(|(_, f)| self.any(f));
        let seen = used.map(|(label, f)| self.count_row(label, space, |s| Some(f(s))));
        let entries = self.counter_rows(Section::COUNTERS, space, |s| Some(s));
        let mut rows: Vec<Row> = own.into_iter().chain(seen).chain(entries).collect();
        rows.extend(self.counter_rows(Firmware::COUNTERS, space, |s| Some(&s.firmware)));
        let direct: Count = |s| s.firmware.direct.values().map(|d| d.traps).sum();
        if self.any(direct) {
            let label = "  from a guest, without an exit";
            rows.push(self.count_row(label, space, |s| Some(direct(s))));
        }
        for counter in Exit::COUNTERS {
            let sum = |s: &Section| s.exits.values().map(counter.get).sum();
            if self.has_row(counter, sum) {
                rows.push(self.count_row(counter.label, space, |s| Some(sum(s))));
            }
        }
        rows
    }

    /// Virtual time: length, then each mode's share of all harts' time.
    pub fn time_rows(&self, space: Space) -> Vec<Row> {
        let second = |c: &Column| c.clock().cycles_per_second;
        let hertz = self.columns.first().map_or(1, second);
        let length = |run: &Run| {
            // In cycles of the first column's clock: a row has one unit.
            let clock = &run.file.run.clock;
            run.section.cycles as f64 * hertz as f64 / clock.cycles_per_second as f64
        };
        let text = |v: f64| number::duration(v as u64, hertz, space);
        let label = "length of the workload".to_string();
        let mut rows = vec![(label, cells(&self.samples(length), text))];
        for slot in Slot::ALL {
            let share = |run: &Run| {
                let time = time_of(|| run.section.harts.iter());
                let whole: u64 = time.iter().map(|t| t.1).sum();
                time[slot as usize].1 as f64 * 100.0 / whole as f64
            };
            let text = |v| format!("{v:.1} %");
            let label = mode_text(slot).to_string();
            rows.push((label, cells(&self.samples(share), text)));
        }
        for name in self.counters() {
            let value = |run: &Run| {
                let value = run.file.run.counters.get(name);
                value.map_or(f64::NAN, |n| *n as f64)
            };
            let text = |v| number::decimal(v, space);
            rows.push((name.clone(), cells(&self.samples(value), text)));
        }
        rows
    }

    /// Names of the machine's own counters in any run.
    fn counters(&self) -> BTreeSet<&String> {
        let runs = self.columns.iter().flat_map(|c| &c.runs);
        runs.flat_map(|run| run.file.run.counters.keys()).collect()
    }

    /// Measurements of the workloads.
    pub fn measurement_rows(&self, space: Space) -> Vec<Row> {
        let rows = self.measurements().into_iter().map(|(name, unit)| {
            let label = if unit.is_empty() {
                name.to_string()
            } else {
                format!("{name} ({unit})")
            };
            let samples = self.measurement(name);
            (label, cells(&samples, |v| measured(v, space)))
        });
        rows.collect()
    }

    /// Names and units of the workloads' measurements, in their order.
    pub fn measurements(&self) -> Vec<(&str, &str)> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let runs = self.columns.iter().flat_map(|c| &c.runs);
        for m in runs.flat_map(|run| &run.file.run.measurements) {
            if !names.contains(&(&m.name, &m.unit)) {
                names.push((&m.name, &m.unit));
            }
        }
        names
    }

    /// Measurement of each column's workloads with this name.
    pub fn measurement(&self, name: &str) -> Vec<Option<Sample>> {
        self.samples(|run| {
            let measurements = run.file.run.measurements.iter();
            let mut found = measurements.filter(|m| m.name == name);
            found.next().map_or(f64::NAN, |m| m.value)
        })
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
