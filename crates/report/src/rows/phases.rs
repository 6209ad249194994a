//! Exits for each class of interrupts, from workloads that generate one class at a time, as
//! Markdown.
//!
//! Such a workload marks a phase for each class and reports under the phase's name how many
//! interrupts came (workload `density`). Ledgers that differ only in the number of vCPUs are rows
//! of a table, those that differ only in the seed are one cell, others are columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use trapless_ledger::document::Section;
use trapless_ledger::{Class, LedgerFile};

use crate::cell::cell;
use crate::number::{self, Space};
use crate::statistics::Sample;
use crate::titles::seed;

/// A phase of a run in which only one class of interrupts was made.
struct Part<'a> {
    section: &'a Section,
    interrupts: u64,
}

/// The same phase of runs that differ only in the seed.
type Parts<'a> = BTreeMap<&'a str, Part<'a>>;

/// Parts by over-commit (vCPUs and harts) and column.
type Rows<'a> = BTreeMap<(u64, u64), BTreeMap<&'a str, Parts<'a>>>;

/// A count of one run for a phase's tables.
type Figure = fn(&Part, &str) -> u64;

/// Rows for each over-commit: all exits, in three parts.
const EXITS: [(&str, Figure); 3] = [
    ("charged to the class", |part, class| part.charged(class)),
    ("others but WFI", |part, class| {
        let counted = part.charged(class) + part.exits("wfi");
        part.section.guest_exits.saturating_sub(counted)
    }),
    ("WFI", |part, _| part.exits("wfi")),
];

impl Part<'_> {
    /// Exits that the ledger charges to the class of interrupts of phase `name`.
    fn charged(&self, name: &str) -> u64 {
        let class = Class::from_name(name).unwrap_or(Class::Device);
        let counts = self.section.interrupts.get(&class);
        counts.map_or(0, |counts| counts.exits)
    }

    fn exits(&self, key: &str) -> u64 {
        self.section.exits.get(key).map_or(0, |exit| exit.exits)
    }
}

/// Median and interval of a count for 1 000 interrupts.
fn per_thousand(parts: &Parts, count: impl Fn(&Part) -> u64) -> String {
    let rate = |part: &Part| count(part) as f64 * 1000.0 / part.interrupts as f64;
    let sample = Sample::new(parts.values().map(rate));
    cell(sample.as_ref(), |v| number::decimal(v, Space::Plain))
}

/// Tables of all phases for which the ledgers' workloads count interrupts; `None` if there are
/// none.
#[must_use]
pub fn markdown(ledgers: &[LedgerFile]) -> Option<String> {
    let names = names(ledgers, &[]);
    let mut columns: Vec<&str> = Vec::new();
    for name in &names {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let classes = classes(ledgers);
    if classes.is_empty() {
        return None;
    }
    let mut text = String::new();
    for class in classes {
        let mut rows = Rows::new();
        for (name, ledger) in names.iter().zip(ledgers) {
            if let Some(part) = part(ledger, &class) {
                let row = rows.entry(size(ledger)).or_default();
                row.entry(name).or_default().insert(seed(ledger), part);
            }
        }
        let present = |name: &&str| rows.values().any(|row| row.contains_key(name));
        let present: Vec<&str> = columns.iter().copied().filter(present).collect();
        class_table(&mut text, &class, &present, &rows);
        reason_table(&mut text, &present, &rows);
    }
    Some(text)
}

fn class_table(text: &mut String, class: &str, columns: &[&str], rows: &Rows) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "### {class}\n\nExits per 1 000 interrupts.{}\n\n| vCPUs per hart | | {} |\n|---:|---|{}",
        repeated(rows),
        columns.join(" | "),
        "---:|".repeat(columns.len())
    );
    for ((vcpus, harts), row) in rows {
        for (label, figure) in EXITS {
            let cell = |name: &&str| match row.get(name) {
                Some(parts) => per_thousand(parts, |part| figure(part, class)),
                None => "-".into(),
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            let size = over_commit(*vcpus, *harts);
            let _ = writeln!(text, "| {size} | {label} | {} |", cells.join(" | "));
        }
    }
}

