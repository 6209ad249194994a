//! Interrupts by class: where they arrived, what they cost, how long they took.

use trapless_ledger::class::NotificationKind;
use trapless_ledger::document::{GuestFiles, Notifications, Slots};
use trapless_ledger::{Class, InterruptClass, Latency, Left, Section, State};

use crate::compare::{Column, Comparison, Row};
use crate::number::{self, Space};

/// A title and rows of one cell per column.
pub type Block = (&'static str, Vec<Row>);

/// A figure of a class.
type Count = fn(&InterruptClass) -> u64;

/// Rows of a class; those marked are shown even if all cells are 0, for 0 is what they are about.
const ROWS: [(&str, bool, Count); 21] = [
    ("sent", true, |c| c.sent),
    ("  arrived: vCPU running", true, |c| {
        c.arrived_in(State::Running)
    }),
    ("  arrived: vCPU paused in the host", true, |c| {
        c.arrived_in(State::Paused)
    }),
    ("  arrived: vCPU scheduled off", true, |c| {
        c.arrived_in(State::ScheduledOff)
    }),
    ("  arrived: state not known", false, |c| {
        c.arrived_in(State::Unknown)
    }),
    ("  pending already", false, |c| c.coalesced),
    ("  replaced before the deadline", false, |c| c.superseded),
    ("taken by the guest", true, |c| c.taken),
    ("exits", true, |c| c.exits),
    ("firmware traps", true, |c| c.firmware_traps),
    ("host traps", false, |c| c.host_traps),
    ("system calls", true, |c| c.syscalls),
    ("taken by the host at V=0", false, |c| c.host_interrupts),
    ("claims", false, |c| c.claims),
    ("  known to be empty", false, |c| c.empty_claims),
    ("completions", false, |c| c.completions),
    ("  pending again", false, |c| c.repended),
    ("lines driven low", false, |c| c.lowered),
    ("  before the guest claimed", false, |c| c.withdrawn),
    ("device register exits (not above)", false, |c| {
        c.acknowledgements
    }),
    ("memory words of the controller", false, |c| c.memory_words),
];

/// How a vCPU that is scheduled off was left.
const LEFT: [(Left, &str); 3] = [
    (Left::Halted, "    halted"),
    (Left::Preempted, "    preempted"),
    (Left::Stopped, "    KVM_RUN returned"),
];

const TITLES: [&str; 3] = ["Timer interrupts", "IPIs", "Device interrupts"];

/// Figures of a class; `None` in a ledger of version 1.
fn figures(section: &Section, class: Class) -> Option<&InterruptClass> {
    section.interrupts.get(&class)
}

/// A figure of notifications.
type NotificationCount = fn(&Notifications, &Slots) -> u64;

const NOTIFICATION_ROWS: [(&str, NotificationCount); 9] = [
    ("nobody told (one outstanding, or no need)", |n, _| n.silent),
    ("dropped: queue full", |n, _| n.overflows),
    ("exits", |n, _| n.exits),
    ("taken by the host at V=0", |n, _| n.host_interrupts),
    ("vCPUs loaded", |_, s| s.attached),
    ("vCPUs put: preempted", |_, s| detached(s, Left::Preempted)),
    ("vCPUs put: halted", |_, s| detached(s, Left::Halted)),
    ("vCPUs put: stopped", |_, s| detached(s, Left::Stopped)),
    ("memory words of the controller", |n, s| {
        n.memory_words + s.memory_words
    }),
];

/// A figure of guest interrupt files.
type FileCount = fn(&GuestFiles) -> u64;

const FILE_ROWS: [(&str, FileCount); 6] = [
    ("messages stored by guests without an exit", |f| {
        f.direct_messages
    }),
    ("messages stored by the host", |f| f.host_messages),
    ("wake-ups of waiting vCPUs (SGEI at V=0)", |f| f.wakeups),
    ("vCPUs given a file", |f| f.assigned),
    ("vCPUs moved to the file of another hart", |f| f.moved),
    ("vCPUs that lost their file", |f| f.evicted),
];

fn detached(slots: &Slots, left: Left) -> u64 {
    slots.detached.get(&left).copied().unwrap_or(0)
}

impl Column<'_> {
    fn p50_p99(&self, latency: Option<&Latency>, space: Space) -> String {
        let us = |v: u64| number::micros_text(self.micros(v as f64), space);
        latency.map_or("–".to_string(), |l| {
            format!("{} / {}", us(l.p50), us(l.p99))
        })
    }
}

