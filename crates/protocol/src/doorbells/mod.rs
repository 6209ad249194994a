//! A doorbell (HA-IOV, Xvei) and its end: stores of a guest that post an event, the interrupt of
//! that event on two harts, and the thread that takes the doorbell away.
//!
//! ```text
//! store:    leaf and doorbell page, perhaps as the hart remembers them --> post, or exit
//! post:     P and what to do about it in one operation on the entry --> queue of the hart
//! hart:     hveiclaim --> the event of that number --> P = 0 --> eventfd
//! others:   where threads may run, move away from a guest, throttle, look at all events, CPU off
//!           and on, or asleep and awake
//! removal:  bus, doorbell, HFENCE.GVMA, SYNC, entry, eventfd; see `removal`
//! ```
//!
//! Each step is one atomic step of the specification (chapter "Virtual events") or of
//! `arch/riscv/kvm/vei.c`, `vei_event.c` and `vei_bell.c`, or of KVM's `ioeventfd` and G-stage.
//!
//! | file | subject |
//! |---|---|
//! | `broken` | rules that are broken on purpose |
//! | `hardware` | stores, posts, queues |
//! | `host` | the event, and who moves, masks and posts it again |
//! | `removal` | how a doorbell goes away |
//! | `sleep` | how a hart falls asleep that nothing names, and wakes up |

mod broken;
mod hardware;
mod host;
mod removal;
mod sleep;

use stateright::{Model, Property};

pub use broken::Broken;
pub use hardware::{Entry, Old, Store, Uses};
pub use host::{At, Mover, Plug, Timer};
pub use removal::{Step, Way};
pub use sleep::{Naming, Sleep};

/// Harts.
const HARTS: usize = 2;
/// Stores of guests under way.
const STORES: usize = 2;
/// Entries of a queue.
const ENTRIES: u8 = 2;

/// A hart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hart {
    at: At,
    /// What it may know of the doorbell's past.
    old: Old,
    /// It executes `HFENCE.GVMA` before it enters the guest.
    flush: bool,
    /// Its queue is enabled.
    open: bool,
    /// Times that the event is in its queue.
    queue: u8,
    /// Something has been dropped.
    overflow: bool,
}

/// What is somebody else's by now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Gone {
    /// The ioeventfd is on no bus.
    bus: bool,
    /// Who finds it leaves it alone.
    live: bool,
    /// Nobody finds it, by its number or by a look at all events.
    registry: bool,
    entry: bool,
    /// What is kept of the event.
    memory: bool,
    page: bool,
    eventfd: bool,
    /// The table with all entries.
    table: bool,
    /// No vCPU is left.
    guests: bool,
}

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    stores: [Store; STORES],
    stores_left: u8,
    moves_left: u8,
    sleeps_left: u8,
    /// A post by the host (`hgenvei`).
    repost: Store,
    harts: [Hart; HARTS],
    entry: Entry,
    /// The G-stage has a leaf of type `DOORBELL`.
    leaf: bool,
    /// `V` of the doorbell.
    doorbell: bool,
    timer: Timer,
    mover: Mover,
    plug: Plug,
    sleep: Sleep,
    /// A look at all events has been asked for.
    scan: bool,
    /// It has found this event, and has its lock.
    scanning: bool,
    /// Steps of the removal that are done; `None` before it begins.
    removal: Option<u8>,
    gone: Gone,
    /// A post has not been followed by a signal.
    owed: bool,
    /// Something was used that is gone.
    used: bool,
    /// A doorbell answered after its removal had returned.
    late: bool,
    /// Something has been posted that no handler has taken note of.
    posted: bool,
    /// A removal signalled, and nothing had been posted.
    idle_signal: bool,
}

/// An atomic step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The guest of a hart stores to the doorbell.
    Store(usize, Uses),
    /// Next step of a store.
    Advance(usize),
    /// Next step of a post by the host.
    AdvanceRepost,
    /// Host to guest.
    Enter(usize),
    /// Guest to host.
    Exit(usize),
    /// An interrupt that makes the hart leave the guest for a fence.
    Kick(usize),
    /// Interrupt 25: the hart reads `hveiclaim`.
    Take(usize),
    /// Next step of the interrupt's handler.
    Handle(usize),
    /// The handler names a hart that runs no guest.
    MoveAway(usize),
    /// The handler masks the event until the next tick.
    Throttle(usize),
    /// Next step of the tick.
    Timer,
    /// The event is to be told to this hart.
    Move(usize),
    /// Next step of that.
    Mover,
    /// Next step of a look at all events.
    Scan,
    /// Hart 1 begins to go off line.
    Unplug,
    /// Hart 1 comes back.
    Plug,
    /// Next step of either.
    PlugStep,
    /// Hart 1 begins to fall asleep.
    Sleep,
    /// Something else than an event wakes it up.
    Wake,
    /// Next step of either.
    SleepStep,
    /// The removal begins.
    Remove,
    /// Its next step.
    Removal,
}

