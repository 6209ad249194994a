//! What a report says, independent of how it looks: columns, rows, headlines.

use std::collections::{BTreeMap, BTreeSet};

use trapless_ledger::document::{Clock, Exit};
use trapless_ledger::reason::{Access, Reason};
use trapless_ledger::{ExitReason, Latency, LedgerFile, Section};

use crate::number::{self, Space};

/// One ledger as a column of a comparison.
pub struct Column<'a> {
    /// Name, different from that of every other column.
    pub name: String,
    /// The ledger.
    pub file: &'a LedgerFile,
    /// Its workload phase.
    pub section: &'a Section,
    /// What counts are divided by, for figures per 1 000.
    pub work: u64,
}

/// Several ledgers side by side; the first is the baseline.
pub struct Comparison<'a> {
    /// Columns in the order given.
    pub columns: Vec<Column<'a>>,
    /// Unit of [`Column::work`], plural.
    pub unit: String,
    /// Whether the workload reported its work itself; else interrupts taken by guests are counted.
    pub reported: bool,
}

/// Exits that one kind of interrupt work caused.
pub struct Finding {
    /// The work.
    pub what: &'static str,
    /// Exits with their consequences, one per column.
    pub exits: Vec<Exit>,
}

/// A kind of exit over all columns.
pub struct ExitRow {
    /// For people; reads and writes of a device are one kind.
    pub label: String,
    /// One per column.
    pub exits: Vec<Exit>,
}

impl<'a> Comparison<'a> {
    /// Lays out `ledgers`.
    pub fn new(ledgers: &'a [LedgerFile]) -> Self {
        let units: BTreeSet<_> = ledgers
            .iter()
            .map(|l| l.run.work.as_ref().map(|w| w.unit.as_str()))
            .collect();
        let common = match units.first() {
            Some(Some(unit)) if units.len() == 1 => Some((*unit).to_string()),
            _ => None,
        };
        let work = |l: &LedgerFile| match (&common, &l.run.work) {
            (Some(_), Some(work)) => work.count,
            _ => l.workload().guest_interrupts.taken.values().sum(),
        };
        let columns = names(ledgers)
            .into_iter()
            .zip(ledgers)
            .map(|(name, file)| Column {
                name,
                file,
                section: file.workload(),
                work: work(file),
            });
        Self {
            columns: columns.collect(),
            reported: common.is_some(),
            unit: common.unwrap_or_else(|| "guest interrupts".to_string()),
        }
    }

