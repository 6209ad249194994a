//! A user context (HA-IOV, Xhcs): one token, harts that a handler can interrupt, and the thread of
//! the process.
//!
//! ```text
//! post:    PENDING, then N and the queue of a hart
//! hart:    guest --> handler --> N = 0 --> look at PENDING --> guest
//! host:    reads its queue: the thread's, or later, when it enters a guest
//! thread:  open, wait, run the handler, give N back, close, free
//! ```
//!
//! Each function of an [`Action`] is one atomic step of the specification (chapter "User contexts")
//! or of `arch/riscv/kvm/uctx.c`.

use stateright::{Model, Property};

/// Harts.
const HARTS: usize = 2;
/// Posts in flight.
const POSTS: usize = 2;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A post sets `N` before `PENDING` (HCS-12).
    TokenFirst,
    /// Nobody looks at `PENDING` after `N` has become 0 (HCS-10).
    NoLook,
    /// The look comes before `N` becomes 0 (HCS-12).
    LookFirst,
    /// The token does not go to the thread with the handler (HCS-9).
    HandOverWithoutToken,
    /// The thread leaves KVM while its handler runs on a hart.
    CloseWithoutInterrupt,
    /// Queues are not emptied before the context is freed (HCS-13).
    FreeWithoutDrain,
}

/// A post in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Post {
    /// There is none.
    Free,
    /// Before it sets `PENDING`.
    Pend,
    /// Before it looks at the control word.
    Token,
    /// It has set `N`.
    Queue,
}

/// What a hart does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hart {
    /// HS-mode, or a process.
    Host,
    /// A guest that can be interrupted.
    Guest,
    /// The handler, in the place of a guest.
    Handler,
    /// It has ended, or there was nothing for it: before `N` becomes 0. What was pending then.
    GiveBack(bool),
    /// Before the look at `PENDING`; what was found if that comes first.
    Look(bool),
}

/// What the thread does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Thread {
    /// In user space: no handler may run.
    Outside,
    /// In `KVM_UCTX_RUN`, about to look whether there is something to do, and to sleep if not.
    Check,
    /// Sleeps until it is woken.
    Asleep,
    /// Has the token, before it clears `PENDING`.
    Begin,
    /// Runs the handler.
    Handler,
    /// Before it gives the token back.
    GiveBack,
    /// `M` is set, before harts are interrupted.
    Closing,
    /// `V` is cleared and no post is in flight, before harts are interrupted.
    Stopping,
    /// Before queues are emptied.
    Draining,
    /// The memory of the context is somebody else's.
    Freed,
}

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pending: bool,
    n: bool,
    m: bool,
    v: bool,
    /// Hart that the control word names.
    aim: usize,
    posts: [Post; POSTS],
    /// Posts that guests may still begin.
    left: u8,
    /// Times that the context is in the queue of a hart.
    queue: [u8; HARTS],
    harts: [Hart; HARTS],
    /// The token waits on this CPU for a guest.
    later: [bool; HARTS],
    /// The thread has the token.
    owned: bool,
    /// The thread has registers of a handler that has begun.
    started: bool,
    thread: Thread,
    handled: [bool; 3],
}

/// An atomic step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A guest posts.
    Post(usize),
    /// Next step of a post.
    Advance(usize),
    /// Host to guest or back.
    Switch(usize),
    /// The hart takes the context from its queue.
    Take(usize),
    /// Next step of the hart.
    Step(usize),
    /// The handler traps: its thread goes on with it.
    Trap(usize),
    /// The host reads its queue, in `KVM_RUN` (true) or elsewhere.
    Claim(usize, bool),
    /// No guest has been entered for a while.
    Timeout(usize),
    /// Next step of the thread.
    Thread,
    /// The thread leaves what is pending to a guest that may come.
    MakeRoom(usize),
    /// A signal to the thread.
    Close,
    /// The process closes the context.
    Free,
    /// Another hart is named.
    Aim(usize),
}

/// The model.
pub struct Contexts {
    /// The rule that is broken.
    pub broken: Option<Broken>,
    /// Posts of guests in all.
    pub posts: u8,
}

/// The handler runs in one place.
pub const ONE_RUNNER: &str = "the handler runs in one place at a time";
/// `N` is 1 exactly while somebody has the token.
pub const ONE_TOKEN: &str = "there is one token";
/// Who sleeps is woken for what is pending.
pub const HANDLED: &str = "whatever is pending, somebody will handle it";
/// No handler runs outside `KVM_UCTX_RUN`.
pub const QUIET: &str = "no handler runs while its thread is outside";
/// Nothing refers to a context that is freed.
pub const FORGOTTEN: &str = "nothing refers to a context that is freed";

impl State {
    /// How many have the token.
    fn holders(&self) -> usize {
        let posts = self.posts.iter().filter(|p| **p == Post::Queue).count();
        let harts = self.harts.iter();
        let harts = harts.filter(|h| matches!(h, Hart::Handler | Hart::GiveBack(_)));
        let later = self.later.iter().filter(|l| **l).count();
        let queued: u8 = self.queue.iter().sum();
        posts + harts.count() + later + usize::from(queued) + usize::from(self.owned)
    }

