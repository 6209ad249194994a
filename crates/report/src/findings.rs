//! Findings of a comparison as sentences.

use trapless_ledger::document::Exit;
use trapless_ledger::reason::Reason;
use trapless_ledger::{Class, ExitReason, Section};

use crate::cell::cell;
use crate::compare::{Column, Comparison, per_thousand};
use crate::number::{self, Space};
use crate::rows::exits::exits_for;
use crate::rows::figures::{Count, taken};
use crate::rows::latency::percentile;
use crate::statistics::Sample;

/// Exits that one kind of interrupt work caused, for each column.
pub struct Finding {
    /// The work.
    pub what: &'static str,
    /// Unit of the divisor, in the plural.
    pub unit: &'static str,
    /// Exits per 1 000; `None` in a column where the unit did not occur.
    pub exits: Vec<Option<Sample>>,
    /// Firmware traps charged to them, per 1 000.
    pub firmware: Vec<Option<Sample>>,
}

impl Finding {
    /// "per 1 000 IPIs".
    pub fn unit_text(&self, space: Space) -> String {
        format!("per {} {}", number::count(1000, space), self.unit)
    }
}

impl Comparison<'_> {
    /// Cost of each kind of interrupt work in exits. Work that does not occur is left out.
    pub fn findings(&self) -> Vec<Finding> {
        let questions = QUESTIONS.iter().filter(|question| self.any(question.done));
        let costs = questions.map(|question| {
            let (unit, of) = question.per;
            let rate = |count: fn(&Exit) -> u64| {
                self.samples(|run| {
                    let exits = run.section.exits_with(question.reasons);
                    per_thousand(count(&exits), of(run.section))
                })
            };
            Finding {
                what: question.what,
                unit,
                exits: rate(|e| e.exits),
                firmware: rate(|e| e.firmware_traps),
            }
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

    fn finding_sentence(&self, finding: &Finding, space: Space) -> String {
        let figure = |samples: &[Option<Sample>], i: usize, what: &str| {
            let text = cell(samples[i].as_ref(), |v| number::decimal(v, space));
            format!("{}{}", noun(text, what), self.judgement(samples, i))
        };
        let traps = finding.firmware.iter().flatten();
        let any = traps.into_iter().any(|sample| sample.median() != 0.0);
        let part = |(i, c): (usize, &Column)| {
            if finding.exits[i].is_none() {
                return format!("no {} on {}", finding.unit, c.name);
            }
            let mut part = figure(&finding.exits, i, "exit");
            if any {
                part = format!(
                    "{part} and {}",
                    figure(&finding.firmware, i, "firmware trap")
                );
            }
            format!("{part} on {}", c.name)
        };
        let parts: Vec<String> = self.columns.iter().enumerate().map(part).collect();
        let unit = finding.unit_text(space);
        format!("{}: {}, {unit}.", finding.what, parts.join("; "))
    }

    /// Exits of all reasons for each column, per 1 000 units of the workload's work.
    pub fn total_exits(&self) -> Vec<Option<Sample>> {
        self.samples(|run| run.per_thousand(run.section.guest_exits))
    }

    fn total_sentence(&self, space: Space) -> Option<String> {
        let samples = self.total_exits();
        samples.get(self.base)?.as_ref()?;
        let parts = self.figure_parts(&samples, "", space);
        let single = self.columns.len() > 1 && self.columns.iter().any(|c| c.runs.len() == 1);
        let note = if single { ONE_RUN } else { "" };
        Some(format!(
            "All guest exits: {}, {}.{note}",
            parts.join("; "),
            self.per_thousand_text(space)
        ))
    }

    fn latency_sentence(&self, key: &str, what: &str, space: Space) -> Option<String> {
        let parts: Vec<String> = self
            .columns
            .iter()
            .filter_map(|c| {
                let l = c.latency(key)?;
                let time = |v: u64| number::duration(v, c.clock().cycles_per_second, space);
                let count = number::count(l.count, space);
                let tail = match percentile(&l, 990) {
                    Some(p99) => format!("99th percentile of {count}: {}", time(p99)),
                    None => format!("longest of {count}: {}", time(l.max)),
                };
                Some(format!("{} on {} ({tail})", time(l.p50), c.name))
            })
            .collect();
        (!parts.is_empty()).then(|| format!("{what}, median: {}.", parts.join("; ")))
    }
}

/// Sentence for single runs, which are not compared.
const ONE_RUN: &str = " One run of each does not say how much of a difference is chance: run \
                       several seeds.";

/// "1 exit", "2 exits".
fn noun(figure: String, noun: &str) -> String {
    match figure.as_str() {
        "1" => format!("1 {noun}"),
        _ => format!("{figure} {noun}s"),
    }
}

/// Work of the host for a guest.
struct Question {
    /// Description of the work.
    what: &'static str,
    /// Reasons of exits that it can cause.
    reasons: fn(&ExitReason) -> bool,
    /// How often it occurred.
    done: Count,
    /// Divisor of the exits: interrupts of the class, or of all classes.
    per: (&'static str, Count),
}

const TIMERS: (&str, Count) = ("timer interrupts", |s| interrupts(s, Class::Timer));
const SENT: (&str, Count) = ("IPIs", |s| {
    let sent = s.interrupts.get(&Class::Ipi).map(|class| class.sent);
    sent.unwrap_or(s.guest_interrupts.ipi_targets)
});
const DEVICES: (&str, Count) = ("device interrupts", |s| interrupts(s, Class::Device));
const ALL: (&str, Count) = ("guest interrupts", |s| {
    Class::ALL
        .into_iter()
        .map(|class| interrupts(s, class))
        .sum()
});

/// Interrupts of a class that guests took; by their number only in a ledger without classes.
pub(crate) fn interrupts(section: &Section, class: Class) -> u64 {
    match section.interrupts.get(&class) {
        Some(class) => class.taken,
        None => {
            let kinds = ["timer", "software", "external"];
            taken(section, kinds[class as usize])
        }
    }
}

const QUESTIONS: &[Question] = &[
    Question {
        what: "Programming the guest's timer",
        reasons: |r| *r == ExitReason::Fixed(Reason::TimerSet),
        done: |s| {
            s.guest_interrupts.timer_set_with_exit + s.guest_interrupts.timer_set_without_exit
        },
        per: TIMERS,
    },
    Question {
        what: "Timer interrupt while the guest runs",
        reasons: |r| *r == ExitReason::Fixed(Reason::TimerFire),
        done: |s| exits_for(s, Reason::TimerFire).exits,
        per: TIMERS,
    },
    Question {
        what: "Sending an IPI",
        reasons: sends_ipi,
        done: |s| s.guest_interrupts.ipi_sends + s.exits_with(sends_ipi).exits,
        per: SENT,
    },
    Question {
        what: "Software interrupts of the host (kicks of vCPUs, its own IPIs)",
        reasons: |r| *r == ExitReason::Fixed(Reason::IpiReceive),
        done: |s| taken(s, "software"),
        per: ALL,
    },
    Question {
        what: "Remote fences",
        reasons: |r| *r == ExitReason::Fixed(Reason::RemoteFence),
        done: |s| exits_for(s, Reason::RemoteFence).exits,
        per: ALL,
    },
    Question {
        what: "Claiming and completing device interrupts",
        reasons: claims,
        done: |s| s.exits_with(claims).exits,
        per: DEVICES,
    },
    Question {
        what: "Halting until an interrupt (WFI)",
        reasons: |r| *r == ExitReason::Fixed(Reason::Wfi),
        done: |s| exits_for(s, Reason::Wfi).exits,
        per: ALL,
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
