//! Events as messages between actors: vCPUs, harts, the controller, and software on each hart.

use std::collections::HashMap;

use trapless_isa::cause::{INTERRUPT, exception};
use trapless_isa::{Mode, sbi};
use trapless_ledger::event::{Event, EventOrigin, Guest, Return, StepKind, Trap, VirtualStep};
use trapless_ledger::fields::{self, Field};
use trapless_ledger::reason::{Reason, cause_index, short_cause};
use trapless_ledger::{Config, Ledger};

use crate::number::{self, Space};

/// Sender or receiver of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Actor {
    Vcpu(Guest),
    User(usize),
    Kvm(usize),
    Firmware(usize),
    Hart(usize),
    Controller,
    Device,
}

/// One arrow of a diagram, or a note if it begins and ends at the same actor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Virtual time since the interrupt was sent, in cycles.
    pub time: u64,
    /// Index of the actor it comes from.
    pub from: usize,
    /// Index of the actor it goes to.
    pub to: usize,
    /// Text.
    pub text: String,
    /// How often it occurred in a row.
    pub times: u64,
}

/// Message of an event, before its actors have a column.
pub(crate) struct Pending(u64, Actor, Actor, String);

/// Actors in order of appearance, and their messages.
#[derive(Clone, Debug)]
pub(crate) struct Actors {
    list: Vec<Actor>,
    messages: Vec<Message>,
    /// Messages left out, and before which one.
    cut: Option<(usize, usize)>,
    /// vCPU that runs in V=1 on each hart, or did last.
    guests: HashMap<usize, Guest>,
    numbers: HashMap<Guest, Option<u64>>,
    start: u64,
    config: Config,
}

impl Actors {
    pub fn new(ledger: &Ledger, start: u64) -> Self {
        Self {
            list: Vec::new(),
            messages: Vec::new(),
            cut: None,
            guests: HashMap::new(),
            numbers: ledger.vcpu_numbers().collect(),
            start,
            config: ledger.config().clone(),
        }
    }

    pub fn list(&self) -> &[Message] {
        &self.messages
    }

    pub fn cut(&self) -> Option<(usize, usize)> {
        self.cut
    }

    /// Names of the actors, in order.
    pub fn names(&self) -> Vec<String> {
        let vms = self.list.iter().filter_map(|a| match a {
            Actor::Vcpu(guest) => Some(guest.vmid),
            _ => None,
        });
        let mut vms: Vec<u16> = vms.collect();
        vms.sort_unstable();
        vms.dedup();
        let name = |actor: &Actor| match actor {
            Actor::Vcpu(guest) => {
                let vm = if vms.len() > 1 {
                    format!("VM {} ", guest.vmid)
                } else {
                    String::new()
                };
                match self.numbers.get(guest).copied().flatten() {
                    Some(number) => format!("{vm}vCPU {number}"),
                    None => format!("{vm}vCPU {:#x}", guest.context),
                }
            }
            Actor::User(hart) => format!("user space, hart {hart}"),
            Actor::Kvm(hart) => format!("KVM, hart {hart}"),
            Actor::Firmware(hart) => format!("firmware, hart {hart}"),
            Actor::Hart(hart) => format!("hart {hart}"),
            Actor::Controller => "controller".to_string(),
            Actor::Device => "device".to_string(),
        };
        self.list.iter().map(name).collect()
    }

    fn column(&mut self, actor: Actor) -> usize {
        let found = self.list.iter().position(|a| *a == actor);
        found.unwrap_or_else(|| {
            self.list.push(actor);
            self.list.len() - 1
        })
    }

    /// Appends a message.
    pub fn push(&mut self, pending: Option<Pending>) {
        let Some(Pending(time, from, to, text)) = pending else {
            return;
        };
        let (from, to) = (self.column(from), self.column(to));
        self.messages.push(Message {
            time: time.saturating_sub(self.start),
            from,
            to,
            text,
            times: 1,
        });
    }

    /// Appends a message; the same one again is counted.
    fn append(&mut self, m: Message) {
        match self.messages.last_mut() {
            Some(last) if (last.from, last.to, &last.text) == (m.from, m.to, &m.text) => {
                last.times += 1;
            }
            _ => self.messages.push(m),
        }
    }

