//! Interrupts by class: state of the vCPU at arrival, cost, latency.

use trapless_ledger::class::NotificationKind;
use trapless_ledger::counters::Shown;
use trapless_ledger::document::{GuestFiles, Notifications, Pci, Slots};
use trapless_ledger::reason::Reason;
use trapless_ledger::{Class, InterruptClass, Left, Section, State};

use crate::cell::{Row, cell, cells};
use crate::compare::{Comparison, Run, per_thousand};
use crate::number::{self, Space};
use crate::rows::exits::exits_for;
use crate::rows::{figures, latency};
use crate::statistics::Sample;

/// A title and rows of one cell per column.
pub type Block = (&'static str, Vec<Row>);

/// A figure of a class.
type Count = fn(&InterruptClass) -> u64;

const EXITS: Count = |c| c.exits;
const FIRMWARE: Count = |c| c.firmware_traps;

/// State of the vCPU when an interrupt arrived. All rows but the last are shown even if all cells
/// are 0, because zero is the result.
const ARRIVED: [(State, &str); 4] = [
    (State::Running, "  arrived: vCPU running"),
    (State::Paused, "  arrived: vCPU paused in the host"),
    (State::ScheduledOff, "  arrived: vCPU scheduled off"),
    (State::Unknown, "  arrived: state not known"),
];

/// Why a vCPU is scheduled off.
const LEFT: [(Left, &str); 3] = [
    (Left::Halted, "halted"),
    (Left::Preempted, "preempted"),
    (Left::Stopped, "KVM_RUN returned"),
];

fn title(class: Class) -> &'static str {
    match class {
        Class::Timer => "Timer interrupts",
        Class::Ipi => "IPIs",
        Class::Device => "Device interrupts",
    }
}

/// Word for sending an interrupt.
fn sent(class: Class, label: &'static str) -> &'static str {
    match class {
        Class::Timer => "programmed",
        Class::Ipi => label,
        Class::Device => "made pending",
    }
}

/// Figures of a class; `None` in a ledger of version 1.
fn class_figures(section: &Section, class: Class) -> Option<&InterruptClass> {
    section.interrupts.get(&class)
}

/// Figures that belong to no class and have sentences of their own, with their units.
const APART: [(&str, &str, figures::Count); 3] = [
    ("Notifications of the controller", " exits", |s| {
        exits_for(s, Reason::Notification).exits
    }),
    ("Halting (WFI), counted apart", " exits", |s| {
        exits_for(s, Reason::Wfi).exits
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
    exits_for(section, Reason::Wfi).timer_traps
}

impl Comparison<'_> {
    /// A block for each class that any column has, then one for notifications.
    pub fn class_blocks(&self, space: Space) -> Vec<Block> {
        let mut blocks = Vec::new();
        for class in Class::ALL {
            if self.has_class(class) {
                blocks.push((title(class), self.class_rows(class, space)));
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
            let rows = self.counter_rows(GuestFiles::COUNTERS, space, |s| s.guest_files.as_ref());
            blocks.push(("Guest interrupt files", rows));
        }
        let has_pci = |run: &Run| run.section.pci.is_some();
        if self.columns.iter().any(|c| c.runs.iter().any(has_pci)) {
            let rows = self.counter_rows(Pci::COUNTERS, space, |s| s.pci.as_ref());
            blocks.push(("Interrupts of PCI devices", rows));
        }
        blocks
    }

    /// Whether guests used interrupts of this class in any run.
    pub(crate) fn has_class(&self, class: Class) -> bool {
        self.any(|s| class_figures(s, class).map_or(0, |f| f.sent + f.taken + f.exits + f.claims))
    }

    fn class_rows(&self, class: Class, space: Space) -> Vec<Row> {
        let mut rows = Vec::new();
        let (first, others) = match InterruptClass::COUNTERS {
            [first, others @ ..] => (first, others),
            [] => return rows,
        };
        let of = |s: &Section, count: Count| class_figures(s, class).map(count);
        rows.push(self.count_row(sent(class, first.label), space, |s| of(s, first.get)));
        self.arrived_rows(class, space, &mut rows);
        for counter in others {
            if !self.has_row(counter, |s| of(s, counter.get).unwrap_or(0)) {
                continue;
            }
            rows.push(self.count_row(counter.label, space, |s| of(s, counter.get)));
            if counter.shown == Shown::WithRate {
                let label = format!("  {} per 1 000 taken", counter.label);
                let samples = self.rates(class, counter.get);
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
            let label = format!("latency in µs, {label}");
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

    /// State of vCPUs at the arrival of interrupts.
    fn arrived_rows(&self, class: Class, space: Space, rows: &mut Vec<Row>) {
        for (state, label) in ARRIVED {
            let of = |s: &Section| class_figures(s, class).map(|f| f.arrived_in(state));
            if state != State::Unknown || self.any(|s| of(s).unwrap_or(0)) {
                rows.push(self.count_row(label, space, of));
            }
            if state == State::ScheduledOff {
                self.left_rows(class, space, rows);
            }
        }
    }

    /// Why vCPUs were scheduled off, where it is known from slots.
    fn left_rows(&self, class: Class, space: Space, rows: &mut Vec<Row>) {
        for (left, label) in LEFT {
            let of = |s: &Section| {
                let known = class_figures(s, class).filter(|f| !f.left.is_empty())?;
                Some(known.left.get(&left).map_or(0, |l| l.arrived))
            };
            if self.any(|s| of(s).unwrap_or(0)) {
                rows.push(self.count_row(&format!("    {label}"), space, of));
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
        rows.extend(self.counter_rows(Notifications::COUNTERS, space, |s| Some(&s.notifications)));
        rows.extend(self.counter_rows(Slots::COUNTERS, space, |s| Some(&s.slots)));
        for left in Left::ALL {
            let of = |s: &Section| s.slots.detached.get(&left).copied().unwrap_or(0);
            if self.any(of) {
                let label = format!("vCPUs put: {left}");
                rows.push(self.count_row(&label, space, |s| Some(of(s))));
            }
        }
        rows
    }

    /// A sentence for each class of which a guest took interrupts, then figures that are counted
    /// separately.
    pub fn class_sentences(&self, space: Space) -> Vec<String> {
        let mut lines = Vec::new();
        for class in Class::ALL {
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
                    "{}: {}, per {thousand} interrupts.",
                    title(class),
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
