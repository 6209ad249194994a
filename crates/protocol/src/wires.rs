//! A wire that the host gives to a domain and takes back: its level against claims and completions
//! of both.
//!
//! ```text
//! device:   drives the wire while it needs attention
//! wire:     given: line, post or drop; else: gateway of the PLIC
//! guest:    claim, serve (the device lowers the wire), complete: line, post
//! host:     claims and completes at the PLIC; gives, takes back
//! ```

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A wire that is high when it is given is not asserted (WIRE-3).
    GiveIgnoresLevel,
    /// A wire that is high when it is taken back does not make the PLIC's source pending (WIRE-4).
    TakeBackIgnoresLevel,
    /// The line stays as it is when the wire is taken back (WIRE-4).
    TakeBackLeavesLine,
    /// A gateway that the host's claim has closed stays closed when the wire is given (WIRE-3).
    GatewayKept,
    /// The guest's completion does not look at the line (WIRE-6).
    CompletionIgnoresLine,
    /// The wire is taken back while a change of it is under way (WIRE-5).
    TakenBackAmidst,
}

/// A change that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Change {
    None,
    /// Before the line becomes 1.
    Line,
    /// The line is 1; the post is still to come.
    Post,
    /// The line is 0; the pending bit is still to be cleared, and then perhaps the wire is the
    /// PLIC's.
    Drop {
        back: bool,
    },
}

/// Whoever handles the interrupt: the guest, or the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Handler {
    Idle,
    Claimed,
    /// The guest has read that the line is 1.
    Posting,
}

/// The whole state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Level of the wire.
    wire: bool,
    /// Level that the controller has acted upon.
    level: bool,
    given: bool,
    line: bool,
    pending: bool,
    change: Change,
    /// Pending bit of the PLIC; its gateway is closed.
    plic: [bool; 2],
    guest: Handler,
    host: Handler,
    /// The host has masked the source at the PLIC and will not complete what it has claimed.
    abandoned: bool,
    rises: u8,
    moves: u8,
    /// A completion has posted again; a wire was taken back while high.
    seen: [bool; 2],
}

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The device needs attention.
    Rise,
    /// The device needs it no more, without having been served.
    Fall,
    /// The controller sees the wire, or goes on with a change.
    Change,
    /// The host gives the wire.
    Give,
    /// The host takes it back.
    TakeBack,
    /// Next step of the guest; it serves the device or leaves it.
    Guest(bool),
    /// Next step of the host's handler, likewise.
    Host(bool),
}

/// The model.
pub struct Wires {
    /// Rule that is broken.
    pub broken: Option<Broken>,
    /// Times that the device needs attention.
    pub rises: u8,
    /// Times that the wire is given.
    pub moves: u8,
}

/// A wire that is high has an interrupt pending, or in service, where it belongs.
pub const HEARD: &str = "a high wire is pending with its owner";
/// What is taken back leaves its line low.
pub const RELEASED: &str = "a wire that is taken back leaves no line";

impl State {
    fn rests(&self) -> bool {
        self.wire == self.level && self.change == Change::None && self.guest != Handler::Posting
    }

    /// The gateway passes the level on, unless it is closed.
    fn gateway(&mut self) {
        self.plic[0] |= self.level && !self.plic[1];
    }
}

