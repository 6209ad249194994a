//! Reads `--log trap` (`docs/tracing.md`).

use std::collections::BTreeMap;

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
        Self {
            events: text.lines().filter_map(event).collect(),
        }
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
