//! Rules of the specification that programs do not reach, or not fully, and why.

use std::collections::BTreeMap;

use crate::programs::{self, Program};

/// For a rule without a program the reason; for one with programs what these leave out.
pub const NOTES: &[(&str, &str)] = &[
    (
        "ACC-4",
        "the reset of one hart while others go on: software has no means for it",
    ),
    (
        "ACC-5",
        "the reset of one hart: software has no means for it",
    ),
    (
        "BIT-2",
        "guest external interrupts (hstatus.VGEIN) exist with AIA only",
    ),
    (
        "CSR-4",
        "that a posting instruction is not executed twice needs an interrupt at its very cycle",
    ),
    ("DISC-1", "device trees of virtual machines are the host's"),
    (
        "EXT-11",
        "how many accesses a claim makes after an interrupt: a property of the circuit",
    ),
    ("INT-3", "Smrnmi: what raises an NMI is the platform's"),
    (
        "INT-4",
        "Ssdbltrp: traps of this extension are traps like others; nothing of its own to see",
    ),
    (
        "INT-7",
        "the combination with AIA has been implemented by nobody",
    ),
    ("INT-8", "needs a debugger"),
    ("INT-10", "needs an IOMMU and a device behind it"),
    (
        "MEM-5",
        "memory that no PMP entry permits, for an IOPMP instead",
    ),
    (
        "MEM-6",
        "memory that answers with an error, and corrupt memory",
    ),
    (
        "MEM-8",
        "binds software; what an implementation does otherwise is not said",
    ),
    ("MSG-6", "a device as the sender: a hart stores instead"),
    (
        "MSG-9",
        "binds page tables, PMP and IOMMUs, and says that a window knows no sender",
    ),
    (
        "ORD-12",
        "the implementation states the time; programs wait for as long as the platform says",
    ),
    ("ORD-18", "needs a device that stores data, then a message"),
    (
        "ORD-19",
        "needs a device whose store a hart sees before its message",
    ),
    ("SLOT-9", "which of two slots is hit is open"),
    ("TIM-1", "stimecmp of the host is Sstc's"),
    ("WIRE-8", "binds software"),
];

/// A rule, the programs that test it, and its note.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// Programs, in the order of the chapters.
    pub programs: Vec<&'static Program>,
    /// Why there is none, or what they leave out.
    pub note: Option<&'static str>,
}

/// All rules that are known here, in the order of their names and numbers.
pub fn all() -> Vec<Rule> {
    let mut rules = BTreeMap::new();
    let empty = |name| Rule {
        name,
        programs: Vec::new(),
        note: None,
    };
    for program in programs::all() {
        for name in program.rules {
            let rule = rules.entry(key(name)).or_insert_with(|| empty(name));
            rule.programs.push(program);
        }
    }
    for (name, text) in NOTES {
        rules.entry(key(name)).or_insert_with(|| empty(name)).note = Some(text);
    }
    rules.into_values().collect()
}

/// `ORD-10` comes after `ORD-9`.
fn key(name: &'static str) -> (&'static str, u32) {
    let (chapter, number) = name.split_once('-').unwrap_or((name, "0"));
    (chapter, number.parse().unwrap_or(0))
}