    /// Puts messages in order of time and leaves out the middle if there are more than `most`.
    pub fn finish(&mut self, most: usize) {
        // Harts run in turn for a quantum each, so events are not in order of time. Events with the
        // same time keep their order.
        self.messages.sort_by_key(|m| m.time);
        let messages = std::mem::take(&mut self.messages);
        for m in messages {
            self.append(m);
        }
        let len = self.messages.len();
        if len > most {
            let head = most / 2;
            self.messages.drain(head..len - most / 2);
            self.cut = Some((head, len - most / 2 * 2));
        }
    }

    fn on(&self, hart: usize, mode: Mode) -> Actor {
        match mode {
            Mode::M => Actor::Firmware(hart),
            Mode::HS => Actor::Kvm(hart),
            Mode::U => Actor::User(hart),
            _ => Actor::Vcpu(self.guests.get(&hart).copied().unwrap_or_default()),
        }
    }

    /// Message of an event; `None` if it does not concern interrupts.
    pub fn message(&mut self, event: &Event) -> Option<Pending> {
        let (hart, guest) = match event {
            Event::Trap(t) if t.from.v() => (t.hart, Some(t.guest)),
            Event::Return(r) if r.to.v() => (r.hart, Some(r.guest)),
            Event::TimerSet(t) if t.mode.v() => (t.hart, Some(t.guest)),
            _ => (0, None),
        };
        if let Some(guest) = guest {
            self.guests.insert(hart, guest);
        }
        let time = event.time();
        let (from, to, text) = match event {
            Event::Trap(t) => self.trap(t)?,
            Event::Return(r) => self.returned(r)?,
            Event::Raise(r) => {
                let name = short_cause(cause_index(INTERRUPT | u64::from(r.irq)));
                let hart = Actor::Hart(r.hart);
                (hart, hart, format!("{name} pending"))
            }
            Event::TimerSet(t) => {
                let text = match t.deadline {
                    u64::MAX => "timer: never".to_string(),
                    at => {
                        let cycles = at.saturating_sub(t.time);
                        format!("timer: in {} cycles", number::count(cycles, Space::Plain))
                    }
                };
                (self.on(t.hart, t.mode), Actor::Hart(t.hart), text)
            }
            Event::Virtual(s) => self.step(s),
            Event::Wait(w) => {
                let actor = self.on(w.hart, w.mode);
                let text = if w.begin { "WFI: waits" } else { "WFI ends" };
                (actor, actor, text.to_string())
            }
            _ => return None,
        };
        Some(Pending(time, from, to, text))
    }

    fn trap(&self, t: &Trap) -> Option<(Actor, Actor, String)> {
        let (from, to) = (self.on(t.hart, t.from), self.on(t.hart, t.to));
        if t.is_interrupt() {
            let name = short_cause(cause_index(t.cause));
            return Some(match (t.from.v(), t.to) {
                (true, Mode::VS) => (
                    Actor::Hart(t.hart),
                    to,
                    format!("{name}: the guest's handler"),
                ),
                (true, Mode::HS) => (from, to, format!("exit: {name}")),
                _ => (Actor::Hart(t.hart), to, name),
            });
        }
        let call = || {
            let [_, _, function, extension] = t.args;
            let name = sbi::extension_name(extension).unwrap_or("unknown");
            format!("ecall {name}.{function}")
        };
        let text = match (t.cause, t.to) {
            (exception::ECALL_VS, _) => format!("exit: {}", call()),
            (exception::ECALL_S, Mode::M) => call(),
            (exception::ECALL_U, Mode::HS) if t.from == Mode::U => system_call(t),
            (_, Mode::HS) if t.from.v() => {
                let reason = Reason::classify(t, &self.config, false);
                format!("exit: {}", reason.key(&self.config.guest_devices))
            }
            (_, Mode::M) if t.from != Mode::M => short_cause(cause_index(t.cause)),
            _ => return None,
        };
        Some((from, to, text))
    }

    fn returned(&self, r: &Return) -> Option<(Actor, Actor, String)> {
        let text = match (r.from, r.to) {
            (Mode::M, Mode::M) | (Mode::HS, Mode::HS) => return None,
            (Mode::HS, to) if to.v() => "enters the guest",
            (Mode::HS, _) => "returns",
            (Mode::M, _) => "mret",
            _ => return None,
        };
        let (from, to) = (self.on(r.hart, r.from), self.on(r.hart, r.to));
        Some((from, to, text.to_string()))
    }