impl Wires {
    fn has(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn change(s: &mut State) -> Option<()> {
        match s.change {
            Change::Line => {
                let was = std::mem::replace(&mut s.line, true);
                s.change = if was { Change::None } else { Change::Post };
            }
            Change::Post => {
                s.pending = true;
                s.change = Change::None;
            }
            Change::Drop { back } => {
                s.pending = false;
                s.change = Change::None;
                if back {
                    s.given = false;
                    s.level = s.wire;
                    s.gateway();
                }
            }
            Change::None if s.level == s.wire => return None,
            Change::None => {
                s.level = s.wire;
                match (s.given, s.level) {
                    (true, true) => s.change = Change::Line,
                    (true, false) => {
                        s.line = false;
                        s.change = Change::Drop { back: false };
                    }
                    (false, _) => s.gateway(),
                }
            }
        }
        Some(())
    }

    fn give(&self, s: &mut State) -> Option<()> {
        if s.given || s.moves == 0 || s.change != Change::None {
            return None;
        }
        s.moves -= 1;
        s.given = true;
        s.abandoned = s.host == Handler::Claimed;
        s.host = Handler::Idle;
        s.plic = [false, s.plic[1] && self.has(Broken::GatewayKept)];
        s.level = s.wire;
        if s.level && !self.has(Broken::GiveIgnoresLevel) {
            s.change = Change::Line;
        }
        Some(())
    }

    fn take_back(&self, s: &mut State) -> Option<()> {
        let amidst = self.has(Broken::TakenBackAmidst) && s.change == Change::Line;
        if !s.given || s.change != Change::None && !amidst {
            return None;
        }
        s.seen[1] |= s.wire;
        if !self.has(Broken::TakeBackLeavesLine) {
            s.line = false;
        }
        if amidst {
            // The rest of the former change comes later.
            s.pending = false;
            s.given = false;
            s.level = s.wire;
            s.gateway();
        } else if self.has(Broken::TakeBackIgnoresLevel) {
            (s.pending, s.given, s.level) = (false, false, s.wire);
        } else {
            s.change = Change::Drop { back: true };
        }
        Some(())
    }

    fn guest(&self, s: &mut State, serves: bool) -> Option<()> {
        s.guest = match s.guest {
            Handler::Idle => std::mem::take(&mut s.pending).then_some(Handler::Claimed)?,
            Handler::Claimed if serves => {
                if !s.wire || !s.given {
                    return None;
                }
                s.wire = false;
                Handler::Claimed
            }
            Handler::Claimed if s.line && !self.has(Broken::CompletionIgnoresLine) => {
                Handler::Posting
            }
            Handler::Claimed => Handler::Idle,
            Handler::Posting => {
                s.pending = true;
                s.seen[0] = true;
                Handler::Idle
            }
        };
        Some(())
    }

    fn host(s: &mut State, serves: bool) -> Option<()> {
        s.host = match s.host {
            Handler::Idle => {
                if !std::mem::take(&mut s.plic[0]) {
                    return None;
                }
                s.plic[1] = true;
                Handler::Claimed
            }
            _ if serves => {
                if !s.wire || s.given {
                    return None;
                }
                s.wire = false;
                Handler::Claimed
            }
            _ => {
                s.plic[1] = false;
                if !s.given {
                    s.gateway();
                }
                Handler::Idle
            }
        };
        Some(())
    }
}

impl Model for Wires {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            wire: false,
            level: false,
            given: false,
            line: false,
            pending: false,
            change: Change::None,
            plic: [false; 2],
            guest: Handler::Idle,
            host: Handler::Idle,
            abandoned: false,
            rises: self.rises,
            moves: self.moves,
            seen: [false; 2],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Rise,
            Action::Fall,
            Action::Change,
            Action::Give,
            Action::TakeBack,
            Action::Guest(false),
            Action::Guest(true),
            Action::Host(false),
            Action::Host(true),
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Rise => {
                if s.wire || s.rises == 0 {
                    return None;
                }
                s.rises -= 1;
                s.wire = true;
            }
            Action::Fall => {
                if !std::mem::take(&mut s.wire) {
                    return None;
                }
            }
            Action::Change => Self::change(&mut s)?,
            Action::Give => self.give(&mut s)?,
            Action::TakeBack => self.take_back(&mut s)?,
            Action::Guest(serves) => self.guest(&mut s, serves)?,
            Action::Host(serves) => Self::host(&mut s, serves)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HEARD, |_, s: &State| {
                let guest = s.pending || s.guest == Handler::Claimed;
                let host = s.plic[0] || s.host == Handler::Claimed;
                !s.rests() || !s.wire || if s.given { guest } else { host }
            }),
            Property::always(RELEASED, |_, s: &State| !s.rests() || s.given || !s.line),
            Property::sometimes("a completion posts again", |_, s: &State| s.seen[0]),
            Property::sometimes("a high wire is taken back", |_, s: &State| s.seen[1]),
            Property::sometimes("a claim of the host is abandoned", |_, s: &State| {
                s.abandoned
            }),
        ]
    }
}
