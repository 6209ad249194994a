//! Real-time boosts of a vCPU that waits for a hart: the thread in `KVM_RUN`, its proxy, whose
//! priority it inherits, and the kthread that begins boosts.
//!
//! ```text
//! thread:  take the mutex, run the guest, be preempted, end the boost, unlock, return
//! worker:  take the vCPU from its queue, look at it, begin the boost, raise the proxy
//! proxy:   wait for the mutex, let go of it, sleep
//! ```
//!
//! Each function of an [`Action`] is one atomic step of `arch/riscv/kvm/vcpu_boost.c` or
//! `vcpu_boost_rt.c`. The decision of the kernel's scheduler is a function of the state:
//! `State::real_time`.

use stateright::{Model, Property};

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The policy of the thread itself is changed, and changed back when the boost ends.
    OwnPolicy,
    /// A boost begins without a check that the thread is still in `KVM_RUN`.
    NeverClosed,
    /// The thread leaves `KVM_RUN` with the mutex.
    NoUnlock,
    /// The proxy is raised after the lock that orders begin and end has been given up.
    RaisedWithoutLock,
    /// A thread that gets a hart does not check whether it has a boost.
    NoLookAtLoad,
    /// A boost wakes its proxy only if that waits already.
    NotWoken,
    /// `KVM_RUN` begins with boosts, though the proxy is about to wait because of the last one's.
    NotIdle,
}

/// State of the vCPU's thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Thread {
    /// In user space.
    Outside,
    /// In the run loop or the guest.
    Inside,
    /// The boost has ended, and none begins any more.
    Closed,
    /// Before it unlocks.
    Unlock,
    /// Before the scheduler is notified of the end of the vCPU: the vCPU may still be preempted.
    Put,
}

/// Whether the thread has a hart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// On a hart.
    Hart,
    /// Waits for one.
    Queue,
    /// Has got one, before it looks whether it has a boost.
    Load,
}

/// What the kthread of a hart does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Worker {
    /// Sleeps.
    Idle,
    /// Has taken the vCPU from its queue.
    Taken,
    /// Has the lock and `since` is set: before it looks whether the vCPU still waits.
    Begun,
    /// Before it raises the proxy.
    Raise {
        /// It has the lock.
        locked: bool,
    },
}

/// What the proxy does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proxy {
    /// Before it looks whether it is idle.
    Check,
    /// Sleeps.
    Asleep,
    /// Before it asks for the mutex.
    Lock,
    /// Waits for the mutex.
    Waits,
    /// Has got the mutex.
    Owns,
    /// Before it lets go of the mutex.
    Unlock,
}

/// Who owns the mutex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// The thread of the vCPU.
    Thread,
    /// The proxy.
    Proxy,
}

/// A state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    thread: Thread,
    place: Place,
    /// `vcpu->preempted`.
    preempted: bool,
    open: bool,
    /// There is a boost.
    since: bool,
    queued: bool,
    worker: Worker,
    proxy: Proxy,
    idle: bool,
    /// The proxy is a real-time thread.
    proxy_fifo: bool,
    /// The thread has been made one itself.
    own_fifo: bool,
    owner: Owner,
    timer: bool,
    /// `KVM_REQ_BOOST`.
    request: bool,
}

/// An atomic step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// `KVM_RUN`.
    Enter,
    /// The run loop, about to give the hart away: takes the mutex if it could not before.
    Again,
    /// The same with something to take: the thread boosts itself.
    Stay,
    /// The scheduler takes the hart.
    Preempt,
    /// It gives one.
    Load,
    /// An interrupt for the vCPU.
    Interrupt,
    /// Next step of the worker.
    Worker,
    /// Next step of the proxy.
    Proxy,
    /// The slice of a boost is over.
    Timer,
    /// The run loop handles the request: the boost ends.
    Slice,
    /// The same, and something is still pending.
    SliceGoesOn,
    /// WFI.
    Block,
    /// Next step on the way out of `KVM_RUN`.
    Leave,
}