/// Explains cells of several runs.
fn repeated(rows: &Rows) -> String {
    let runs = rows.values().flat_map(BTreeMap::values).map(Parts::len);
    match runs.clone().max() {
        Some(most @ 2..) if runs.min() == Some(most) => {
            format!(" Median of {most} runs with different seeds (interval for it).")
        }
        Some(most @ 2..) => {
            format!(" Median of up to {most} runs with different seeds (interval for it).")
        }
        _ => String::new(),
    }
}

fn reason_table(text: &mut String, columns: &[&str], rows: &Rows) {
    let _ = writeln!(
        text,
        "\nThe same by reason (at least 5 per 1 000 in one of them).\n"
    );
    let all = rows.iter().flat_map(|(size, row)| {
        columns
            .iter()
            .filter_map(move |name| Some((name, *size, row.get(name)?)))
    });
    let mut cells: Vec<_> = all.collect();
    cells.sort_by_key(|(name, size, _)| (columns.iter().position(|c| c == *name), *size));
    let parts = cells.iter().flat_map(|(_, _, parts)| parts.values());
    let reasons: BTreeSet<&str> = parts
        .flat_map(|part| {
            let rare = |exits: u64| exits * 200 < part.interrupts;
            part.section
                .exits
                .iter()
                .filter(move |(_, exit)| !rare(exit.exits))
                .map(|(key, _)| key.as_str())
        })
        .collect();
    let head: Vec<String> = reasons.iter().map(|key| format!("`{key}`")).collect();
    let _ = writeln!(
        text,
        "| | {} | firmware traps | host IPIs |\n|---|{}---:|---:|",
        head.join(" | "),
        "---:|".repeat(reasons.len())
    );
    for (name, (vcpus, harts), parts) in cells {
        let of_reason = |key: &&str| per_thousand(parts, |part| part.exits(key));
        let exits: Vec<String> = reasons.iter().map(of_reason).collect();
        let _ = writeln!(
            text,
            "| {name}, {} | {} | {} | {} |",
            over_commit(vcpus, harts),
            exits.join(" | "),
            per_thousand(parts, |part| part.section.firmware.total),
            per_thousand(parts, |part| part.section.host_ipis)
        );
    }
    text.push('\n');
}

fn over_commit(vcpus: u64, harts: u64) -> String {
    if vcpus.is_multiple_of(harts) {
        format!("{}x", vcpus / harts)
    } else {
        format!("{vcpus}/{harts}")
    }
}

/// Number of vCPUs and harts.
fn size(ledger: &LedgerFile) -> (u64, u64) {
    let number = |key: &str| {
        let value = ledger.run.configuration.get(key);
        value.and_then(|v| v.parse().ok()).unwrap_or(1).max(1)
    };
    (number("guest vCPUs"), number("harts"))
}

fn part<'a>(ledger: &'a LedgerFile, class: &str) -> Option<Part<'a>> {
    let phase = ledger.phases.iter().find(|phase| phase.name == class)?;
    let count = ledger.run.measurements.iter().find(|m| m.name == class)?;
    (count.value >= 1.0).then_some(Part {
        section: &phase.totals,
        interrupts: count.value as u64,
    })
}

/// Phases with a count of interrupts, in the order of the runs.
fn classes(ledgers: &[LedgerFile]) -> Vec<String> {
    let mut classes: Vec<String> = Vec::new();
    for ledger in ledgers {
        for phase in &ledger.phases {
            if part(ledger, &phase.name).is_some() && !classes.contains(&phase.name) {
                classes.push(phase.name.clone());
            }
        }
    }
    classes
}