/// The model.
pub struct Doorbells {
    /// How the doorbell goes away.
    pub way: Way,
    /// The rule that is broken.
    pub broken: Option<Broken>,
    /// Stores of guests in all.
    pub stores: u8,
    /// Times in all that the event is moved or throttled, or hart 1 goes off line.
    pub moves: u8,
    /// Times in all that hart 1 falls asleep.
    pub sleeps: u8,
    steps: Vec<Step>,
}

/// What is posted is signalled in the end, whichever hart is told.
pub const SIGNALLED: &str = "where nothing is left to do, all that was posted has been signalled";
/// A removal leaves nothing behind.
pub const SIGNALLED_BEFORE: &str =
    "when the removal has returned, all that was posted has been signalled";
/// Nothing that is freed is used.
pub const FORGOTTEN: &str = "nothing is used that belongs to somebody else";
/// A removed doorbell does not answer.
pub const EXITS: &str = "when the removal has returned, stores exit";
/// The throttle works.
pub const QUIET: &str = "an event that waits for the tick is masked";
/// A removal is not heard of, if there was nothing to hear.
pub const SILENT: &str = "a removal signals only what has been posted";

impl Doorbells {
    /// A model of all that can happen.
    #[must_use]
    pub fn new(way: Way, broken: Option<Broken>) -> Self {
        Self {
            way,
            broken,
            stores: 2,
            moves: 1,
            sleeps: 0,
            steps: removal::steps(way, broken),
        }
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// What hardware and host go on with by themselves.
    fn progress(actions: &mut Vec<Action>) {
        actions.extend((0..STORES).map(Action::Advance));
        for h in 0..HARTS {
            actions.extend([Action::Kick(h), Action::Take(h), Action::Handle(h)]);
        }
        actions.extend([
            Action::AdvanceRepost,
            Action::Timer,
            Action::Mover,
            Action::Scan,
            Action::PlugStep,
            Action::SleepStep,
            Action::Removal,
        ]);
    }

    fn environment(actions: &mut Vec<Action>) {
        for h in 0..HARTS {
            use Uses::{Exit, Memory, Number, OldLeaf, OldPage};
            let uses = [Memory, OldLeaf, OldPage, Exit, Number];
            actions.extend(uses.map(|uses| Action::Store(h, uses)));
            actions.extend([Action::Enter(h), Action::Exit(h)]);
            actions.extend([Action::MoveAway(h), Action::Throttle(h), Action::Move(h)]);
        }
        actions.extend([Action::Unplug, Action::Plug, Action::Remove]);
        actions.extend([Action::Sleep, Action::Wake]);
    }

    /// Counts what happens a few times only.
    fn count(s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Store(..) => s.stores_left = s.stores_left.checked_sub(1)?,
            Action::MoveAway(_) | Action::Throttle(_) | Action::Move(_) | Action::Unplug => {
                s.moves_left = s.moves_left.checked_sub(1)?;
            }
            Action::Sleep => s.sleeps_left = s.sleeps_left.checked_sub(1)?,
            _ => {}
        }
        Some(())
    }

    /// Nothing more happens without the environment.
    fn rests(&self, s: &State) -> bool {
        let mut actions = Vec::new();
        Self::progress(&mut actions);
        actions.into_iter().all(|a| self.next_state(s, a).is_none())
    }

    fn returned(&self, s: &State) -> bool {
        // What is freed under RCU is not waited for; the VM may end long after that.
        let end = self.steps.iter().position(|step| *step == Step::Memory);
        let end = end.unwrap_or(self.steps.len());
        s.removal.is_some_and(|done| usize::from(done) >= end)
    }
}

impl State {
    fn use_entry(&mut self) {
        self.used |= self.gone.entry;
    }

    fn signal(&mut self) {
        self.used |= self.gone.eventfd;
        self.owed = false;
    }
}

