//! A grant against the end of its domain, whose number becomes that of another VM's.
//!
//! ```text
//! thread:  switched in (the saved grant, then hgrant), writes ugenvsei, switched out
//! post:    reads the entry of the domain, then posts to the file that it names
//! host:    forgets the saved grant, takes it from the hart, V = 0, SYNC, free; reuse of the number
//! ```

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The register of the hart keeps the grant until the thread is switched.
    RegisterKept,
    /// The grant that is saved with the thread stays.
    SavedKept,
    /// The host does not wait for a switch that has read the saved grant.
    SwitchNotAwaited,
    /// The memory is freed before posts that use the old entry have completed.
    FreeWithoutSync,
}

/// Whose domain it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Owner {
    /// The VM for which the thread has its grant.
    Former,
    Nobody,
    /// Another VM.
    Latter,
}

/// The thread that has the grant, on a hart or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    Away,
    /// Being switched in, interrupts disabled; with what was saved.
    SwitchingIn(bool),
    Running,
}

/// End of the domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum End {
    Alive,
    Forget,
    TakeAway,
    Invalidate,
    Sync,
    Free,
    Reuse,
    Over,
}

/// The whole state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    entry: Owner,
    thread: Thread,
    /// The grant that is saved with the thread.
    saved: bool,
    /// `hgrant` of the hart on which the thread runs.
    register: bool,
    /// Posts that have read the entry; each may be carried out later.
    posts: [Option<Owner>; 2],
    freed: bool,
    end: End,
    /// A post went into freed memory, or to another VM.
    wrong: bool,
    posted: bool,
}

/// One atomic action.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// The scheduler switches the thread in, or out.
    Switch,
    /// The thread writes `ugenvsei`.
    Write,
    /// A post is carried out.
    Post(usize),
    /// Next step of the end.
    End,
}

/// The model.
pub struct Grants {
    /// Rule that is broken.
    pub broken: Option<Broken>,
}

/// What a grant permits ends with the domain for which it was given.
pub const CONFINED: &str = "a grant ends with its domain";

impl Grants {
    fn has(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn end(&self, s: &mut State) -> Option<()> {
        let former = s.posts.contains(&Some(Owner::Former));
        s.end = match s.end {
            End::Alive => End::Forget,
            End::Forget => {
                s.saved &= self.has(Broken::SavedKept);
                End::TakeAway
            }
            // An interrupt to the hart: it comes when interrupts are enabled.
            End::TakeAway => {
                let switching = matches!(s.thread, Thread::SwitchingIn(_));
                if switching && !self.has(Broken::SwitchNotAwaited) {
                    return None;
                }
                s.register &= self.has(Broken::RegisterKept);
                End::Invalidate
            }
            End::Invalidate => {
                s.entry = Owner::Nobody;
                End::Sync
            }
            End::Sync if former && !self.has(Broken::FreeWithoutSync) => return None,
            End::Sync => End::Free,
            End::Free => {
                s.freed = true;
                End::Reuse
            }
            End::Reuse => {
                s.entry = Owner::Latter;
                End::Over
            }
            End::Over => return None,
        };
        Some(())
    }
}

impl Model for Grants {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            entry: Owner::Former,
            thread: Thread::Away,
            saved: true,
            register: false,
            posts: [None; 2],
            freed: false,
            end: End::Alive,
            wrong: false,
            posted: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Switch,
            Action::Write,
            Action::Post(0),
            Action::Post(1),
            Action::End,
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Switch => match s.thread {
                Thread::Away => s.thread = Thread::SwitchingIn(s.saved),
                Thread::SwitchingIn(grant) => (s.thread, s.register) = (Thread::Running, grant),
                Thread::Running => (s.thread, s.register) = (Thread::Away, false),
            },
            Action::Write => {
                let free = s.posts.iter().position(Option::is_none)?;
                let may = s.thread == Thread::Running && s.register;
                // A domain that is not valid does not exist.
                if !may || s.entry == Owner::Nobody {
                    return None;
                }
                s.posts[free] = Some(s.entry);
            }
            Action::Post(i) => {
                let target = s.posts[i].take()?;
                s.wrong |= target == Owner::Latter || s.freed;
                s.posted = true;
            }
            Action::End => self.end(&mut s)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(CONFINED, |_, s: &State| !s.wrong),
            Property::sometimes("a post goes to its domain", |_, s: &State| s.posted),
            Property::sometimes("the number is used again", |_, s: &State| {
                s.end == End::Over
            }),
            Property::sometimes("the thread runs when its grant is taken", |_, s: &State| {
                s.end == End::TakeAway && s.register
            }),
        ]
    }
}
