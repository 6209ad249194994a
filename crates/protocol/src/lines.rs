//! A level-sensitive source that the host moves between two vharts: `ASSERT` and `DEASSERT` of its
//! line against claims, completions and the move.
//!
//! ```text
//! device:  ASSERT: entry, line, post          DEASSERT: entry, line, drop
//! guest:   claim, serve (the device de-asserts), complete: entry, line, post
//! host:    new entry, SYNC, clear the old vhart's pending bit, EDGE
//! ```
//!
//! Both vharts are loaded, so that what is pending for one is claimed by its guest: lookups are the
//! subject of the [protocol](crate::Protocol).

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The pending bit that a `DEASSERT` clears is cleared after a later `ASSERT` (EXT-1, ORD-13).
    DropLate,
    /// Only the vhart that the entry names can complete, as with a PLIC (EXT-6).
    OthersCannotComplete,
    /// A completion posts without a look at the line, or never (EXT-8).
    CompletionIgnoresLine,
    /// The host clears the old pending bit while posts with the old entry are under way.
    MoveWithoutSync,
    /// The host leaves the old pending bit where it is.
    MoveWithoutClear,
    /// The host clears the old pending bit, and forgets it.
    MoveWithoutEdge,
}

/// The thread that drives the line; it has read the entry of the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Driver {
    Idle,
    /// Before the line changes to this level.
    Line(bool, u8),
    Post(u8),
    Drop(u8),
}

/// What a guest does about the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Guest {
    Idle,
    Claimed,
    /// It has told the device, which de-asserts the line.
    Serving,
    Completing,
    /// Has read the entry; before the line is read.
    Looking(u8),
    Posting(u8),
}

/// The host's move of the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Host {
    Idle,
    /// SYNC: the vhart that the source has left.
    Sync(u8),
    Clear(u8),
    Edge,
}

/// The whole state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The device needs attention.
    wants: bool,
    line: bool,
    pending: [bool; 2],
    /// Vhart that the entry of the source names.
    entry: u8,
    driver: Driver,
    /// `DropLate`: vhart whose pending bit is still to be cleared.
    late: Option<u8>,
    guests: [Guest; 2],
    host: Host,
    rises: u8,
    moves: u8,
    /// A completion has posted again; a move has taken something along.
    seen: [bool; 2],
}

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The device needs attention, and asserts its line.
    Rise,
    /// Next step of the thread that drives the line.
    Drive,
    /// The pending bit is cleared after all.
    LateDrop,
    /// Next step of a guest.
    Guest(u8),
    /// The guest completes, and the device needs attention still, for another reason perhaps.
    Leave(u8),
    /// The host stores another entry.
    Move,
    /// Next step of the move.
    Host,
}

/// The model.
pub struct Lines {
    /// Rule that is broken.
    pub broken: Option<Broken>,
    /// Times that the device needs attention.
    pub rises: u8,
    /// Times that the source is moved.
    pub moves: u8,
}

/// A device that needs attention has an interrupt pending, once nothing is on its way.
pub const RAISED: &str = "a raised line is pending";
/// After a move nothing is pending for the vhart that the source has left.
pub const MOVED: &str = "what is pending moves along";

impl State {
    fn rests(&self) -> bool {
        self.driver == Driver::Idle
            && self.late.is_none()
            && self.guests == [Guest::Idle; 2]
            && self.host == Host::Idle
    }

    /// An operation under way uses an entry that names `vhart`.
    fn uses(&self, vhart: u8) -> bool {
        let driver = match self.driver {
            Driver::Idle => false,
            Driver::Line(_, v) | Driver::Post(v) | Driver::Drop(v) => v == vhart,
        };
        let guests = self.guests.iter().any(|guest| match guest {
            Guest::Looking(v) | Guest::Posting(v) => *v == vhart,
            _ => false,
        });
        driver || guests || self.late == Some(vhart)
    }

    fn pend(&mut self, vhart: u8, to: bool) -> bool {
        std::mem::replace(&mut self.pending[usize::from(vhart)], to)
    }
}