/// Name of each ledger's column: the machine, and the parameters that differ from the first
/// ledger's, except those in `without` and the seed.
pub(crate) fn names(ledgers: &[LedgerFile], without: &[&str]) -> Vec<String> {
    let parameters = |ledger: &LedgerFile| -> BTreeMap<String, String> {
        let named = |(key, value): (&String, &String)| {
            let name = key.strip_prefix("parameter ")?;
            Some((name.to_string(), value.clone()))
        };
        ledger.run.configuration.iter().filter_map(named).collect()
    };
    let first = ledgers.first().map(parameters).unwrap_or_default();
    let name = |ledger: &LedgerFile| {
        let mut name = ledger.run.machine.clone();
        for (key, value) in parameters(ledger) {
            if !without.contains(&key.as_str()) && first.get(&key) != Some(&value) {
                let _ = write!(name, " {key}={value}");
            }
        }
        name
    };
    ledgers.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::InterruptClass;
    use trapless_ledger::document::{Exit, Measurement, Phase, RunInfo};

    fn ledger(machine: &str, vcpus: u64, kvm: &str, wfi: u64, mmio: u64) -> LedgerFile {
        let mut ledger = LedgerFile {
            schema: String::new(),
            run: RunInfo {
                machine: machine.into(),
                ..RunInfo::default()
            },
            total: Section::default(),
            phases: Vec::new(),
            vcpus: Vec::new(),
            host: None,
        };
        for (key, value) in [
            ("guest vCPUs", vcpus.to_string()),
            ("harts", "2".into()),
            ("parameter kvm", kvm.into()),
        ] {
            ledger.run.configuration.insert(key.into(), value);
        }
        ledger.run.measurements.push(Measurement {
            name: "level".into(),
            value: 500.0,
            unit: String::new(),
        });
        let mut totals = Section {
            guest_exits: wfi + mmio,
            ..Section::default()
        };
        let device = InterruptClass {
            exits: mmio.saturating_sub(100),
            ..InterruptClass::default()
        };
        totals.interrupts.insert(Class::Device, device);
        for (key, exits) in [("wfi", wfi), ("mmio.aplic.write", mmio), ("host_timer", 1)] {
            let exit = Exit {
                exits,
                ..Exit::default()
            };
            totals.exits.insert(key.parse().unwrap(), exit);
        }
        ledger.phases.push(Phase {
            name: "level".into(),
            from: 0,
            totals,
        });
        ledger
    }

    #[test]
    fn over_commits_are_rows_and_other_differences_are_columns() {
        let ledgers = [
            ledger("aia", 2, "stock", 50, 500),
            ledger("aia", 8, "stock", 100, 600),
            ledger("aia", 8, "patched", 100, 550),
        ];
        let text = markdown(&ledgers).unwrap();
        for row in [
            "| vCPUs per hart | | aia | aia kvm=patched |",
            "| 1x | charged to the class | 800 | - |",
            "| 4x | charged to the class | 1 000 | 900 |",
            "| 4x | others but WFI | 200 | 200 |",
            "| 4x | WFI | 200 | 200 |",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        // Reasons below 5 per 1 000 are left out.
        assert!(text.contains("| | `mmio.aplic.write` | `wfi` |"), "{text}");
    }

    /// Promise: runs with different seeds are one figure with an interval, the same run twice is
    /// one.
    #[test]
    fn seeds_share_a_cell() {
        let seeded = |seed: u64, wfi| {
            let mut one = ledger("aia", 2, "stock", wfi, 500);
            let seed = seed.to_string();
            one.run.configuration.insert("seed".into(), seed);
            one
        };
        let ledgers = [seeded(0, 50), seeded(1, 70), seeded(2, 55), seeded(2, 55)];
        let text = markdown(&ledgers).unwrap();
        assert!(text.contains("| 1x | WFI | 110 (100–140) |"), "{text}");
        assert!(
            text.contains("| 1x | charged to the class | 800 |"),
            "{text}"
        );
        assert!(text.contains("Median of 3 runs"), "{text}");
    }

    #[test]
    fn runs_without_counted_phases_have_no_table() {
        let mut one = ledger("aia", 2, "stock", 1, 1);
        one.run.measurements.clear();
        assert_eq!(markdown(&[one]), None);
    }
}