    /// Every kind of exit, the most frequent first.
    pub fn exit_rows(&self) -> Vec<ExitRow> {
        let mut rows: BTreeMap<String, ExitRow> = BTreeMap::new();
        for (i, column) in self.columns.iter().enumerate() {
            for (key, exit) in &column.section.exits {
                let row = rows
                    .entry(row_key(key.reason()))
                    .or_insert_with(|| ExitRow {
                        label: label(key.reason()),
                        exits: vec![Exit::default(); self.columns.len()],
                    });
                row.exits[i].add(exit);
            }
        }
        let mut rows: Vec<ExitRow> = rows.into_values().collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.exits.iter().map(|e| e.exits).max()));
        rows
    }

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

    /// Which part of the runs the figures are about.
    pub fn scope(&self, space: Space) -> String {
        let part = |c: &Column| {
            let time = |cycles| number::duration(cycles, c.clock().cycles_per_second, space);
            format!(
                "{} of {} on {}",
                time(c.section.cycles),
                time(c.file.total.cycles),
                c.name
            )
        };
        let marked = |c: &Column| c.file.phases.iter().any(|p| p.name == "workload");
        if self.columns.iter().all(marked) {
            let parts: Vec<String> = self.columns.iter().map(part).collect();
            format!(
                "Counted while the workload ran: {} (virtual time).",
                parts.join("; ")
            )
        } else {
            "Counted over the whole run: the workload did not mark its begin and end.".to_string()
        }
    }

    /// What each kind of interrupt work cost in exits. Work that nobody did is left out.
    pub fn findings(&self) -> Vec<Finding> {
        let costs = QUESTIONS.iter().filter_map(|question| {
            let any = |c: &Column| (question.done)(c.section) != 0;
            let exits = |c: &Column| c.section.exits_with(question.reasons);
            self.columns.iter().any(any).then(|| Finding {
                what: question.what,
                exits: self.columns.iter().map(exits).collect(),
            })
        });
        costs.collect()
    }

    /// The findings as sentences.
    pub fn headlines(&self, space: Space) -> Vec<String> {
        let mut lines: Vec<String> = self
            .findings()
            .iter()
            .map(|f| self.finding_sentence(f, space))
            .collect();
        lines.extend(self.total_sentence(space));
        for (key, what) in [
            ("guest_timer", "Timer interrupt latency"),
            ("guest_ipi", "IPI latency"),
            ("guest_device", "Device interrupt latency"),
        ] {
            lines.extend(self.latency_sentence(key, what, space));
        }
        lines.extend(self.class_sentences(space));
        lines
    }

    /// "per 1 000 wake-ups".
    pub fn per_thousand_text(&self, space: Space) -> String {
        format!("per {} {}", number::count(1000, space), self.unit)
    }

    fn finding_sentence(&self, finding: &Finding, space: Space) -> String {
        let one = |text: String, noun: &str| match text.as_str() {
            "1" => format!("1 {noun}"),
            _ => format!("{text} {noun}s"),
        };
        let part = |(c, e): (&Column, &Exit)| {
            let rate = |n| number::decimal(c.per_thousand(n), space);
            let exits = one(rate(e.exits), "exit");
            match e.firmware_traps {
                0 => format!("{exits} on {}", c.name),
                n => format!(
                    "{exits} and {} on {}",
                    one(rate(n), "firmware trap"),
                    c.name
                ),
            }
        };
        let parts: Vec<String> = self.columns.iter().zip(&finding.exits).map(part).collect();
        format!(
            "{}: {}, {}.",
            finding.what,
            parts.join("; "),
            self.per_thousand_text(space)
        )
    }

    fn total_sentence(&self, space: Space) -> Option<String> {
        let (first, rest) = self.columns.split_first()?;
        let rate = |c: &Column| c.per_thousand(c.section.guest_exits);
        let mut text = format!(
            "All guest exits: {} on {}",
            number::decimal(rate(first), space),
            first.name
        );
        for c in rest {
            let change = match rate(first) {
                0.0 => String::new(),
                base => change_text((rate(c) - base) * 100.0 / base),
            };
            text.push_str(&format!(
                "; {} on {}{change}",
                number::decimal(rate(c), space),
                c.name
            ));
        }
        Some(format!("{text}, {}.", self.per_thousand_text(space)))
    }

    fn latency_sentence(&self, key: &str, what: &str, space: Space) -> Option<String> {
        let parts: Vec<String> = self
            .columns
            .iter()
            .filter_map(|c| {
                let l = c.section.latency.get(key)?;
                let time = |v: u64| number::duration(v, c.clock().cycles_per_second, space);
                let (p50, p99) = (time(l.p50), time(l.p99));
                Some(format!("{p50} on {} (99th percentile {p99})", c.name))
            })
            .collect();
        (!parts.is_empty()).then(|| format!("{what}, median: {}.", parts.join("; ")))
    }
}

/// Work of the host for a guest.
struct Question {
    /// What it is.
    what: &'static str,
    /// Reasons of exits that doing it can cause.
    reasons: fn(&ExitReason) -> bool,
    /// How often it was done.
    done: Count,
}

/// A figure of a section.
type Count = fn(&Section) -> u64;

const QUESTIONS: &[Question] = &[
    Question {
        what: "Programming the guest's timer",
        reasons: |r| *r == ExitReason::Fixed(Reason::TimerSet),
        done: |s| {
            s.guest_interrupts.timer_set_with_exit + s.guest_interrupts.timer_set_without_exit
        },
    },
    Question {
        what: "Timer interrupt while the guest runs",
        reasons: |r| *r == ExitReason::Fixed(Reason::TimerFire),
        done: |s| s.exits_of("timer_fire").exits,
    },
    Question {
        what: "Sending an IPI",
        reasons: sends_ipi,
        done: |s| s.guest_interrupts.ipi_sends + s.exits_with(sends_ipi).exits,
    },
    Question {
        what: "Software interrupts of the host (kicks of vCPUs, its own IPIs)",
        reasons: |r| *r == ExitReason::Fixed(Reason::IpiReceive),
        done: |s| taken(s, "software"),
    },
    Question {
        what: "Remote fences",
        reasons: |r| *r == ExitReason::Fixed(Reason::RemoteFence),
        done: |s| s.exits_of("remote_fence").exits,
    },
    Question {
        what: "Claiming and completing device interrupts",
        reasons: claims,
        done: |s| s.exits_with(claims).exits,
    },
    Question {
        what: "Halting until an interrupt (WFI)",
        reasons: |r| *r == ExitReason::Fixed(Reason::Wfi),
        done: |s| s.exits_of("wfi").exits,
    },
];

/// By SBI call, or by a store to an interrupt file.
fn sends_ipi(reason: &ExitReason) -> bool {
    match reason {
        ExitReason::Fixed(reason) => *reason == Reason::IpiSend,
        ExitReason::Mmio { device, write } => device == "imsic" && *write,
        _ => false,
    }
}

/// At a PLIC; at an APLIC and at interrupt files that are not a hart's.
fn claims(reason: &ExitReason) -> bool {
    match reason {
        ExitReason::Mmio { device, .. } => matches!(device.as_str(), "plic" | "aplic"),
        ExitReason::Csr(name) => matches!(name.as_str(), "stopei" | "sireg"),
        _ => false,
    }
}