impl Comparison<'_> {
    /// A block for each class that any column has, then one for notifications.
    pub fn class_blocks(&self, space: Space) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (class, title) in Class::ALL.into_iter().zip(TITLES) {
            if self.has_class(class) {
                blocks.push((title, self.class_rows(class, space)));
            }
        }
        let rows = self.notification_rows(space);
        if !rows.is_empty() {
            blocks.push(("Notifications and slots", rows));
        }
        let files = |c: &Column| c.section.guest_files;
        if self.columns.iter().any(|c| files(c).is_some()) {
            let row = |(label, count): (&'static str, FileCount)| {
                self.row(label, |c| {
                    files(c).map_or("–".to_string(), |f| number::count(count(&f), space))
                })
            };
            blocks.push(("Guest interrupt files", FILE_ROWS.map(row).into()));
        }
        blocks
    }

    fn has_class(&self, class: Class) -> bool {
        let any = |c: &Column| {
            figures(c.section, class).is_some_and(|f| f.sent + f.taken + f.exits + f.claims != 0)
        };
        self.columns.iter().any(any)
    }

    fn class_rows(&self, class: Class, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        let left_rows = LEFT.map(|(left, label)| {
            let arrived = move |f: &InterruptClass| f.left.get(&left).map_or(0, |l| l.arrived);
            (label, arrived)
        });
        for (label, always, count) in ROWS {
            if label == "  arrived: state not known" {
                for (label, arrived) in &left_rows {
                    let of = |c: &Column| figures(c.section, class).map_or(0, arrived);
                    if self.columns.iter().any(|c| of(c) != 0) {
                        rows.push(self.row(label, |c| match &figures(c.section, class) {
                            // Only slots tell.
                            Some(f) if !f.left.is_empty() => number::count(of(c), space),
                            _ => "–".to_string(),
                        }));
                    }
                }
            }
            let used = |c: &Column| figures(c.section, class).is_some_and(|f| count(f) != 0);
            if !always && !self.columns.iter().any(used) {
                continue;
            }
            let label = match (label, class) {
                ("sent", Class::Timer) => "programmed",
                ("sent", Class::Device) => "made pending",
                _ => label,
            };
            rows.push(self.row(label, |c| {
                let figures = figures(c.section, class);
                figures.map_or("–".to_string(), |f| number::count(count(f), space))
            }));
        }
        for state in State::ALL {
            let latency = |c: &Column| {
                let figures = figures(c.section, class)?;
                figures.latency.get(&state).cloned()
            };
            if self.columns.iter().any(|c| latency(c).is_some()) {
                let label = format!(
                    "latency in µs, {}: p50 / p99",
                    state.name().replace('_', " ")
                );
                rows.push(self.row(&label, |c| c.p50_p99(latency(c).as_ref(), space)));
            }
        }
        for (left, label) in LEFT {
            let latency = |c: &Column| {
                let figures = figures(c.section, class)?;
                figures.left.get(&left)?.latency.clone()
            };
            if self.columns.iter().any(|c| latency(c).is_some()) {
                let label = format!("latency in µs, {}: p50 / p99", label.trim());
                rows.push(self.row(&label, |c| c.p50_p99(latency(c).as_ref(), space)));
            }
        }
        rows
    }

    fn notification_rows(&self, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        for kind in NotificationKind::ALL {
            let of = |c: &Column| c.section.notifications.kinds.get(&kind).cloned();
            if self.columns.iter().all(|c| of(c).is_none()) {
                continue;
            }
            rows.push(self.row(&format!("queued: {kind}"), |c| {
                number::count(of(c).map_or(0, |k| k.queued), space)
            }));
            rows.push(self.row("  in µs until the host has it: p50 / p99", |c| {
                c.p50_p99(of(c).and_then(|k| k.latency).as_ref(), space)
            }));
        }
        for (label, count) in NOTIFICATION_ROWS {
            let of = |c: &Column| count(&c.section.notifications, &c.section.slots);
            if self.columns.iter().any(|c| of(c) != 0) {
                rows.push(self.row(label, |c| number::count(of(c), space)));
            }
        }
        let ipis = |c: &Column| c.section.host_ipis;
        if self.columns.iter().any(|c| ipis(c) != 0) {
            rows.push(self.row("IPIs of the host without firmware", |c| {
                number::count(ipis(c), space)
            }));
        }
        rows
    }

    /// Traps before and after: a sentence for each class that a guest took interrupts of, then what
    /// is counted apart.
    pub fn class_sentences(&self, space: Space) -> Vec<String> {
        let mut lines = Vec::new();
        for (class, title) in Class::ALL.into_iter().zip(TITLES) {
            let parts: Vec<String> = self
                .columns
                .iter()
                .filter_map(|c| {
                    let f = figures(c.section, class)?;
                    let rate = |n| per_thousand(n, f.taken, space);
                    (f.taken != 0).then(|| {
                        let (exits, firmware) = (rate(f.exits), rate(f.firmware_traps));
                        format!("{exits} exits + {firmware} firmware traps on {}", c.name)
                    })
                })
                .collect();
            if !parts.is_empty() {
                let thousand = number::count(1000, space);
                lines.push(format!(
                    "{title}: {}, per {thousand} interrupts.",
                    parts.join(" -> ")
                ));
            }
        }
        let apart = [
            ("Notifications of the controller", "notification"),
            ("Halting (WFI), counted apart", "wfi"),
        ];
        for (what, key) in apart {
            let exits = |c: &Column| c.section.exits_of(key).exits;
            let any = self.columns.iter().any(|c| exits(c) != 0);
            if any && !lines.is_empty() {
                let parts: Vec<String> = self
                    .columns
                    .iter()
                    .map(|c| {
                        let rate = number::decimal(c.per_thousand(exits(c)), space);
                        format!("{rate} exits on {}", c.name)
                    })
                    .collect();
                let per = self.per_thousand_text(space);
                lines.push(format!("{what}: {}, {per}.", parts.join(" -> ")));
            }
        }
        lines
    }
}

fn per_thousand(n: u64, of: u64, space: Space) -> String {
    number::decimal(n as f64 * 1000.0 / of.max(1) as f64, space)
}
