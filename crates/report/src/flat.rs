//! Every figure of a run under a name, with rates by which runs can be compared: for programs that
//! evaluate many runs, such as sweeps.

use std::collections::BTreeMap;

use serde::Serialize;
use trapless_ledger::{Class, LedgerFile, RunInfo, Section};

use crate::findings::interrupts;

/// The phase that reports show, and the one that follows the measured part.
const MEASURED: &str = "workload";
const AFTER: &str = "after";

/// Figures of one part of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Name of the phase; `total` for the whole run. A second phase of a name has a number.
    pub phase: String,
    /// Figures by name: those of [`Section::flatten`], and the rates of reports (`per_interrupt.`,
    /// `per_work.`). The measured part also has measurements of the workload (`measurement.NAME`)
    /// and its `work`.
    pub counters: BTreeMap<String, f64>,
}

/// The measured part, which is the whole run if none is marked, and the phases that the workload
/// began after it.
pub fn parts(file: &LedgerFile) -> Vec<Part> {
    let start = file.phases.iter().position(|phase| phase.name == MEASURED);
    let work = file.run.work.as_ref().map_or(0, |work| work.count);
    let phase = start.map_or("total", |_| MEASURED);
    let mut measured = part(phase.to_string(), file.workload(), work);
    measured.counters.extend(measurements(&file.run));
    let mut parts = vec![measured];
    let later = start.map_or(&[][..], |start| &file.phases[start + 1..]);
    for phase in later.iter().take_while(|phase| phase.name != AFTER) {
        let taken = |name: &str| parts[1..].iter().any(|part| part.phase == name);
        let numbered = (2..).map(|n| format!("{} {n}", phase.name));
        let mut names = std::iter::once(phase.name.clone()).chain(numbered);
        let name = names.find(|name| !taken(name)).unwrap_or_default();
        parts.push(part(name, &phase.totals, 0));
    }
    parts
}

/// Measurements that the workload reported.
fn measurements(run: &RunInfo) -> BTreeMap<String, f64> {
    let measured = run.measurements.iter();
    let measured = measured.map(|m| (format!("measurement.{}", m.name), m.value));
    let work = run.work.iter().filter(|work| work.count != 0);
    let work = work.map(|work| ("work".to_string(), work.count as f64));
    measured.chain(work).collect()
}

fn part(phase: String, section: &Section, work: u64) -> Part {
    let figures = section.flatten().into_iter();
    let mut counters: BTreeMap<String, f64> = figures.map(|f| (f.name, f.value)).collect();
    for hart in &section.harts {
        for (slot, cycles) in &hart.cycles {
            *counters.entry(format!("cycles.{slot}")).or_default() += *cycles as f64;
        }
    }
    let mut rate = |name: String, count: u64, of: u64| {
        if of != 0 {
            counters.insert(name, count as f64 / of as f64);
        }
    };
    let all = Class::ALL.map(|class| interrupts(section, class));
    let all = all.iter().sum();
    rate("per_interrupt.exits".into(), section.guest_exits, all);
    let firmware = section.firmware.charged_to_exits;
    rate("per_interrupt.firmware_traps".into(), firmware, all);
    for (class, counts) in &section.interrupts {
        let name = format!("per_interrupt.{class}.exits");
        rate(name, counts.exits, counts.taken);
    }
    rate("per_work.exits".into(), section.guest_exits, work);
    rate("per_work.cycles".into(), section.cycles, work);
    Part { phase, counters }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::document::{HartInfo, InterruptClass, Measurement, Phase};
    use trapless_ledger::{Config, Ledger, Slot};

    fn section(exits: u64) -> Section {
        let timer = InterruptClass {
            taken: 2,
            ..InterruptClass::default()
        };
        let hart = |cycles| HartInfo {
            cycles: [(Slot::VS, cycles)].into(),
            ..HartInfo::default()
        };
        Section {
            guest_exits: exits,
            interrupts: [(Class::Timer, timer)].into(),
            harts: vec![hart(1), hart(2)],
            ..Section::default()
        }
    }

    /// Promise: what a workload does one after the other is counted apart, by the names it gives.
    #[test]
    fn phases_of_a_workload_have_distinct_names() {
        let run = RunInfo {
            measurements: vec![Measurement {
                name: "us".into(),
                value: 1.5,
                unit: String::new(),
            }],
            ..RunInfo::default()
        };
        let mut file = Ledger::new(Config::new(1)).to_file(run, None);
        assert_eq!(parts(&file)[0].phase, "total");
        let names = [
            "start", "workload", "ipi", "between", "timer", "between", "after",
        ];
        let phase = |(exits, name): (u64, &str)| Phase {
            name: name.into(),
            from: 0,
            totals: section(exits),
        };
        file.phases = (0..).zip(names).map(phase).collect();
        let parts = parts(&file);
        let exits = parts.iter();
        let exits = exits.map(|p| (p.phase.as_str(), p.counters["guest_exits"]));
        let exits: Vec<_> = exits.collect();
        let expected = [
            ("workload", 1.0),
            ("ipi", 2.0),
            ("between", 3.0),
            ("timer", 4.0),
        ];
        assert_eq!(exits[..4], expected);
        assert_eq!(exits[4..], [("between 2", 5.0)]);
        assert_eq!(parts[0].counters["measurement.us"], 1.5);
        assert!(!parts[3].counters.contains_key("measurement.us"));
        assert_eq!(parts[3].counters["per_interrupt.exits"], 2.0);
        assert_eq!(parts[3].counters["cycles.VS"], 3.0);
    }
}