fn taken(section: &Section, kind: &str) -> u64 {
    section
        .guest_interrupts
        .taken
        .get(kind)
        .copied()
        .unwrap_or(0)
}

impl Column<'_> {
    /// A count per 1 000 units of work; 0 if there was none.
    pub fn per_thousand(&self, n: u64) -> f64 {
        if self.work == 0 {
            0.0
        } else {
            n as f64 * 1000.0 / self.work as f64
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.file.run.clock
    }

    /// Cycles in microseconds of this column's clock.
    pub fn micros(&self, cycles: f64) -> f64 {
        number::micros(cycles, self.clock().cycles_per_second)
    }

    /// A latency histogram.
    pub fn latency(&self, key: &str) -> Option<&Latency> {
        self.section.latency.get(key)
    }

    /// Cycles of all harts by mode, in the order VU, VS, U, HS, M, idle.
    pub fn time(&self) -> [(&'static str, u64); 6] {
        MODES.map(|mode| {
            let of =
                |h: &trapless_ledger::document::HartInfo| h.cycles.get(mode).copied().unwrap_or(0);
            (mode, self.section.harts.iter().map(of).sum())
        })
    }
}

/// A change in per cent, with a real minus sign.
fn change_text(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!(" ({sign}{:.0} %)", percent.abs())
}

/// Time slots of a hart.
pub const MODES: [&str; 6] = ["VU", "VS", "U", "HS", "M", "idle"];

/// Machine names; the workload or a number is added where they are not enough to tell columns apart.
fn names(ledgers: &[LedgerFile]) -> Vec<String> {
    let distinct = |list: &[String]| list.iter().collect::<BTreeSet<_>>().len() == list.len();
    let machines: Vec<String> = ledgers.iter().map(|l| l.run.machine.clone()).collect();
    if distinct(&machines) {
        return machines;
    }
    let longer: Vec<String> = ledgers
        .iter()
        .map(|l| format!("{} {}", l.run.machine, l.run.workload))
        .collect();
    if distinct(&longer) {
        return longer;
    }
    machines
        .iter()
        .enumerate()
        .map(|(i, m)| format!("{m} #{}", i + 1))
        .collect()
}

/// What tells rows apart, and orders those with equal counts.
fn row_key(reason: &ExitReason) -> String {
    match reason {
        ExitReason::Mmio { device, .. } => format!("mmio.{device}"),
        other => other.to_string(),
    }
}

/// A reason for people.
pub fn label(reason: &ExitReason) -> String {
    match reason {
        ExitReason::Fixed(reason) => fixed_label(*reason),
        ExitReason::Mmio { device, .. } => format!("MMIO {device}"),
        ExitReason::SbiOther(extension) => format!("SBI {}", extension.to_uppercase()),
        ExitReason::Csr(name) => format!("CSR {name}"),
        ExitReason::Other(cause) => cause.replace('_', " "),
    }
}

fn fixed_label(reason: Reason) -> String {
    let text = match reason {
        Reason::TimerSet => "set timer (SBI call)",
        Reason::TimerFire => "guest timer fires in the host",
        Reason::HostTimer => "host timer",
        Reason::IpiSend => "send IPI (SBI call)",
        Reason::IpiReceive => "host software interrupt",
        Reason::RemoteFence => "remote fence (SBI call)",
        Reason::ExternalInterrupt => "host external interrupt",
        Reason::GuestExternal => "guest external interrupt",
        Reason::Notification => "notification interrupt",
        Reason::Wfi => "WFI",
        Reason::Wrs => "WRS",
        Reason::PageFault(Access::Fetch) => "guest-page fault, fetch",
        Reason::PageFault(Access::Load) => "guest-page fault, load",
        Reason::PageFault(Access::Store) => "guest-page fault, store",
        Reason::VsLevel(2) => "VS-level interrupt, software",
        Reason::VsLevel(6) => "VS-level interrupt, timer",
        _ => "VS-level interrupt, external",
    };
    text.to_string()
}

/// A label and one cell per column.
pub type Row = (String, Vec<String>);

impl Comparison<'_> {
    pub(crate) fn row(&self, label: &str, cell: impl Fn(&Column) -> String) -> Row {
        (label.to_string(), self.columns.iter().map(cell).collect())
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

/// A value as the workload gave it: whole numbers stay whole.
fn measured(value: f64, space: Space) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        number::count(value as u64, space)
    } else {
        format!("{value}")
    }
}

/// What each of [`MODES`] is.
pub const MODE_TEXT: [&str; 6] = [
    "guest user (VU)",
    "guest kernel (VS)",
    "host user (U)",
    "host kernel (HS)",
    "firmware (M)",
    "idle (WFI)",
];