/// The model.
pub struct Boosts {
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// Nothing of a boost is left outside of `KVM_RUN`.
pub const ENDED: &str = "outside of KVM_RUN the thread has its own priority and no boost";
/// A child of the thread is born without it.
pub const NOT_INHERITED: &str = "the policy of the thread is its own at all times";
/// No priority without a boost, which is what the budget counts.
pub const PAID: &str = "who has the priority of a boost pays for it";
/// Each boost has an end.
pub const BOUNDED: &str = "whoever runs in a boost has a timer that ends it";
/// Each boost has an effect.
pub const EFFECTIVE: &str = "a boost that has begun has woken its proxy";

impl State {
    /// Does the thread compete as a real-time one?
    fn real_time(&self) -> bool {
        self.own_fifo
            || self.owner == Owner::Thread && self.proxy == Proxy::Waits && self.proxy_fifo
    }

    fn runs(&self) -> bool {
        self.place == Place::Hart
    }

    fn worker_has_lock(&self) -> bool {
        matches!(self.worker, Worker::Begun | Worker::Raise { locked: true })
    }

    /// The run loop can do something that takes the lock.
    fn may_lock(&self) -> bool {
        self.runs() && !self.worker_has_lock()
    }

    fn in_loop(&self) -> bool {
        self.thread == Thread::Inside && self.may_lock()
    }
}

impl Boosts {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn lock_mutex(&self, s: &mut State) {
        // `rt_mutex_trylock()` passes by nobody with at least the caller's priority.
        let free = s.owner == Owner::Nobody && s.proxy != Proxy::Waits;
        if free && (s.idle || self.is(Broken::NotIdle)) {
            s.owner = Owner::Thread;
            s.open = true;
        }
    }

    fn raise(&self, s: &mut State) {
        if self.is(Broken::OwnPolicy) {
            s.own_fifo = true;
            return;
        }
        s.proxy_fifo = true;
        let wakes = std::mem::take(&mut s.idle) && !self.is(Broken::NotWoken);
        if wakes && s.proxy == Proxy::Asleep {
            s.proxy = Proxy::Lock;
        }
    }

    fn end(&self, s: &mut State) {
        s.timer = false;
        if !std::mem::take(&mut s.since) {
            return;
        }
        if self.is(Broken::OwnPolicy) {
            s.own_fifo = false;
        } else {
            s.proxy_fifo = false;
        }
    }

    fn leave(&self, s: &mut State) -> Option<()> {
        if !s.runs() {
            return None;
        }
        s.thread = match s.thread {
            Thread::Inside if !s.open => Thread::Put,
            Thread::Inside => {
                if s.worker_has_lock() {
                    return None;
                }
                s.open = false;
                self.end(s);
                Thread::Closed
            }
            Thread::Closed => {
                s.proxy_fifo |= !s.idle;
                if self.is(Broken::NoUnlock) {
                    Thread::Put
                } else {
                    Thread::Unlock
                }
            }
            Thread::Unlock => {
                s.owner = Owner::Nobody;
                Thread::Put
            }
            Thread::Put => Thread::Outside,
            Thread::Outside => return None,
        };
        Some(())
    }

    fn step_worker(&self, s: &mut State) -> Option<()> {
        s.worker = match s.worker {
            Worker::Idle if s.queued => {
                s.queued = false;
                Worker::Taken
            }
            Worker::Idle => return None,
            Worker::Taken => {
                // OwnPolicy is how it was: a look before the lock, and none under it.
                let old = self.is(Broken::OwnPolicy);
                let open = s.open || old || self.is(Broken::NeverClosed);
                if s.since || !open || !(s.preempted || old) {
                    Worker::Idle
                } else {
                    s.since = true;
                    Worker::Begun
                }
            }
            Worker::Begun => {
                s.timer |= !s.preempted;
                Worker::Raise {
                    locked: !self.is(Broken::RaisedWithoutLock),
                }
            }
            Worker::Raise { .. } => {
                self.raise(s);
                Worker::Idle
            }
        };
        Some(())
    }

