//! Exits for each class of interrupts, from workloads that make one class after the other, as
//! Markdown.
//!
//! Such a workload marks a phase for each class and reports under the phase's name how many
//! interrupts came (workload `density`). Ledgers that differ in the number of vCPUs only are rows
//! of a table, others are columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use trapless_ledger::document::Section;
use trapless_ledger::{Class, LedgerFile};

use crate::number::{self, Space};

/// A phase of a run in which only one class of interrupts was made.
struct Part<'a> {
    section: &'a Section,
    interrupts: u64,
}

impl Part<'_> {
    fn per_thousand(&self, n: u64) -> String {
        number::decimal(n as f64 * 1000.0 / self.interrupts as f64, Space::Plain)
    }

    /// Exits that the ledger charges to the class of interrupts that phase `name` makes.
    fn charged(&self, name: &str) -> u64 {
        let class = Class::from_name(name).unwrap_or(Class::Device);
        let counts = self.section.interrupts.get(&class);
        counts.map_or(0, |counts| counts.exits)
    }

    fn exits(&self, key: &str) -> u64 {
        self.section.exits.get(key).map_or(0, |exit| exit.exits)
    }
}

/// Tables of all phases that the ledgers' workloads count interrupts for; `None` if there are none.
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
        // Per over-commit (vCPUs and harts), per column.
        let mut rows: BTreeMap<(u64, u64), BTreeMap<&str, Part>> = BTreeMap::new();
        for (name, ledger) in names.iter().zip(ledgers) {
            if let Some(part) = part(ledger, &class) {
                rows.entry(size(ledger)).or_default().insert(name, part);
            }
        }
        class_tables(&mut text, &class, &columns, &rows);
    }
    Some(text)
}

fn class_tables(
    text: &mut String,
    class: &str,
    columns: &[&str],
    rows: &BTreeMap<(u64, u64), BTreeMap<&str, Part>>,
) {
    let present: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|name| rows.values().any(|row| row.contains_key(name)))
        .collect();
    let _ = writeln!(
        text,
        "### {class}\n\nExits per 1 000 interrupts: charged to the class; others but WFI; WFI.\n\n| vCPUs per hart | {} |\n|---:|{}",
        present.join(" | "),
        "---:|".repeat(present.len())
    );
    for ((vcpus, harts), row) in rows {
        let cell = |name: &&str| match row.get(name) {
            Some(part) => {
                let wfi = part.exits("wfi");
                let charged = part.charged(class);
                let others = part.section.guest_exits.saturating_sub(wfi + charged);
                let numbers = [charged, others, wfi].map(|n| part.per_thousand(n));
                numbers.join("; ")
            }
            None => "-".into(),
        };
        let cells: Vec<String> = present.iter().map(cell).collect();
        let _ = writeln!(
            text,
            "| {} | {} |",
            over_commit(*vcpus, *harts),
            cells.join(" | ")
        );
    }
    let _ = writeln!(
        text,
        "\nThe same by reason (at least 5 per 1 000 in one of them).\n"
    );
    let all = rows.iter().flat_map(|(size, row)| {
        present
            .iter()
            .filter_map(move |name| Some((name, *size, row.get(name)?)))
    });
    let mut parts: Vec<_> = all.collect();
    parts.sort_by_key(|(name, size, _)| (columns.iter().position(|c| c == *name), *size));
    let reasons: BTreeSet<&str> = parts
        .iter()
        .flat_map(|(_, _, part)| {
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
    for (name, (vcpus, harts), part) in parts {
        let cells: Vec<String> = reasons
            .iter()
            .map(|key| part.per_thousand(part.exits(key)))
            .collect();
        let _ = writeln!(
            text,
            "| {name}, {} | {} | {} | {} |",
            over_commit(vcpus, harts),
            cells.join(" | "),
            part.per_thousand(part.section.firmware.total),
            part.per_thousand(part.section.host_ipis)
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

/// Name of each ledger's column: the machine, and the parameters, besides those in `without`, that
/// are not those of the first ledger.
pub(crate) fn names(ledgers: &[LedgerFile], without: &[&str]) -> Vec<String> {
    let parameters = |ledger: &LedgerFile| -> BTreeMap<String, String> {
        let named = |(key, value): (&String, &String)| {
            let seed = Some(key.as_str()).filter(|key| *key == "seed");
            let name = key.strip_prefix("parameter ").or(seed)?;
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
            ledger("aia", 8, "fixed", 100, 550),
        ];
        let text = markdown(&ledgers).unwrap();
        assert!(
            text.contains("| vCPUs per hart | aia | aia kvm=fixed |"),
            "{text}"
        );
        assert!(text.contains("| 1x | 800; 200; 100 | - |"), "{text}");
        assert!(
            text.contains("| 4x | 1 000; 200; 200 | 900; 200; 200 |"),
            "{text}"
        );
        // Reasons below 5 per 1 000 are left out.
        assert!(text.contains("| | `mmio.aplic.write` | `wfi` |"), "{text}");
    }

    #[test]
    fn runs_without_counted_phases_have_no_table() {
        let mut one = ledger("aia", 2, "stock", 1, 1);
        one.run.measurements.clear();
        assert_eq!(markdown(&[one]), None);
    }
}