    fn runners(&self) -> usize {
        let harts = self.harts.iter().filter(|h| **h == Hart::Handler).count();
        harts + usize::from(self.started)
    }

    fn is_notified(&self) -> bool {
        let wanted = self.pending && self.v && !self.m && self.thread == Thread::Asleep;
        let looks = self.harts.iter().any(|h| matches!(h, Hart::Look(_)));
        !wanted || self.holders() > 0 || looks || self.posts.contains(&Post::Token)
    }

    fn wake(&mut self) {
        if self.thread == Thread::Asleep {
            self.thread = Thread::Check;
        }
    }

    fn give_to_thread(&mut self) {
        self.owned = true;
        self.wake();
    }

    /// Interrupts all harts: handlers are handed over. Not while a hart is in a step of its own.
    fn interrupt_all(&mut self) -> bool {
        let between = |h: &Hart| matches!(h, Hart::GiveBack(_) | Hart::Look(_));
        if self.harts.iter().any(between) {
            return false;
        }
        for hart in &mut self.harts {
            if *hart == Hart::Handler {
                *hart = Hart::Guest;
                self.owned = true;
                self.started = true;
            }
        }
        true
    }
}

impl Contexts {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// The operation on the control word that a post makes: whether it has got the token.
    fn take_token(s: &mut State) -> bool {
        let takes = s.v && !s.m && !s.n;
        s.n |= takes;
        takes
    }

    fn advance(&self, s: &mut State, i: usize) -> Option<()> {
        let late = self.is(Broken::TokenFirst);
        s.posts[i] = match s.posts[i] {
            Post::Free => return None,
            Post::Pend if late => {
                if Self::take_token(s) {
                    s.queue[s.aim] += 1;
                }
                Post::Token
            }
            Post::Pend => {
                s.pending = true;
                Post::Token
            }
            Post::Token if late => {
                s.pending = true;
                Post::Free
            }
            Post::Token => {
                if Self::take_token(s) {
                    Post::Queue
                } else {
                    Post::Free
                }
            }
            Post::Queue => {
                s.queue[s.aim] += 1;
                Post::Free
            }
        };
        Some(())
    }

    fn step_hart(&self, s: &mut State, h: usize) -> Option<()> {
        s.harts[h] = match s.harts[h] {
            Hart::Host | Hart::Guest => return None,
            Hart::Handler => Hart::GiveBack(s.pending),
            Hart::GiveBack(before) => {
                s.n = false;
                if self.is(Broken::NoLook) {
                    Hart::Guest
                } else {
                    Hart::Look(before)
                }
            }
            Hart::Look(before) => {
                let found = if self.is(Broken::LookFirst) {
                    before
                } else {
                    s.pending
                };
                if found && Self::take_token(s) {
                    s.queue[s.aim] += 1;
                }
                Hart::Guest
            }
        };
        Some(())
    }

    fn take(s: &mut State, h: usize) -> Option<()> {
        if s.harts[h] != Hart::Guest || s.queue[h] == 0 {
            return None;
        }
        s.queue[h] -= 1;
        s.harts[h] = if s.v && !s.m && s.pending {
            s.pending = false;
            s.handled[0] = true;
            Hart::Handler
        } else {
            Hart::GiveBack(s.pending)
        };
        Some(())
    }

    fn switch(s: &mut State, h: usize) -> Option<()> {
        s.harts[h] = match s.harts[h] {
            // What waited here is posted again: as at the end of a handler.
            Hart::Host if std::mem::take(&mut s.later[h]) => Hart::GiveBack(s.pending),
            Hart::Host => Hart::Guest,
            Hart::Guest => Hart::Host,
            _ => return None,
        };
        Some(())
    }

    fn step_thread(&self, s: &mut State) -> Option<()> {
        s.thread = match s.thread {
            Thread::Outside => {
                s.m = false;
                Thread::Check
            }
            Thread::Check if s.owned && s.started => Thread::Handler,
            Thread::Check if s.owned => Thread::Begin,
            Thread::Check if s.pending && !s.n => {
                (s.n, s.owned) = (true, true);
                Thread::Begin
            }
            Thread::Check => Thread::Asleep,
            Thread::Begin if s.pending => {
                s.pending = false;
                s.started = true;
                s.handled[1] = true;
                Thread::Handler
            }
            Thread::Begin | Thread::Handler => Thread::GiveBack,
            Thread::GiveBack => {
                (s.started, s.owned, s.n) = (false, false, false);
                Thread::Check
            }
            Thread::Closing => {
                let wanted = s.n && !s.owned && !self.is(Broken::CloseWithoutInterrupt);
                if wanted && !s.interrupt_all() {
                    return None;
                }
                Thread::Outside
            }
            Thread::Stopping => {
                if !s.interrupt_all() {
                    return None;
                }
                Thread::Draining
            }
            Thread::Draining => {
                if !self.is(Broken::FreeWithoutDrain) {
                    // Interrupts of all harts, which read their queues.
                    let between = |h: &Hart| matches!(h, Hart::GiveBack(_) | Hart::Look(_));
                    if s.harts.iter().any(between) {
                        return None;
                    }
                    s.owned |= s.holders() > 0;
                    s.queue = [0; HARTS];
                    s.later = [false; HARTS];
                }
                Thread::Freed
            }
            Thread::Asleep | Thread::Freed => return None,
        };
        Some(())
    }