    fn step_proxy(&self, s: &mut State) -> Option<()> {
        s.proxy = match s.proxy {
            Proxy::Check if s.idle => Proxy::Asleep,
            Proxy::Check => Proxy::Lock,
            Proxy::Lock if s.owner != Owner::Nobody => Proxy::Waits,
            Proxy::Lock | Proxy::Waits if s.owner == Owner::Nobody => {
                s.owner = Owner::Proxy;
                Proxy::Owns
            }
            Proxy::Owns => {
                s.idle = true;
                Proxy::Unlock
            }
            Proxy::Unlock => {
                s.owner = Owner::Nobody;
                Proxy::Check
            }
            Proxy::Asleep | Proxy::Lock | Proxy::Waits => return None,
        };
        Some(())
    }

    fn step_loop(&self, s: &mut State, action: Action) -> Option<()> {
        if !s.in_loop() {
            return None;
        }
        match action {
            Action::Again if !s.open => self.lock_mutex(s),
            Action::Stay if s.open && !s.since => {
                s.since = true;
                s.timer = true;
                self.raise(s);
            }
            Action::Slice if s.request => {
                s.request = false;
                self.end(s);
            }
            Action::SliceGoesOn if s.request => {
                s.request = false;
                s.timer = s.since;
            }
            Action::Block if s.since => self.end(s),
            _ => return None,
        }
        Some(())
    }

    fn schedule(&self, s: &mut State, action: Action) -> Option<()> {
        match (action, s.place) {
            (Action::Preempt, Place::Hart) if s.thread != Thread::Outside => {
                s.place = Place::Queue;
                s.preempted = true;
            }
            (Action::Load, Place::Queue) => {
                s.place = Place::Load;
                s.preempted = false;
            }
            (Action::Load, Place::Load) => {
                s.place = Place::Hart;
                s.timer |= s.since && !self.is(Broken::NoLookAtLoad);
            }
            _ => return None,
        }
        Some(())
    }
}

impl Model for Boosts {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            thread: Thread::Outside,
            place: Place::Hart,
            preempted: false,
            open: false,
            since: false,
            queued: false,
            worker: Worker::Idle,
            proxy: Proxy::Asleep,
            idle: true,
            proxy_fifo: true,
            own_fifo: false,
            owner: Owner::Nobody,
            timer: false,
            request: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Enter,
            Action::Again,
            Action::Stay,
            Action::Preempt,
            Action::Load,
            Action::Interrupt,
            Action::Worker,
            Action::Proxy,
            Action::Timer,
            Action::Slice,
            Action::SliceGoesOn,
            Action::Block,
            Action::Leave,
        ]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut s = *last;
        match action {
            Action::Enter if s.thread == Thread::Outside => {
                s.thread = Thread::Inside;
                self.lock_mutex(&mut s);
            }
            Action::Enter => return None,
            Action::Preempt | Action::Load => self.schedule(&mut s, action)?,
            Action::Interrupt if s.preempted && !s.since && !s.queued => s.queued = true,
            Action::Interrupt => return None,
            Action::Worker => self.step_worker(&mut s)?,
            Action::Proxy => self.step_proxy(&mut s)?,
            Action::Timer if s.timer => (s.timer, s.request) = (false, true),
            Action::Timer => return None,
            Action::Leave => self.leave(&mut s)?,
            other => self.step_loop(&mut s, other)?,
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENDED, |_, s: &State| {
                let outside = matches!(s.thread, Thread::Put | Thread::Outside);
                !outside || !s.real_time() && !s.since
            }),
            Property::always(NOT_INHERITED, |_, s: &State| !s.own_fifo),
            Property::always(PAID, |_, s: &State| {
                !s.real_time() || s.since || s.thread == Thread::Unlock
            }),
            Property::always(BOUNDED, |_, s: &State| {
                // Who has the lock has not yet looked, and the end waits for it.
                !(s.since && s.in_loop()) || s.timer || s.request
            }),
            Property::always(EFFECTIVE, |_, s: &State| {
                !s.since || s.worker_has_lock() || s.proxy != Proxy::Asleep
            }),
            Property::sometimes("a vCPU that waits is boosted", |_, s: &State| {
                s.place == Place::Queue && s.real_time()
            }),
            Property::sometimes("a boost ends in the run loop", |_, s: &State| {
                s.thread == Thread::Inside && s.proxy == Proxy::Waits && !s.since
            }),
            Property::sometimes("KVM_RUN begins without the mutex", |_, s: &State| {
                s.thread == Thread::Inside && !s.open
            }),
        ]
    }
}
