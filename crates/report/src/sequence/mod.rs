//! One interrupt from its sender to the guest's handler as a sequence diagram, from the events of a
//! run.
//!
//! ```text
//! events ──> Finder (uses a Ledger to find the interrupt) ──> Sequence ──> mermaid, text
//! ```

pub(crate) mod actors;
pub(crate) mod diagram;
pub(crate) mod episodes;

use std::collections::VecDeque;
use std::io::BufRead;

use trapless_isa::Mode;
use trapless_ledger::event::{Event, Sink, StepKind};
use trapless_ledger::{Answered, Class, Config, Ledger, Left, State, replay};

use crate::sequence::actors::{Actors, Message};

/// Maximum number of events kept during the search: the beginning of an interrupt with more is
/// missing.
const KEPT: usize = 20_000;
/// Events shown after the guest's handler was entered, at most.
const AFTER: usize = 400;
/// Cycles shown after that, at most: a handler may switch to another thread and return much later.
const AFTER_CYCLES: u64 = 50_000;
/// Maximum number of messages; if there are more, those in the middle are left out.
const MESSAGES: usize = 80;

/// Which interrupt to show.
///
/// ```
/// use trapless_ledger::{Class, State};
/// use trapless_report::sequence::Wanted;
///
/// let third: Wanted = "ipi.scheduled_off:3".parse().unwrap();
/// assert_eq!((third.class, third.state), (Class::Ipi, Some(State::ScheduledOff)));
/// assert_eq!(third.number, 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its class.
    pub class: Class,
    /// What its vCPU was doing when it arrived; any if `None`.
    pub state: Option<State>,
    /// Why its vCPU was scheduled off; any if `None`.
    pub left: Option<Left>,
    /// Ordinal among them, from 1.
    pub number: u64,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    /// `CLASS[.STATE][:NUMBER]`, for instance `ipi.scheduled_off:3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "{text:?} names no interrupt: write timer, ipi or device, then optionally .running, \
                 .paused or .scheduled_off (or .halted, .preempted, .stopped), then optionally :NUMBER (1 is the first)"
            )
        };
        let (what, number) = match text.split_once(':') {
            Some((what, number)) => (what, number.parse().map_err(|_| help())?),
            None => (text, 1),
        };
        let (class, name) = match what.split_once('.') {
            Some((class, name)) => (class, Some(name)),
            None => (what, None),
        };
        let left = name.and_then(Left::from_name);
        let state = match name {
            Some(_) if left.is_some() => Some(State::ScheduledOff),
            Some(name) => Some(State::from_name(name).ok_or_else(help)?),
            None => None,
        };
        Ok(Self {
            class: Class::from_name(class).ok_or_else(help)?,
            state,
            left,
            number: Some(number).filter(|n| *n != 0).ok_or_else(help)?,
        })
    }
}

/// Searches a run, or a stream of events, for one interrupt.
#[derive(Debug)]
pub struct Finder {
    ledger: Ledger,
    wanted: Wanted,
    seen: u64,
    kept: VecDeque<Event>,
    found: Option<Answered>,
    /// Events still to be kept after it was found.
    after: usize,
}

impl Finder {
    /// A finder on a machine described by `config`. It needs all events from reset on, to know
    /// where each vCPU is.
    pub fn new(config: Config, wanted: Wanted) -> Self {
        Self {
            ledger: Ledger::new(config),
            wanted,
            seen: 0,
            kept: VecDeque::new(),
            found: None,
            after: AFTER,
        }
    }

    /// Whether no further events are needed.
    pub fn is_complete(&self) -> bool {
        self.found.is_some() && self.after == 0
    }

    /// The interrupt; `None` if there were fewer such interrupts.
    pub fn finish(self) -> Option<Sequence> {
        let found = self.found?;
        let events: Vec<Event> = self.kept.into();
        Some(Sequence {
            messages: messages(&self.ledger, &events, found),
            found,
        })
    }

    fn is_wanted(&mut self, answered: &Answered) -> bool {
        let right = answered.class == self.wanted.class
            && self.wanted.state.is_none_or(|s| s == answered.state)
            && self.wanted.left.is_none_or(|l| Some(l) == answered.left);
        self.seen += u64::from(right);
        right && self.seen == self.wanted.number
    }
}

impl Sink for Finder {
    fn record(&mut self, event: &Event) {
        if self.is_complete() {
            return;
        }
        self.ledger.record(event);
        if matches!(event, Event::Switch(_)) {
            // Not related to an interrupt's delivery.
            return;
        }
        self.kept.push_back(*event);
        if let Some(found) = self.found {
            self.after -= 1;
            let long = event.time() > found.taken.saturating_add(AFTER_CYCLES);
            if long || handler_ends(event, &found) {
                self.after = 0;
            }
            return;
        }
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        if let Some(answered) = self.ledger.take_answered()
            && self.is_wanted(&answered)
        {
            self.found = Some(answered);
        }
    }
}

/// The guest's handler returns to what it interrupted.
fn handler_ends(event: &Event, found: &Answered) -> bool {
    match event {
        Event::Return(r) => {
            r.hart == found.hart && r.from == Mode::VS && r.to.v() && r.time >= found.taken
        }
        _ => false,
    }
}

/// Reads a stream of events as `EventStream` writes it and looks for an interrupt.
///
/// # Errors
/// If a line is not readable, not an event, or of another version; the message has its number.
pub fn find(
    stream: impl BufRead,
    config: Config,
    wanted: Wanted,
) -> Result<Option<Sequence>, String> {
    let mut finder = Finder::new(config, wanted);
    for (number, line) in stream.lines().enumerate() {
        let at = |e: String| format!("line {}: {e}", number + 1);
        let line = line.map_err(|e| at(e.to_string()))?;
        if let Some(event) = replay::parse(&line).map_err(at)? {
            finder.record(&event);
        }
        if finder.is_complete() {
            break;
        }
    }
    Ok(finder.finish())
}