impl Model for Doorbells {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let hart = Hart {
            at: At::Host,
            old: Old::default(),
            flush: false,
            open: true,
            queue: 0,
            overflow: false,
        };
        let state = State {
            stores: [Store::Free; STORES],
            stores_left: self.stores,
            moves_left: self.moves,
            sleeps_left: self.sleeps,
            repost: Store::Free,
            harts: [hart; HARTS],
            entry: Entry::new(),
            leaf: true,
            doorbell: true,
            timer: Timer::Off,
            mover: Mover::Idle,
            plug: Plug::Up,
            sleep: Sleep::named(false),
            scan: false,
            scanning: false,
            removal: None,
            gone: Gone::default(),
            owed: false,
            used: false,
            late: false,
            posted: false,
            idle_signal: false,
        };
        let mut told_elsewhere = state;
        told_elsewhere.entry.hart = 1;
        told_elsewhere.sleep = Sleep::named(true);
        let mut alone = state;
        (alone.plug, alone.harts[1].at, alone.harts[1].open) = (Plug::Down, At::Off, false);
        vec![state, told_elsewhere, alone]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        Self::progress(actions);
        Self::environment(actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        Self::count(&mut s, action)?;
        match action {
            Action::Store(h, uses) => self.store(&mut s, h, uses)?,
            Action::Advance(i) => self.advance(&mut s, i)?,
            Action::AdvanceRepost => self.advance_repost(&mut s)?,
            Action::Enter(h) => self.enter(&mut s, h)?,
            Action::Exit(h) => Self::exit(&mut s, h, false)?,
            Action::Kick(h) => Self::exit(&mut s, h, true)?,
            Action::Take(h) => Self::take(&mut s, h)?,
            Action::Handle(h) => self.handle(&mut s, h)?,
            Action::MoveAway(h) => self.move_away(&mut s, h)?,
            Action::Throttle(h) => self.throttle(&mut s, h)?,
            Action::Timer => self.tick(&mut s)?,
            Action::Move(h) => self.begin_move(&mut s, h)?,
            Action::Mover => self.go_on_moving(&mut s)?,
            Action::Scan => self.scan(&mut s)?,
            Action::Unplug => Self::unplug(&mut s)?,
            Action::Plug => Self::plug(&mut s)?,
            Action::PlugStep => self.go_on_plugging(&mut s)?,
            Action::Sleep => Self::fall_asleep(&mut s)?,
            Action::Wake => Self::wake(&mut s)?,
            Action::SleepStep => self.go_on_sleeping(&mut s)?,
            Action::Remove if s.removal.is_none() => s.removal = Some(0),
            Action::Remove => return None,
            Action::Removal => self.go_on_removing(&mut s)?,
        }
        // Stores have no identity.
        s.stores.sort_unstable();
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(SIGNALLED, |m: &Self, s: &State| !s.owed || !m.rests(s)),
            Property::always(SIGNALLED_BEFORE, |m: &Self, s: &State| {
                // Memory hides the doorbell, but its event stays.
                !s.owed || m.way == Way::Memory || !m.returned(s)
            }),
            Property::always(FORGOTTEN, |_, s: &State| !s.used),
            Property::always(EXITS, |_, s: &State| !s.late),
            Property::always(QUIET, |_, s: &State| {
                s.timer != Timer::Armed || s.entry.m || s.gone.entry
            }),
            Property::always(SILENT, |_, s: &State| !s.idle_signal),
            Property::sometimes("the removal returns", |m: &Self, s: &State| m.returned(s)),
            Property::sometimes("a store exits", |_, s: &State| {
                s.stores.contains(&Store::Exit)
            }),
            Property::sometimes(
                "a handler runs while the removal goes on",
                |_, s: &State| s.removal.is_some() && s.harts.iter().any(|h| h.at == At::Signal),
            ),
            Property::sometimes("a queue overflows", |_, s: &State| {
                s.harts.iter().any(|h| h.overflow)
            }),
            Property::sometimes("two harts take the event", |_, s: &State| {
                let taken = |h: &Hart| matches!(h.at, At::Claimed | At::Found | At::Signal);
                s.harts.iter().all(taken)
            }),
            Property::sometimes("a hart handles what another is told of", |_, s: &State| {
                s.harts[0].at == At::Signal && s.entry.hart == 1
            }),
            Property::sometimes("an event waits for the tick", |_, s: &State| {
                s.timer == Timer::Armed && s.entry.p
            }),
            Property::sometimes("an event waits", |_, s: &State| {
                s.owed && !s.harts[usize::from(s.entry.hart)].open
            }),
        ];
        if self.sleeps > 0 {
            properties.extend([
                Property::sometimes("a hart sleeps", |_, s: &State| s.sleep.is_deaf()),
                Property::sometimes("a hart sleeps that is named", |_, s: &State| {
                    s.sleep.is_deaf() && s.entry.hart == 1
                }),
            ]);
        }
        properties
    }
}
