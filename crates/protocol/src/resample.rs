//! A source with `RESAMPLE`: its completions, the notification, the deferred work that passes them
//! on to the device, and a SYNC that promises that all have been passed on.
//!
//! ```text
//! guest:   claim, perhaps serve, complete: lower the line, set the outstanding bit, notify
//! host:    interrupt: queue the work; work: take the bit, then signal
//! device:  on a signal: still in need of attention? ASSERT
//! SYNC:    the controller's SYNC; take the bit and signal; wait for the work that runs
//! ```
//!
//! The last two lines are `CTRL_SYNC` and the work of `arch/riscv/kvm/trapless_*.c`.

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A completion sets the bit before it lowers the line (EXT-7).
    MarkFirst,
    /// The work signals before it takes the bit.
    SignalFirst,
    /// The scan after an overflow, or after the first queue has been opened, leaves resamples out.
    OverflowForgotten,
    /// SYNC does not wait for the work that has taken the bit and not signalled yet.
    SyncWithoutFlush,
    /// SYNC waits for the work only, which a notification in a queue has not started yet.
    SyncWithoutLook,
    /// SYNC does not wait for completions that the controller has under way.
    SyncWithoutController,
}

/// State of the guest's handling of the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Guest {
    Idle,
    Claimed,
    /// The controller carries the completion out.
    Lower,
    Mark,
    Notify,
    /// `MarkFirst`: the line is lowered last.
    LowerLate,
}

/// Work that passes completions on, or a SYNC that does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Work {
    Idle,
    Queued,
    /// The bit was taken; before the signal.
    Signal,
    /// `SignalFirst`: signalled; before the bit is taken.
    Take,
}

/// SYNC of the host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sync {
    Idle,
    Controller,
    Look,
    Signal,
    Flush,
    /// It has returned.
    Done,
}

/// The whole state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The device needs attention.
    wants: bool,
    line: bool,
    pending: bool,
    outstanding: bool,
    /// An `ASSERT` has raised the line; before its post.
    posting: bool,
    guest: Guest,
    /// A notification is in a queue.
    told: bool,
    /// One found no room, or no open queue.
    overflow: bool,
    work: Work,
    /// The work has been queued again while it ran.
    again: bool,
    /// The device has been signalled.
    signalled: bool,
    sync: Sync,
    /// The bit that a completion has set has not been followed by a signal (ghost).
    unsignalled: bool,
    /// The same of one that was over or under way when SYNC began (ghost).
    due: bool,
    rises: u8,
    syncs: u8,
}

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The device needs attention, and asserts its line.
    Rise,
    /// The post of an `ASSERT`.
    Post,
    /// The guest claims, or goes on with the completion.
    Guest,
    /// The guest completes, and the device needs no attention any more.
    Serve,
    /// The notification finds no room.
    Overflow,
    /// The host reads the notification.
    Fetch,
    /// The host looks at everything after an overflow.
    Scan,
    /// Next step of the work.
    Work,
    /// The device handles a signal.
    Device,
    /// SYNC begins, or goes on.
    Sync,
}

/// The model.
pub struct Resample {
    /// Rule that is broken.
    pub broken: Option<Broken>,
    /// Times that the device needs attention.
    pub rises: u8,
    /// SYNCs.
    pub syncs: u8,
}

/// A device that needs attention has an interrupt pending, once nothing is on its way.
pub const RAISED: &str = "a device in need is heard";
/// When SYNC has returned, completions that were over before it have been signalled.
pub const PASSED_ON: &str = "SYNC passes completions on";

impl State {
    fn rests(&self) -> bool {
        self.guest == Guest::Idle
            && !self.told
            && !self.overflow
            && !self.posting
            && self.work == Work::Idle
            && !self.signalled
            && matches!(self.sync, Sync::Idle | Sync::Done)
    }

    fn assert_line(&mut self) {
        let was = std::mem::replace(&mut self.line, true);
        self.posting |= !was;
    }

    fn signal(&mut self) {
        (self.signalled, self.unsignalled, self.due) = (true, false, false);
    }

    fn queue_work(&mut self) {
        match self.work {
            Work::Idle => self.work = Work::Queued,
            Work::Queued => {}
            Work::Signal | Work::Take => self.again = true,
        }
    }

    fn work_ends(&mut self) {
        let again = std::mem::take(&mut self.again);
        self.work = if again { Work::Queued } else { Work::Idle };
    }
}

