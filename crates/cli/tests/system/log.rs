//! Reads `--log trap` (`docs/tracing.md`).

use std::collections::{BTreeMap, BTreeSet};

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Trap,
    Return,
    Read,
    Write,
    /// A step of the interrupt controller.
    Virtual,
}

/// One event of a hart.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Virtual time in cycles.
    pub time: u64,
    pub hart: usize,
    pub kind: Kind,
    /// `VS>HS` of traps and returns, the mode of device accesses and of the controller's steps.
    pub step: &'static str,
    /// Name of a trap's cause, or of the controller's step.
    pub cause: &'static str,
    /// Address of a device access.
    pub addr: u64,
    /// A trap of a guest's handler in U-mode (Xuer), not of a process.
    pub in_handler: bool,
    /// A claim of an edge-triggered source, one that is never completed: how many were before it.
    pub edge: Option<u64>,
    /// Cycles between a completion and the claim before it on the hart.
    pub claimed_for: Option<u64>,
    /// `name=value` fields of traps, returns and the controller's steps.
    fields: &'static str,
}

impl Event {
    /// A field's text.
    pub fn field(&self, name: &str) -> Option<&'static str> {
        let mut pairs = self.fields.split(' ').filter_map(|f| f.split_once('='));
        pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// A field in hexadecimal.
    pub fn hex(&self, name: &str) -> Option<u64> {
        let text = self.field(name)?;
        u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    /// A field in decimal.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// Whether it is step `name` of the interrupt controller, caused in `mode`.
    pub fn is_step(&self, mode: &str, name: &str) -> bool {
        self.kind == Kind::Virtual && self.cause == name && self.step == mode
    }

    pub fn is_trap(&self, steps: &[&str], cause: &str) -> bool {
        self.kind == Kind::Trap && self.cause == cause && steps.contains(&self.step)
    }
}

/// All traps, returns and device accesses of a run, in the order in which they were recorded.
#[derive(Default)]
pub struct Log {
    pub events: Vec<Event>,
}

impl Log {
    /// Reads a log. Its text stays in memory, because all events point into it.
    pub fn parse(text: String) -> Self {
        let text: &'static str = text.leak();
        let mut events: Vec<_> = text.lines().filter_map(event).collect();
        mark_handlers(&mut events);
        mark_taken_again(&mut events);
        mark_claims(&mut events);
        Self { events }
    }