    /// The guest's handler has ended.
    pub fn handler_ends(&mut self, r: &Return) {
        let guest = self.on(r.hart, r.from);
        let text = "sret: the handler ends".to_string();
        self.push(Some(Pending(r.time, guest, guest, text)));
    }

    fn step(&self, s: &VirtualStep) -> (Actor, Actor, String) {
        let cause = if s.by_device {
            Actor::Device
        } else {
            self.on(s.hart, s.mode)
        };
        let controller = Actor::Controller;
        let (step, fields) = fields::of_step(&s.kind);
        let word = |(name, field): &(String, Field)| match field {
            Field::Flag(false) => None,
            Field::Flag(true) => Some(name.clone()),
            field => Some(format!("{name} {field}")),
        };
        let words: Vec<String> = fields.iter().filter_map(word).collect();
        let fields = words.join(", ");
        let (by, text) = match s.kind {
            StepKind::PostSource { .. } if s.by_device => ("device", "posts"),
            StepKind::Lowered { .. } if s.by_device => ("device", "lowers"),
            StepKind::PostSoft { .. } if s.mode.v() => ("sgenipi", "posts SOFT"),
            StepKind::PostSoft { .. } => ("hgenvsi", "posts SOFT"),
            StepKind::PostSource { .. } if s.mode.v() => ("vsclaim", "the line is high: posts"),
            StepKind::PostSource { .. } if s.mode == Mode::U => ("ugenvsei", "posts"),
            StepKind::PostSource { .. } => ("hgenvsi", "posts"),
            StepKind::Lowered { .. } if s.mode == Mode::U => ("ugenvsei", "lowers"),
            StepKind::Lowered { .. } => ("hgenvsi", "lowers"),
            StepKind::Claimed { .. } => ("vsclaim", "claims"),
            StepKind::Completed { .. } => ("vsclaim", "completes"),
            StepKind::Attached { .. } => ("hifmap", "attaches"),
            StepKind::Detached { .. } => ("hifmap", "detaches"),
            StepKind::Fetched { .. } => ("hnotify", "fetches"),
            StepKind::FileClaimed { .. } => ("stopei", "claims"),
            StepKind::FileSelected { .. } => ("hstatus.VGEIN", "selects"),
            StepKind::EventPosted { by, .. } => match by {
                EventOrigin::Guest => ("sgenvei", "posts"),
                EventOrigin::Doorbell => ("doorbell", "posts"),
                EventOrigin::Host => ("hgenvei", "posts"),
            },
            StepKind::EventTaken { .. } => ("hveiclaim", "takes"),
            StepKind::ContextEntered { .. } => ("user context", "begins"),
            StepKind::ContextLeft { .. } => ("URET", "ends"),
            StepKind::EventQueued { to, .. } => {
                return (controller, Actor::Hart(to), format!("event: {fields}"));
            }
            StepKind::Message { on, .. } => {
                return (cause, Actor::Hart(on), format!("message: {fields}"));
            }
            StepKind::HartIpi { to } => {
                return (controller, Actor::Hart(to), "sgenipi: SSI".to_string());
            }
            StepKind::Hit { on, .. } => {
                return (
                    controller,
                    Actor::Hart(on),
                    format!("lookup hits: {fields}"),
                );
            }
            StepKind::Notified { to, .. } => {
                let text = format!("lookup misses, notification: {fields}");
                return (controller, Actor::Hart(to), text);
            }
            StepKind::Silent { .. } => {
                let text = format!("lookup misses, no notification: {fields}");
                return (controller, controller, text);
            }
            _ => {
                let text = format!("{}: {fields}", step.replace('_', " "));
                return (cause, controller, text);
            }
        };
        (cause, controller, format!("{by}: {text} {fields}"))
    }
}

/// A system call; those of KVM that matter by name.
fn system_call(t: &Trap) -> String {
    let [_, request, _, number] = t.args;
    if number != 29 {
        return format!("system call {number}");
    }
    let name = match request as u32 {
        0xae80 => "KVM_RUN",
        0x4004_ae86 => "KVM_INTERRUPT",
        0x4018_aee1 => "KVM_SET_DEVICE_ATTR",
        other => return format!("ioctl {other:#x}"),
    };
    format!("ioctl {name}")
}
