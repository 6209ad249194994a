//! Cost of moving a vCPU, from pairs of runs of workload `migrate` with the same seed: one with and
//! one without moves.

use std::fmt::Write as _;

use trapless_ledger::{LedgerFile, Slot};

use crate::cell::cell;
use crate::number::{self, Space};
use crate::rows::phases;
use crate::statistics::Sample;
use crate::titles::seed;

/// A figure of a run.
type Figure = fn(&LedgerFile) -> f64;

const FIGURES: [(&str, Figure); 6] = [
    ("cycles in HS-mode", |ledger| cycles(ledger, Slot::HS)),
    ("cycles in M-mode", |ledger| cycles(ledger, Slot::M)),
    ("firmware traps", |ledger| {
        ledger.workload().firmware.total as f64
    }),
    ("guest exits", |ledger| ledger.workload().guest_exits as f64),
    ("IPIs of the host", |ledger| {
        measured(ledger, "host_ipis").unwrap_or(0.0)
    }),
    ("HFENCE", |ledger| {
        ledger.run.counters.get("hfence").copied().unwrap_or(0) as f64
    }),
];

fn cycles(ledger: &LedgerFile, slot: Slot) -> f64 {
    let harts = ledger.workload().harts.iter();
    let cycles = harts.filter_map(|hart| hart.cycles.get(&slot));
    cycles.map(|n| *n as f64).sum()
}

fn measured(ledger: &LedgerFile, name: &str) -> Option<f64> {
    let found = ledger.run.measurements.iter().find(|m| m.name == name)?;
    Some(found.value)
}

fn moving(ledger: &LedgerFile) -> Option<&str> {
    let value = ledger.run.configuration.get("parameter moving")?;
    Some(value)
}

/// A run with moves, the same without, and the number of moves.
type Pair<'a> = (&'a LedgerFile, &'a LedgerFile, f64);

/// The pairs of each column, in the order of the columns' first ledgers.
fn pairs<'a>(names: &'a [String], ledgers: &'a [LedgerFile]) -> Vec<(&'a str, Vec<Pair<'a>>)> {
    let mut columns: Vec<(&str, Vec<Pair>)> = Vec::new();
    let named = || names.iter().zip(ledgers);
    for (name, with) in named().filter(|(_, with)| moving(with) == Some("1")) {
        let rests = |(other, without): &(&String, &LedgerFile)| {
            moving(without) == Some("0") && *other == name && seed(without) == seed(with)
        };
        let moves = measured(with, "moves").filter(|moves| *moves >= 1.0);
        let (Some((_, without)), Some(moves)) = (named().find(rests), moves) else {
            continue;
        };
        let pair = (with, without, moves);
        match columns.iter_mut().find(|(column, _)| column == name) {
            Some((_, pairs)) => pairs.push(pair),
            None => columns.push((name.as_str(), vec![pair])),
        }
    }
    columns
}

fn signed(value: f64) -> String {
    let sign = if value <= -0.005 { "−" } else { "" };
    format!("{sign}{}", number::decimal(value.abs(), Space::Plain))
}

/// A table of the differences for each move as Markdown; `None` without such a pair. With several
/// seeds it has medians and intervals.
#[must_use]
pub fn markdown(ledgers: &[LedgerFile]) -> Option<String> {
    let names = phases::names(ledgers, &["moving"]);
    let columns = pairs(&names, ledgers);
    if columns.is_empty() {
        return None;
    }
    let heads: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = format!(
        "| for each move | {} |\n|---|{}\n",
        heads.join(" | "),
        "---:|".repeat(heads.len())
    );
    for (what, figure) in FIGURES {
        let difference = |(with, without, moves): &Pair| (figure(with) - figure(without)) / moves;
        let of = |pairs: &[Pair]| cell(Sample::new(pairs.iter().map(difference)).as_ref(), signed);
        let cells: Vec<String> = columns.iter().map(|(_, pairs)| of(pairs)).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::Section;
    use trapless_ledger::document::{Measurement, RunInfo};

    fn ledger(machine: &str, moving: u64, exits: u64, ipis: f64, hfences: u64) -> LedgerFile {
        let measurement = |name: &str, value| Measurement {
            name: name.into(),
            value,
            unit: String::new(),
        };
        let mut run = RunInfo {
            machine: machine.into(),
            measurements: vec![measurement("moves", 100.0), measurement("host_ipis", ipis)],
            ..RunInfo::default()
        };
        let key = "parameter moving".to_string();
        run.configuration.insert(key, moving.to_string());
        run.counters.insert("hfence".into(), hfences);
        LedgerFile {
            schema: String::new(),
            run,
            total: Section {
                guest_exits: exits,
                ..Section::default()
            },
            phases: Vec::new(),
            vcpus: Vec::new(),
            host: None,
        }
    }

    #[test]
    fn a_move_costs_the_difference_of_two_runs() {
        let ledgers = [
            ledger("sstc", 1, 1_000, 110.0, 400),
            ledger("sstc", 0, 1_001, 10.0, 300),
            ledger("aia", 1, 1_000, 250.0, 700),
            ledger("aia", 0, 1_000, 50.0, 300),
        ];
        let text = markdown(&ledgers).unwrap();
        assert!(
            text.starts_with("| for each move | sstc | aia |\n"),
            "{text}"
        );
        assert!(text.contains("| guest exits | −0.01 | 0 |"), "{text}");
        assert!(text.contains("| IPIs of the host | 1 | 2 |"), "{text}");
        assert!(text.contains("| HFENCE | 1 | 4 |"), "{text}");
        assert_eq!(markdown(&ledgers[1..3]), None);
    }

    /// Promise: a run is compared with the one of its own seed, in whatever order they come.
    #[test]
    fn pairs_have_the_same_seed() {
        let seeded = |seed: u64, moving, exits| {
            let mut one = ledger("aia", moving, exits, 0.0, 0);
            let seed = seed.to_string();
            one.run.configuration.insert("seed".into(), seed);
            one
        };
        let ledgers = [
            seeded(0, 1, 1_000),
            seeded(1, 1, 2_100),
            seeded(2, 1, 400),
            seeded(1, 0, 2_000),
            seeded(0, 0, 900),
            seeded(2, 0, 700),
        ];
        let text = markdown(&ledgers).unwrap();
        assert!(text.contains("| guest exits | 1 (−3–1) |"), "{text}");
    }
}