    /// How often each kind of trap was taken, by (hart, step, cause).
    pub fn traps(&self) -> BTreeMap<(usize, &'static str, &'static str), u64> {
        let mut counts = BTreeMap::new();
        for e in self.events.iter().filter(|e| e.kind == Kind::Trap) {
            *counts.entry((e.hart, e.step, e.cause)).or_default() += 1;
        }
        counts
    }
}

fn mark_claims(events: &mut [Event]) {
    // A driver completes all sources when it starts: what it completes after a claim is a level.
    let (mut before, mut completed) = (BTreeSet::new(), BTreeSet::new());
    for e in events.iter().filter(|e| e.step == "VS") {
        let source = (e.hart, e.number("source"));
        if e.is_step("VS", "claimed") {
            before.insert(source);
        } else if e.is_step("VS", "completed") && before.contains(&source) {
            completed.insert(source.1);
        }
    }
    let mut claims: BTreeMap<_, u64> = BTreeMap::new();
    let mut claimed = BTreeMap::new();
    for e in events.iter_mut().filter(|e| e.kind == Kind::Virtual) {
        match e.cause {
            "claimed" => drop(claimed.insert(e.hart, e.time)),
            "completed" => e.claimed_for = claimed.get(&e.hart).map(|since| e.time - since),
            _ => {}
        }
    }
    for e in events.iter_mut().filter(|e| e.is_step("VS", "claimed")) {
        let source = e.number("source");
        if source != Some(0) && !completed.contains(&source) {
            let before = claims.entry(source).or_default();
            e.edge = Some(*before);
            *before += 1;
        }
    }
}

/// What ends a handler that HS-mode began, as it begins one for a vCPU that sleeps (Xhcs).
const HANDLER_END: &str = "end of a handler that HS-mode began";

/// Notes which traps from U-mode are those of handlers: from a trap out of the guest to the return
/// to it, or from HS-mode's beginning to the end, and again where an interrupted handler continues.
fn mark_handlers(events: &mut [Event]) {
    let begun = begun_by_hs(events);
    let mut running = BTreeSet::new();
    let mut interrupted = Vec::new();
    for e in events {
        match (e.kind, e.step) {
            (Kind::Trap, "VS>U" | "VU>U") => {
                running.insert(e.hart);
            }
            (Kind::Trap, "U>HS") if e.cause == HANDLER_END => {
                running.remove(&e.hart);
            }
            (Kind::Trap, "U>HS") if running.remove(&e.hart) => {
                e.in_handler = true;
                interrupted.push(e.hex("epc"));
            }
            (Kind::Return, "U>VS" | "U>VU") => {
                running.remove(&e.hart);
            }
            (Kind::Return, "HS>U") => {
                let pc = e.hex("pc");
                if let Some(at) = interrupted.iter().position(|epc| *epc == pc) {
                    interrupted.swap_remove(at);
                    running.insert(e.hart);
                } else if begun.contains(&pc) {
                    running.insert(e.hart);
                }
            }
            _ => {}
        }
    }
}

/// Longest time in cycles until an interrupt that has ended a handler is taken again.
const AGAIN: u64 = 1000;

/// Notes interrupts out of U-mode that the same hart takes again before it does anything else: they
/// have ended handlers that [`begun_by_hs`] does not find, such as those that meet a page fault
/// each time.
fn mark_taken_again(events: &mut [Event]) {
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for index in 0..events.len() {
        let e = &events[index];
        let Some(before) = last.insert(e.hart, index) else {
            continue;
        };
        let b = &events[before];
        let traps = [b, e].map(|e| (e.kind, e.step));
        if traps == [(Kind::Trap, "U>HS"), (Kind::Trap, "HS>HS")]
            && b.cause == e.cause
            && e.time - b.time < AGAIN
        {
            events[before].in_handler = true;
        }
    }
}

/// Where HS-mode begins handlers, or lets them continue: the log does not tell such a return from
/// one to a process, but those that ran to their end without a trap show the addresses, and no
/// process runs there.
fn begun_by_hs(events: &[Event]) -> BTreeSet<Option<u64>> {
    let mut returned = BTreeMap::new();
    let mut begun = BTreeSet::new();
    for e in events {
        match (e.kind, e.step) {
            (Kind::Return, "HS>U") => drop(returned.insert(e.hart, e.hex("pc"))),
            (Kind::Trap, "U>HS") if e.cause == HANDLER_END => {
                begun.extend(returned.get(&e.hart).copied());
            }
            _ => {}
        }
    }
    begun
}

fn event(line: &'static str) -> Option<Event> {
    let (time, rest) = line.trim_start().split_once(' ')?;
    let (hart, rest) = rest.trim_start().split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let (step, rest) = rest.trim_start().split_once(' ')?;
    let mut event = Event {
        time: time.parse().expect("the log's first column is a time"),
        hart: hart.parse().expect("the log's second column is a hart"),
        kind: Kind::Trap,
        step,
        cause: "",
        addr: 0,
        in_handler: false,
        edge: None,
        claimed_for: None,
        fields: "",
    };
    match kind {
        "trap" => {
            let end = rest.find(" epc=").expect("traps have an epc");
            event.cause = &rest[..end];
            event.fields = &rest[end + 1..];
        }
        "return" => {
            event.kind = Kind::Return;
            event.fields = rest;
        }
        "virt" => {
            let (name, fields) = rest.split_once(' ')?;
            event.kind = Kind::Virtual;
            event.cause = name;
            event.fields = fields;
        }
        "device" => {
            let (what, addr) = rest.split_once(' ')?;
            event.kind = if what == "write" {
                Kind::Write
            } else {
                Kind::Read
            };
            let digits = addr.trim_start_matches("0x");
            event.addr = u64::from_str_radix(digits, 16).expect("device accesses have an address");
        }
        _ => return None,
    }
    Some(event)
}