impl Resample {
    fn has(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn guest(&self, s: &mut State, serves: bool) -> Option<()> {
        let first = self.has(Broken::MarkFirst);
        s.guest = match s.guest {
            Guest::Idle if s.pending => {
                s.pending = false;
                Guest::Claimed
            }
            Guest::Idle => return None,
            Guest::Claimed => {
                s.wants &= !serves;
                if first { Guest::Mark } else { Guest::Lower }
            }
            Guest::Lower => {
                s.line = false;
                Guest::Mark
            }
            Guest::Mark => {
                let was = std::mem::replace(&mut s.outstanding, true);
                s.unsignalled = true;
                s.due |= s.sync == Sync::Controller;
                match (first, was) {
                    (true, _) => {
                        s.told |= !was;
                        Guest::LowerLate
                    }
                    (false, false) => Guest::Notify,
                    (false, true) => Guest::Idle,
                }
            }
            Guest::Notify => {
                s.told = true;
                Guest::Idle
            }
            Guest::LowerLate => {
                s.line = false;
                Guest::Idle
            }
        };
        Some(())
    }

    fn work(&self, s: &mut State) -> Option<()> {
        match s.work {
            Work::Idle => return None,
            Work::Queued if self.has(Broken::SignalFirst) => {
                if s.outstanding {
                    s.signal();
                }
                s.work = Work::Take;
            }
            Work::Queued => {
                if std::mem::take(&mut s.outstanding) {
                    s.work = Work::Signal;
                } else {
                    s.work_ends();
                }
            }
            Work::Signal => {
                s.signal();
                s.work_ends();
            }
            Work::Take => {
                s.outstanding = false;
                s.work_ends();
            }
        }
        Some(())
    }

    fn sync(&self, s: &mut State) -> Option<()> {
        let under_way = !matches!(s.guest, Guest::Idle | Guest::Claimed);
        s.sync = match s.sync {
            Sync::Idle | Sync::Done => {
                if s.syncs == 0 {
                    return None;
                }
                s.syncs -= 1;
                // The guest has been stopped: operations that it has begun count.
                s.due = s.unsignalled || matches!(s.guest, Guest::Lower | Guest::Mark);
                Sync::Controller
            }
            Sync::Controller if under_way && !self.has(Broken::SyncWithoutController) => {
                return None;
            }
            Sync::Controller if self.has(Broken::SyncWithoutLook) => Sync::Flush,
            Sync::Controller => Sync::Look,
            Sync::Look => {
                if std::mem::take(&mut s.outstanding) {
                    Sync::Signal
                } else {
                    Sync::Flush
                }
            }
            Sync::Signal => {
                s.signal();
                Sync::Flush
            }
            Sync::Flush if s.work != Work::Idle && !self.has(Broken::SyncWithoutFlush) => {
                return None;
            }
            Sync::Flush => Sync::Done,
        };
        Some(())
    }
}

impl Model for Resample {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            wants: false,
            line: false,
            pending: false,
            outstanding: false,
            posting: false,
            guest: Guest::Idle,
            told: false,
            overflow: false,
            work: Work::Idle,
            again: false,
            signalled: false,
            sync: Sync::Idle,
            unsignalled: false,
            due: false,
            rises: self.rises,
            syncs: self.syncs,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Rise,
            Action::Post,
            Action::Guest,
            Action::Serve,
            Action::Overflow,
            Action::Fetch,
            Action::Scan,
            Action::Work,
            Action::Device,
            Action::Sync,
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Rise if s.rises > 0 && !s.wants && !s.posting => {
                s.rises -= 1;
                s.wants = true;
                s.assert_line();
            }
            Action::Post if s.posting => (s.posting, s.pending) = (false, true),
            Action::Guest => self.guest(&mut s, false)?,
            Action::Serve if s.guest == Guest::Claimed && s.wants => self.guest(&mut s, true)?,
            Action::Overflow if s.guest == Guest::Notify => {
                (s.overflow, s.guest) = (true, Guest::Idle);
            }
            Action::Fetch if s.told => {
                s.told = false;
                s.queue_work();
            }
            Action::Scan if s.overflow => {
                s.overflow = false;
                if !self.has(Broken::OverflowForgotten) {
                    s.queue_work();
                }
            }
            Action::Work => self.work(&mut s)?,
            Action::Device if s.signalled && !s.posting => {
                s.signalled = false;
                if s.wants {
                    s.assert_line();
                }
            }
            Action::Sync => self.sync(&mut s)?,
            _ => return None,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RAISED, |_, s: &State| !s.rests() || !s.wants || s.pending),
            Property::always(PASSED_ON, |_, s: &State| s.sync != Sync::Done || !s.due),
            Property::sometimes("SYNC waits for the work", |_, s: &State| {
                s.sync == Sync::Flush && s.work == Work::Signal
            }),
            Property::sometimes("a completion overflows", |_, s: &State| s.overflow),
            Property::sometimes("a signal asserts the line again", |_, s: &State| {
                s.posting && s.rises == 0 && s.guest == Guest::Idle && s.line
            }),
        ]
    }
}
