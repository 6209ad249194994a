//! Interrupts by class: where they arrived, what they cost, how long they took.

use trapless_ledger::class::NotificationKind;
use trapless_ledger::document::{GuestFiles, Notifications, Slots};
use trapless_ledger::{Class, InterruptClass, Left, Section, State};

use crate::cell::{Row, cell, cells};
use crate::compare::{Comparison, Run, per_thousand};
use crate::number::{self, Space};
use crate::statistics::Sample;
use crate::{figures, latency};

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
fn class_figures(section: &Section, class: Class) -> Option<&InterruptClass> {
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

/// What belongs to no class and has sentences of its own, with the unit of the figure.
const APART: [(&str, &str, figures::Count); 3] = [
    ("Notifications of the controller", " exits", |s| {
        s.exits_of("notification").exits
    }),
    ("Halting (WFI), counted apart", " exits", |s| {
        s.exits_of("wfi").exits
    }),
    (
        "Timers of the host while vCPUs were halted",
        " firmware traps",
        timers_while_halted,
    ),
];

/// Firmware traps for timers that were charged to no timer interrupt, as the vCPU that the hart had
/// run last was halted.
pub(crate) fn timers_while_halted(section: &Section) -> u64 {
    section.exits_of("wfi").timer_traps
}

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
        self.any(|s| class_figures(s, class).map_or(0, |f| f.sent + f.taken + f.exits + f.claims))
    }

    fn class_rows(&self, class: Class, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        for (label, always, count) in ROWS {
            if label == "  arrived: state not known" {
                self.left_rows(class, space, &mut rows);
            }
            let of = |s: &Section| class_figures(s, class).map(count);
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
                class_figures(s, class)?.latency.get(&state)
            }));
        }
        for (left, label) in LEFT {
            let label = format!("latency in µs, {}", label.trim());
            rows.extend(latency::rows(self, &label, space, |s| {
                class_figures(s, class)?.left.get(&left)?.latency.as_ref()
            }));
        }
        rows
    }

    /// A count of a class per 1 000 interrupts that guests took.
    pub(crate) fn rates(&self, class: Class, count: Count) -> Vec<Option<Sample>> {
        self.samples(|run| match class_figures(run.section, class) {
            Some(f) => per_thousand(count(f), f.taken),
            None => f64::NAN,
        })
    }

    /// A count of a class for each of its interrupts that guests took; `None` where none was.
    pub(crate) fn per_interrupt(&self, class: Class, count: Count) -> Vec<Option<Sample>> {
        self.samples(|run| match class_figures(run.section, class) {
            Some(f) if f.taken != 0 => count(f) as f64 / f.taken as f64,
            _ => f64::NAN,
        })
    }

    /// How vCPUs that were scheduled off had been left, where slots tell it.
    fn left_rows(&self, class: Class, space: Space, rows: &mut Vec<Row>) {
        for (left, label) in LEFT {
            let of = |s: &Section| {
                let known = class_figures(s, class).filter(|f| !f.left.is_empty())?;
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
            let took = |s: &Section| class_figures(s, class).is_some_and(|f| f.taken != 0);
            let figure = |samples: &[Option<Sample>], i: usize, what: &str| {
                let text = cell(samples[i].as_ref(), |v| number::decimal(v, space));
                format!("{text} {what}{}", self.judgement(samples, i))
            };
            let mut parts: Vec<String> = Vec::new();
            for (i, c) in self.columns.iter().enumerate() {
                let taken = c.runs.iter().any(|run| took(run.section));
                if taken && exits[i].is_some() && firmware[i].is_some() {
                    let exits = figure(&exits, i, "exits");
                    let firmware = figure(&firmware, i, "firmware traps");
                    parts.push(format!("{exits} + {firmware} on {}", c.name));
                }
            }
            if !parts.is_empty() {
                let thousand = number::count(1000, space);
                lines.push(format!(
                    "{title}: {}, per {thousand} interrupts.",
                    parts.join(" → ")
                ));
            }
        }
        for (what, unit, count) in APART {
            if self.any(count) && !lines.is_empty() {
                let samples = self.samples(|run| run.per_thousand(count(run.section)));
                let parts = self.figure_parts(&samples, unit, space);
                let per = self.per_thousand_text(space);
                lines.push(format!("{what}: {}, {per}.", parts.join(" → ")));
            }
        }
        lines
    }
}