impl Lines {
    fn has(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn drive(&self, s: &mut State) -> Option<()> {
        s.driver = match s.driver {
            Driver::Idle => return None,
            Driver::Line(level, vhart) => {
                let was = std::mem::replace(&mut s.line, level);
                match level {
                    true if was => Driver::Idle,
                    true => Driver::Post(vhart),
                    false if self.has(Broken::DropLate) && s.late.is_none() => {
                        s.late = Some(vhart);
                        Driver::Idle
                    }
                    false => Driver::Drop(vhart),
                }
            }
            Driver::Post(vhart) => {
                s.pend(vhart, true);
                Driver::Idle
            }
            Driver::Drop(vhart) => {
                s.pend(vhart, false);
                Driver::Idle
            }
        };
        Some(())
    }

    fn guest(&self, s: &mut State, v: u8) -> Option<()> {
        let next = match s.guests[usize::from(v)] {
            Guest::Idle => s.pend(v, false).then_some(Guest::Claimed)?,
            Guest::Claimed if s.driver != Driver::Idle => return None,
            Guest::Claimed if s.wants => {
                s.wants = false;
                s.driver = Driver::Line(false, s.entry);
                Guest::Serving
            }
            Guest::Claimed => Guest::Completing,
            // The device model has answered when the guest goes on.
            Guest::Serving => match s.driver {
                Driver::Line(false, _) | Driver::Drop(_) => return None,
                _ => Guest::Completing,
            },
            Guest::Completing if self.has(Broken::OthersCannotComplete) && s.entry != v => {
                Guest::Idle
            }
            Guest::Completing => Guest::Looking(s.entry),
            Guest::Looking(vhart) if s.line && !self.has(Broken::CompletionIgnoresLine) => {
                Guest::Posting(vhart)
            }
            Guest::Looking(_) => Guest::Idle,
            Guest::Posting(vhart) => {
                s.pend(vhart, true);
                s.seen[0] = true;
                Guest::Idle
            }
        };
        s.guests[usize::from(v)] = next;
        Some(())
    }

    fn host(&self, s: &mut State) -> Option<()> {
        s.host = match s.host {
            Host::Idle => return None,
            Host::Sync(old) if s.uses(old) && !self.has(Broken::MoveWithoutSync) => return None,
            Host::Sync(_) if self.has(Broken::MoveWithoutClear) => Host::Idle,
            Host::Sync(old) => Host::Clear(old),
            Host::Clear(old) => {
                if s.pend(old, false) && !self.has(Broken::MoveWithoutEdge) {
                    s.seen[1] = true;
                    Host::Edge
                } else {
                    Host::Idle
                }
            }
            Host::Edge => {
                s.pend(s.entry, true);
                Host::Idle
            }
        };
        Some(())
    }
}

impl Model for Lines {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            wants: false,
            line: false,
            pending: [false; 2],
            entry: 0,
            driver: Driver::Idle,
            late: None,
            guests: [Guest::Idle; 2],
            host: Host::Idle,
            rises: self.rises,
            moves: self.moves,
            seen: [false; 2],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Rise,
            Action::Drive,
            Action::LateDrop,
            Action::Guest(0),
            Action::Guest(1),
            Action::Leave(0),
            Action::Leave(1),
            Action::Move,
            Action::Host,
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Rise => {
                if s.rises == 0 || s.wants || s.driver != Driver::Idle {
                    return None;
                }
                s.rises -= 1;
                s.wants = true;
                s.driver = Driver::Line(true, s.entry);
            }
            Action::Drive => self.drive(&mut s)?,
            Action::LateDrop => {
                let vhart = s.late.take()?;
                s.pend(vhart, false);
            }
            Action::Guest(v) => self.guest(&mut s, v)?,
            Action::Leave(v) => {
                if s.guests[usize::from(v)] != Guest::Claimed || !s.wants {
                    return None;
                }
                s.guests[usize::from(v)] = Guest::Completing;
            }
            Action::Move => {
                if s.moves == 0 || s.host != Host::Idle {
                    return None;
                }
                s.moves -= 1;
                s.host = Host::Sync(s.entry);
                s.entry = 1 - s.entry;
            }
            Action::Host => self.host(&mut s)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RAISED, |_, s: &State| {
                !s.rests() || !s.wants || s.line && s.pending != [false; 2]
            }),
            Property::always(MOVED, |_, s: &State| {
                !s.rests() || !s.pending[usize::from(1 - s.entry)]
            }),
            Property::sometimes("a completion posts again", |_, s: &State| s.seen[0]),
            Property::sometimes("a move takes something along", |_, s: &State| s.seen[1]),
            Property::sometimes("an interrupt is spurious", |_, s: &State| {
                !s.wants && s.guests.contains(&Guest::Claimed)
            }),
        ]
    }
}