    fn trap(&self, s: &mut State, h: usize) -> Option<()> {
        if s.harts[h] != Hart::Handler {
            return None;
        }
        s.harts[h] = Hart::Guest;
        s.started = true;
        s.handled[2] = true;
        s.give_to_thread();
        if self.is(Broken::HandOverWithoutToken) {
            s.n = false;
        }
        Some(())
    }

    fn claim(s: &mut State, h: usize, in_run: bool) -> Option<()> {
        if s.harts[h] != Hart::Host || s.queue[h] == 0 {
            return None;
        }
        s.queue[h] -= 1;
        if in_run {
            s.later[h] = true;
        } else {
            s.give_to_thread();
        }
        Some(())
    }

    fn host(s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Timeout(h) if s.later[h] => {
                s.later[h] = false;
                s.give_to_thread();
            }
            Action::MakeRoom(h) => {
                if s.thread != Thread::Check || s.owned || s.n || !s.pending {
                    return None;
                }
                s.n = true;
                s.later[h] = true;
            }
            Action::Close => {
                if !matches!(s.thread, Thread::Check | Thread::Asleep | Thread::Handler) {
                    return None;
                }
                s.m = true;
                s.thread = Thread::Closing;
            }
            Action::Free => {
                // Its events are taken away first, and posts under way are waited for.
                if s.thread != Thread::Outside || s.posts != [Post::Free; POSTS] {
                    return None;
                }
                (s.v, s.left) = (false, 0);
                s.thread = Thread::Stopping;
            }
            Action::Aim(h) if s.aim != h => s.aim = h,
            _ => return None,
        }
        Some(())
    }
}

impl Model for Contexts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            pending: false,
            n: false,
            m: true,
            v: true,
            aim: 0,
            posts: [Post::Free; POSTS],
            left: self.posts,
            queue: [0; HARTS],
            harts: [Hart::Host; HARTS],
            later: [false; HARTS],
            owned: false,
            started: false,
            thread: Thread::Outside,
            handled: [false; 3],
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        for i in 0..POSTS {
            actions.extend([Action::Post(i), Action::Advance(i)]);
        }
        for h in 0..HARTS {
            actions.extend([
                Action::Switch(h),
                Action::Take(h),
                Action::Step(h),
                Action::Trap(h),
                Action::Claim(h, false),
                Action::Claim(h, true),
                Action::Timeout(h),
                Action::MakeRoom(h),
                Action::Aim(h),
            ]);
        }
        actions.extend([Action::Thread, Action::Close, Action::Free]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Post(i) => {
                if s.left == 0 || s.posts[i] != Post::Free {
                    return None;
                }
                s.left -= 1;
                s.posts[i] = Post::Pend;
            }
            Action::Advance(i) => self.advance(&mut s, i)?,
            Action::Switch(h) => Self::switch(&mut s, h)?,
            Action::Take(h) => Self::take(&mut s, h)?,
            Action::Step(h) => self.step_hart(&mut s, h)?,
            Action::Trap(h) => self.trap(&mut s, h)?,
            Action::Claim(h, in_run) => Self::claim(&mut s, h, in_run)?,
            Action::Thread => self.step_thread(&mut s)?,
            other => Self::host(&mut s, other)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_RUNNER, |_, s: &State| s.runners() <= 1),
            Property::always(ONE_TOKEN, |_, s: &State| s.holders() == usize::from(s.n)),
            Property::always(HANDLED, |_, s: &State| s.is_notified()),
            Property::always(QUIET, |_, s: &State| {
                s.thread != Thread::Outside || !s.harts.contains(&Hart::Handler)
            }),
            Property::always(FORGOTTEN, |_, s: &State| {
                s.thread != Thread::Freed
                    || s.queue == [0; HARTS]
                        && s.later == [false; HARTS]
                        && s.posts == [Post::Free; POSTS]
                        && s.harts
                            .iter()
                            .all(|h| matches!(h, Hart::Host | Hart::Guest))
            }),
            Property::sometimes("a hart handles", |_, s: &State| s.handled[0]),
            Property::sometimes("the thread handles", |_, s: &State| s.handled[1]),
            Property::sometimes("a handler is handed over", |_, s: &State| s.handled[2]),
            Property::sometimes("the context is freed", |_, s: &State| {
                s.thread == Thread::Freed
            }),
        ]
    }
}
