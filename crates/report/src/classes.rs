//! Interrupts by class: where they arrived, what they cost, how long they took.

use trapless_ledger::class::NotificationKind;
use trapless_ledger::document::{GuestFiles, Notifications, Slots};
use trapless_ledger::{Class, InterruptClass, Left, Section, State};

use crate::cell::{Row, cell, cells};
use crate::compare::{Column, Comparison, Run, difference_text, per_thousand};
use crate::latency;
use crate::number::{self, Space};
use crate::statistics::Sample;

/// A title and rows of one cell per column.
pub type Block = (&'static str, Vec<Row>);

/// A figure of a class.
type Count = fn(&InterruptClass) -> u64;

const EXITS: Count = |c| c.exits;
const FIRMWARE: Count = |c| c.firmware_traps;

/// Rows that are shown for each interrupt as well.
const PER_INTERRUPT: [&str; 2] = ["exits", "firmware traps"];

/// Rows of a class; those marked are shown even if all cells are 0, because zero is the result.
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
    ("exits", true, EXITS),
    ("firmware traps", true, FIRMWARE),
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
        let rows = self.redirected_rows(space);
        if !rows.is_empty() {
            blocks.push(("Accesses answered in user mode, without an exit", rows));
        }
        let rows = self.event_rows(space);
        if !rows.is_empty() {
            blocks.push(("Events and doorbells of guests", rows));
        }
        let has_files = |run: &Run| run.section.guest_files.is_some();
        if self.columns.iter().any(|c| c.runs.iter().any(has_files)) {
            let row = |(label, count): (&'static str, FileCount)| {
                self.count_row(label, space, |s| s.guest_files.as_ref().map(count))
            };
            blocks.push(("Guest interrupt files", FILE_ROWS.map(row).into()));
        }
        blocks
    }

    /// Whether guests used interrupts of this class in any run.
    pub(crate) fn has_class(&self, class: Class) -> bool {
        self.any(|s| figures(s, class).map_or(0, |f| f.sent + f.taken + f.exits + f.claims))
    }

    fn class_rows(&self, class: Class, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        for (label, always, count) in ROWS {
            if label == "  arrived: state not known" {
                self.left_rows(class, space, &mut rows);
            }
            let of = |s: &Section| figures(s, class).map(count);
            if !always && !self.any(|s| of(s).unwrap_or(0)) {
                continue;
            }
            let label = match (label, class) {
                ("sent", Class::Timer) => "programmed",
                ("sent", Class::Device) => "made pending",
                _ => label,
            };
            rows.push(self.count_row(label, space, of));
            if PER_INTERRUPT.contains(&label) {
                let (label, samples) = (
                    format!("  {label} per 1 000 taken"),
                    self.rates(class, count),
                );
                rows.push((label, cells(&samples, |v| number::decimal(v, space))));
            }
        }
        for state in State::ALL {
            let label = format!("latency in µs, {}", state.name().replace('_', " "));
            rows.extend(latency::rows(self, &label, space, |s| {
                figures(s, class)?.latency.get(&state)
            }));
        }
        for (left, label) in LEFT {
            let label = format!("latency in µs, {}", label.trim());
            rows.extend(latency::rows(self, &label, space, |s| {
                figures(s, class)?.left.get(&left)?.latency.as_ref()
            }));
        }
        rows
    }

    /// A count of a class per 1 000 interrupts that guests took.
    pub(crate) fn rates(&self, class: Class, count: Count) -> Vec<Option<Sample>> {
        self.samples(|run| match figures(run.section, class) {
            Some(f) => per_thousand(count(f), f.taken),
            None => f64::NAN,
        })
    }

    /// A count of a class for each of its interrupts that guests took; `None` where none was.
    pub(crate) fn per_interrupt(&self, class: Class, count: Count) -> Vec<Option<Sample>> {
        self.samples(|run| match figures(run.section, class) {
            Some(f) if f.taken != 0 => count(f) as f64 / f.taken as f64,
            _ => f64::NAN,
        })
    }

    /// How vCPUs that were scheduled off had been left, where slots tell it.
    fn left_rows(&self, class: Class, space: Space, rows: &mut Vec<Row>) {
        for (left, label) in LEFT {
            let of = |s: &Section| {
                let known = figures(s, class).filter(|f| !f.left.is_empty())?;
                Some(known.left.get(&left).map_or(0, |l| l.arrived))
            };
            if self.any(|s| of(s).unwrap_or(0)) {
                rows.push(self.count_row(label, space, of));
            }
        }
    }

    fn notification_rows(&self, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        for kind in NotificationKind::ALL {
            let of = |s: &Section| s.notifications.kinds.get(&kind).map_or(0, |k| k.queued);
            let used = |s: &Section| u64::from(s.notifications.kinds.contains_key(&kind));
            if self.any(used) {
                rows.push(self.count_row(&format!("queued: {kind}"), space, |s| Some(of(s))));
                let label = "  in µs until the host has it";
                rows.extend(latency::rows(self, label, space, |s| {
                    s.notifications.kinds.get(&kind)?.latency.as_ref()
                }));
            }
        }
        for (label, count) in NOTIFICATION_ROWS {
            let of = |s: &Section| count(&s.notifications, &s.slots);
            if self.any(of) {
                rows.push(self.count_row(label, space, |s| Some(of(s))));
            }
        }
        if self.any(|s| s.host_ipis) {
            let label = "IPIs of the host without firmware";
            rows.push(self.count_row(label, space, |s| Some(s.host_ipis)));
        }
        rows
    }

    /// Traps before and after: a sentence for each class that a guest took interrupts of, then what
    /// is counted apart.
    pub fn class_sentences(&self, space: Space) -> Vec<String> {
        let mut lines = Vec::new();
        for (class, title) in Class::ALL.into_iter().zip(TITLES) {
            let (exits, firmware) = (self.rates(class, EXITS), self.rates(class, FIRMWARE));
            let took = |s: &Section| figures(s, class).is_some_and(|f| f.taken != 0);
            let text = |sample: &Sample| cell(Some(sample), |v| number::decimal(v, space));
            let columns = self.columns.iter().zip(exits.iter().zip(&firmware));
            let columns = columns.filter(|(c, _)| c.runs.iter().any(|run| took(run.section)));
            let base = exits.get(self.base).and_then(Option::as_ref);
            let mut parts: Vec<String> = Vec::new();
            for (c, (exits, firmware)) in columns {
                let (Some(exits), Some(firmware)) = (exits, firmware) else {
                    continue;
                };
                let shown = match base {
                    Some(base) if !std::ptr::eq(exits, base) => {
                        difference_text(exits.difference(base), false)
                    }
                    _ => String::new(),
                };
                let (exits, firmware) = (text(exits), text(firmware));
                parts.push(format!(
                    "{exits} exits + {firmware} firmware traps on {}{shown}",
                    c.name
                ));
            }
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
            let exits = |s: &Section| s.exits_of(key).exits;
            if self.any(exits) && !lines.is_empty() {
                let samples = self.samples(|run| run.per_thousand(exits(run.section)));
                let part = |(c, sample): (&Column, &Option<Sample>)| {
                    let rate = cell(sample.as_ref(), |v| number::decimal(v, space));
                    format!("{rate} exits on {}", c.name)
                };
                let parts: Vec<String> = self.columns.iter().zip(&samples).map(part).collect();
                let per = self.per_thousand_text(space);
                lines.push(format!("{what}: {}, {per}.", parts.join(" -> ")));
            }
        }
        lines
    }
}
