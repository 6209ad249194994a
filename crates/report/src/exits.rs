//! Guest exits by reason: rows of all columns, and reasons in words.

use std::collections::BTreeMap;

use trapless_ledger::ExitReason;
use trapless_ledger::document::Exit;
use trapless_ledger::reason::{Access, Reason};

use crate::compare::Comparison;

/// A kind of exit over all columns.
pub struct ExitRow {
    /// For people; reads and writes of a device are one kind.
    pub label: String,
    /// One per column.
    pub exits: Vec<Exit>,
}

impl Comparison<'_> {
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
