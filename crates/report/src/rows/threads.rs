//! Threads of the host: switches between them, and cycles of each outside guests.

use std::collections::{BTreeMap, BTreeSet};

use trapless_ledger::document::Thread;
use trapless_ledger::{Section, Slot};

use crate::cell::{Row, cells};
use crate::compare::{Comparison, Run};
use crate::number::{self, Space};
use crate::statistics::Sample;

/// Threads with a row of their own; the rest is summed up.
const ROWS: usize = 8;
/// Modes of the host. Time of a thread in `VU` and `VS` is its guest's, and `idle` belongs to no
/// thread.
const HOST: [Slot; 3] = [Slot::U, Slot::HS, Slot::M];

/// Cycles by name: threads with the same name have the same task, and numbers differ between runs.
fn cycles(section: &Section) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for thread in &section.threads {
        let of = HOST.map(|slot| thread.cycles.get(&slot).copied().unwrap_or(0));
        *by_name.entry(name(thread)).or_default() += of.iter().sum::<u64>();
    }
    by_name
}

fn name(thread: &Thread) -> String {
    let unnamed = || format!("thread {}", thread.number);
    thread.name.clone().unwrap_or_else(unnamed)
}

impl Comparison<'_> {
    /// Title of [`thread_rows`](Self::thread_rows).
    pub(crate) fn thread_title(&self, space: Space) -> String {
        let unit = self.per_thousand_text(space);
        format!("Threads of the host: cycles outside guests {unit}")
    }

    /// Threads by their cycles, most first; empty if no ledger has threads.
    pub(crate) fn thread_rows(&self, space: Space) -> Vec<Row> {
        if !self.any(|s| s.threads.len() as u64) {
            return Vec::new();
        }
        let known = |run: &Run, n: u64| {
            if run.section.threads.is_empty() {
                f64::NAN
            } else {
                run.per_thousand(n)
            }
        };
        let row = |label: String, samples: &[Option<Sample>]| {
            (label, cells(samples, |v| number::decimal(v, space)))
        };
        let switches = self.samples(|run| known(run, run.section.context_switches));
        let mut rows = vec![row("context switches".into(), &switches)];
        let runs = self.columns.iter().flat_map(|c| &c.runs);
        let names: BTreeSet<String> = runs
            .flat_map(|run| cycles(run.section).into_keys())
            .collect();
        let of = |name: &String| {
            self.samples(|run| {
                let found = cycles(run.section).get(name).copied();
                known(run, found.unwrap_or(0))
            })
        };
        let most = |samples: &[Option<Sample>]| {
            let medians = samples.iter().flatten().map(Sample::median);
            medians.fold(0.0, f64::max)
        };
        let mut threads: Vec<_> = names.into_iter().map(|name| (of(&name), name)).collect();
        threads.retain(|(samples, _)| most(samples) > 0.0);
        threads.sort_by(|a, b| most(&b.0).total_cmp(&most(&a.0)));
        let rest = if threads.len() > ROWS {
            threads.split_off(ROWS - 1)
        } else {
            Vec::new()
        };
        rows.extend(
            threads
                .into_iter()
                .map(|(samples, name)| row(name, &samples)),
        );
        if !rest.is_empty() {
            let names: BTreeSet<&String> = rest.iter().map(|(_, name)| name).collect();
            let sum = self.samples(|run| {
                let all = cycles(run.section);
                let others = all.iter().filter(|(name, _)| names.contains(name));
                known(run, others.map(|(_, n)| n).sum())
            });
            rows.push(row(format!("{} others", rest.len()), &sum));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::document::Work;
    use trapless_ledger::{Config, Ledger, LedgerFile, RunInfo};

    fn ledger(machine: &str, threads: &[(&str, u64)]) -> LedgerFile {
        let info = RunInfo {
            machine: machine.into(),
            work: Some(Work {
                unit: "requests".into(),
                count: 2000,
            }),
            ..RunInfo::default()
        };
        let mut file = Ledger::new(Config::new(1)).to_file(info, None);
        file.total.context_switches = 4000;
        let thread = |(number, (name, cycles)): (usize, &(&str, u64))| Thread {
            number: number as u64,
            name: (!name.is_empty()).then(|| (*name).into()),
            cycles: [(Slot::HS, *cycles), (Slot::VS, 99), (Slot::Idle, 99)].into(),
            ..Thread::default()
        };
        file.total.threads = threads.iter().enumerate().map(thread).collect();
        file
    }

    #[test]
    fn threads_stand_in_order_of_their_cycles() {
        let some = [("vcpu0", 4000), ("", 200), ("sh", 300), ("sh", 700)];
        let ledgers = [ledger("sstc", &some), ledger("full", &[])];
        let rows = Comparison::new(&ledgers).thread_rows(Space::Plain);
        let rows: Vec<_> = rows
            .iter()
            .map(|(label, cells)| {
                let cells = [cells[0].to_string(), cells[1].to_string()];
                (label.as_str(), cells)
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("context switches", ["2 000", "–"]),
                ("vcpu0", ["2 000", "–"]),
                ("sh", ["500", "–"]),
                ("thread 1", ["100", "–"]),
            ]
            .map(|(label, cells)| (label, cells.map(str::to_string)))
        );
    }

    #[test]
    fn rare_threads_share_a_row_and_old_ledgers_have_none() {
        let names: Vec<String> = (0..12).map(|i| format!("kworker/{i}")).collect();
        let many: Vec<_> = names.iter().map(|n| (n.as_str(), 2000)).collect();
        let ledgers = [ledger("sstc", &many)];
        let rows = Comparison::new(&ledgers).thread_rows(Space::Plain);
        let last = rows.last().unwrap();
        assert_eq!((rows.len(), last.0.as_str()), (1 + ROWS, "5 others"));
        assert_eq!(last.1[0].to_string(), "5 000");
        let old = [ledger("sstc", &[])];
        assert!(Comparison::new(&old).thread_rows(Space::Plain).is_empty());
    }
}
