//! What a comparison found, in sentences.

use trapless_ledger::ExitReason;
use trapless_ledger::document::Exit;
use trapless_ledger::reason::Reason;

use crate::compare::{Column, Comparison};
use crate::figures::{Count, taken};
use crate::number::{self, Space};

/// Exits that one kind of interrupt work caused.
pub struct Finding {
    /// The work.
    pub what: &'static str,
    /// Exits with their consequences, one per column.
    pub exits: Vec<Exit>,
}

impl Comparison<'_> {
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

/// A change in per cent, with a real minus sign.
fn change_text(percent: f64) -> String {
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!(" ({sign}{:.0} %)", percent.abs())
}