/// One interrupt, from its sender to the end of the guest's handler.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The interrupt.
    pub found: Answered,
    pub(crate) messages: Actors,
}

/// Converts the events from the send to the end of the handler; unrelated ones are left out.
fn messages(ledger: &Ledger, events: &[Event], found: Answered) -> Actors {
    let mut actors = Actors::new(ledger, found.sent);
    let mut relevance = Relevance::new(&found);
    let aside = episodes::aside(events, ledger.config(), found.arrived);
    for (event, aside) in events.iter().zip(aside) {
        // Also needed to know which vCPU runs where.
        let message = actors.message(event);
        if event.time() >= found.sent && relevance.of(event) && !aside {
            actors.push(message);
        }
    }
    if let Some(Event::Return(r)) = events.last().filter(|e| handler_ends(e, &found)) {
        actors.handler_ends(r);
    }
    actors.finish(MESSAGES);
    actors
}

/// Which events belong to the interrupt: those of the hart that takes the interrupt; of other harts
/// the sender, until it continues its own work, and each that the controller signals.
struct Relevance {
    taken_on: usize,
    /// Harts that work for it now.
    busy: Vec<usize>,
    started: bool,
    sender: Option<usize>,
    found: Answered,
}

impl Relevance {
    fn new(found: &Answered) -> Self {
        Self {
            taken_on: found.hart,
            busy: Vec::new(),
            started: false,
            sender: None,
            found: *found,
        }
    }

    fn of(&mut self, event: &Event) -> bool {
        if !self.started {
            let hart = self.begins(event);
            self.started = hart.is_some();
            self.sender = hart;
            // An access to the controller is done at once; a trap begins work.
            let at_once = matches!(event, Event::Virtual(_) | Event::TimerSet(_));
            self.busy.extend(hart.filter(|_| !at_once));
            return self.started;
        }
        match event {
            Event::Trap(t) => self.shows(t.hart),
            Event::Return(r) => {
                let shown = self.shows(r.hart) && !(r.from.v() && r.hart != self.taken_on);
                if r.to.v() || r.to == Mode::U {
                    self.busy.retain(|h| *h != r.hart);
                }
                shown
            }
            // Of the host's own interrupts only the trap is shown.
            Event::Raise(r) => self.shows(r.hart) && matches!(r.irq, 2 | 6 | 10 | 24),
            Event::TimerSet(t) => self.shows(t.hart),
            Event::Virtual(s) => {
                let same_access = Some(s.hart) == self.sender && s.time == self.found.sent;
                match s.kind {
                    StepKind::HartIpi { to } if to != self.taken_on => return false,
                    StepKind::Hit { on: to, .. } | StepKind::Notified { to, .. }
                        if same_access && !self.busy.contains(&to) =>
                    {
                        self.busy.push(to);
                    }
                    _ => {}
                }
                self.shows(s.hart) || same_access
            }
            Event::Wait(w) => {
                let shown = self.shows(w.hart);
                if w.begin {
                    self.busy.retain(|h| *h != w.hart);
                }
                shown
            }
            _ => false,
        }
    }

    fn shows(&self, hart: usize) -> bool {
        hart == self.taken_on || self.busy.contains(&hart)
    }

    /// Hart on which the interrupt begins with this event.
    fn begins(&self, event: &Event) -> Option<usize> {
        if event.time() != self.found.sent {
            return None;
        }
        let begins = match (self.found.class, event) {
            (Class::Timer, Event::TimerSet(t)) => t.mode.v(),
            (Class::Timer, Event::Trap(t)) => t.from.v() && !t.to.v(),
            (Class::Ipi, Event::Virtual(s)) => matches!(s.kind, StepKind::PostSoft { .. }),
            (Class::Ipi, Event::Trap(t)) => t.from.v() && !t.to.v(),
            (Class::Device, Event::Virtual(s)) => {
                matches!(
                    s.kind,
                    StepKind::PostSource { .. } | StepKind::Completed { .. }
                )
            }
            (Class::Device, Event::Trap(t)) => t.from == Mode::U,
            (Class::Device, Event::Raise(_)) => true,
            _ => false,
        };
        begins.then(|| event.hart())
    }
}

impl Sequence {
    /// Title: class, state of the vCPU at arrival, latency.
    pub fn title(&self, cycles_per_second: u64) -> String {
        let f = &self.found;
        let what = match f.class {
            Class::Timer => "Timer interrupt",
            Class::Ipi => "IPI",
            Class::Device => "Device interrupt",
        };
        let state = match f.state {
            State::Running => "for a running vCPU",
            State::Paused => "for a vCPU paused in the host",
            State::ScheduledOff => match f.left {
                Some(Left::Halted) => "for a vCPU that is halted",
                Some(Left::Preempted) => "for a vCPU that is preempted",
                Some(Left::Stopped) => "for a vCPU whose KVM_RUN has returned",
                None => "for a vCPU that is scheduled off",
            },
            State::Unknown => "for a vCPU in an unknown state",
        };
        let since = if f.class == Class::Timer {
            "after its deadline"
        } else {
            "after it was sent"
        };
        let time = f.taken.saturating_sub(f.arrived);
        let time = crate::number::duration(time, cycles_per_second, crate::number::Space::Plain);
        format!("{what} {state}: its handler runs {time} {since}")
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        self.messages.list()
    }
}
