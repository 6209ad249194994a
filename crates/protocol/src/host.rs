//! Steps of host software: the scheduler, the blocking path of KVM, interrupt handlers, hot-unplug.

use crate::config::{Mutation, OnRules};
use crate::model::Protocol;
use crate::state::{Fault, Handler, Note, Pc, RunState, Scan, Stage, State, Thread};

impl Protocol {
    /// First step of `kvm_vcpu_block`.
    pub(crate) fn block_start(&self) -> Pc {
        if self.has(Mutation::InterruptibleLate) {
            Pc::CheckBlock
        } else {
            Pc::SetInterruptible
        }
    }

    /// The scheduler puts a runnable thread on an idle hart.
    pub(crate) fn schedule_in(&self, s: &mut State, h: u8, v: u8) {
        s.vcpus[usize::from(v)].thread = Thread::Running;
        let hart = &mut s.harts[usize::from(h)];
        hart.thread = Some(v);
        // The time of the decision is not observable: one step with the first of the attach.
        self.attach(s, h, 1);
    }

    /// The thread on `hart` continues at `pc`.
    pub(crate) fn go_on(&self, s: &mut State, hart: u8, pc: Pc) {
        let hart = &mut s.harts[usize::from(hart)];
        hart.pc = pc;
        if pc == Pc::SetInterruptible && !self.has(Mutation::InterruptibleLate) {
            // Only a wake-up could tell the difference, and it would find the thread before its
            // check.
            if let Some(v) = hart.thread {
                s.vcpus[usize::from(v)].waiting = true;
            }
            hart.pc = Pc::CheckBlock;
        }
    }

    /// The scheduler preempts a thread that could continue to run.
    pub(crate) fn preempt(&self, s: &mut State, hart: u8) {
        let slot = &mut s.harts[usize::from(hart)];
        let vcpu = &mut s.vcpus[usize::from(slot.thread.expect("a thread is here"))];
        vcpu.resume = slot.pc;
        if self.has(Mutation::MigrateBeforeDetach) {
            vcpu.thread = Thread::Runnable;
        }
        self.put(s, hart);
    }

    /// `kvm_arch_vcpu_put`: decides on the state the vCPU is left in.
    fn put(&self, s: &mut State, h: u8) {
        let hart = &mut s.harts[usize::from(h)];
        let vcpu = &s.vcpus[usize::from(hart.thread.expect("a thread is here"))];
        if !vcpu.blocking {
            // A post in between would be like one just before: one step with the first of the
            // detach.
            self.detach(s, h, 1, RunState::Preempted);
        } else if vcpu.deliverable() && !self.has(Mutation::BlocksHalted) {
            // The controller cannot know that `vsie` masks it, and would wake it up again and
            // again.
            hart.pc = Pc::Detach(1, RunState::Preempted);
        } else {
            hart.pc = Pc::Detach(1, RunState::Halted);
        }
    }

    /// Next step of the thread on a hart, where there is only one; `None` where there is none.
    pub(crate) fn step(&self, s: &mut State, h: u8) -> Option<()> {
        let hart = &mut s.harts[usize::from(h)];
        if hart.handler != Handler::None {
            return None;
        }
        match hart.pc {
            Pc::Idle | Pc::Host | Pc::Guest | Pc::Offline => return None,
            Pc::Attach(step) => self.attach(s, h, step),
            Pc::GuestClear => Self::finish_clear(s, h),
            Pc::Detach(step, state) => {
                if !Self::detach_ready(s, h, step) {
                    return None;
                }
                self.detach(s, h, step, state);
            }
            Pc::SetInterruptible => {
                let vcpu = &mut s.vcpus[usize::from(hart.thread?)];
                vcpu.waiting = true;
                hart.pc = Pc::Schedule;
            }
            Pc::CheckBlock => {
                let vcpu = &mut s.vcpus[usize::from(hart.thread?)];
                if vcpu.has_interrupts() {
                    (vcpu.waiting, vcpu.blocking) = (false, false);
                    hart.pc = Pc::Host;
                } else if self.has(Mutation::InterruptibleLate) {
                    hart.pc = Pc::SetInterruptible;
                } else {
                    hart.pc = Pc::Schedule;
                }
            }
            Pc::Schedule => {
                let vcpu = &mut s.vcpus[usize::from(hart.thread?)];
                if vcpu.waiting {
                    vcpu.thread = Thread::Deactivated;
                    self.put(s, h);
                } else {
                    self.go_on(s, h, self.block_start());
                }
            }
            Pc::Draining => {
                if hart.notified() {
                    return None;
                }
                hart.pc = if self.has(Mutation::QueueDroppedOnDisable) {
                    Pc::Disable
                } else {
                    hart.latch = false;
                    Pc::Offline
                };
            }
            Pc::Opening => {
                if !self.synchronized(s, h) {
                    return None;
                }
                self.count(s, h);
            }
            Pc::Disable => {
                hart.pc = Pc::Offline;
                hart.queue = Default::default();
                (hart.overflow, hart.latch) = (false, false);
            }
        }
        Some(())
    }

    /// The notification interrupt: read `hnotify`.
    pub(crate) fn fetch(&self, s: &mut State, hart: u8) {
        let (note, overflow) = Self::dequeue(s, hart);
        let blocking = |v: u8| s.vcpus[usize::from(v)].blocking;
        let handler = match note {
            None => Handler::None,
            Some(note) if self.config.rules == OnRules::Draft => {
                if note.wake || (blocking(note.vcpu) && !self.has(Mutation::HandlerTrustsKind)) {
                    self.first_of_handler(note)
                } else {
                    // The scheduler would prefer the vCPU, which is not modelled.
                    Handler::None
                }
            }
            Some(note) => self.first_of_handler(note),
        };
        s.harts[usize::from(hart)].handler = handler;
        if overflow {
            self.scan_all(s);
        }
    }

    /// Work for a kernel thread, in any order.
    fn scan_all(&self, s: &mut State) {
        for vcpu in &mut s.vcpus[..usize::from(self.config.vcpus)] {
            vcpu.scan = match vcpu.scan {
                Scan::Wake | Scan::WakeAndRepeat => Scan::WakeAndRepeat,
                Scan::Done | Scan::Clear => Scan::Clear,
            };
        }
    }

    /// A hart goes off line, or falls asleep: its queue is closed, and no longer counted as open.
    pub(crate) fn close(&self, s: &mut State, h: u8) {
        s.harts[usize::from(h)].pc = Pc::Draining;
        if !self.has(Mutation::SleepNotCounted) {
            s.open -= 1;
        }
    }

    /// SYNC after a queue has been opened is complete: no post under way has found it closed.
    pub(crate) fn synchronized(&self, s: &State, h: u8) -> bool {
        let refused = |stage| matches!(stage, Stage::Queue(_, closed) if closed >> h & 1 == 1);
        self.has(Mutation::OpenWithoutSync) || !s.accesses().any(|access| refused(access.stage))
    }

    /// The queue is counted as open. If it is the only one, posts may have been without a
    /// notification.
    fn count(&self, s: &mut State, h: u8) {
        s.harts[usize::from(h)].pc = Pc::Idle;
        if self.has(Mutation::SleepNotCounted) {
            return;
        }
        s.open += 1;
        if s.open == 1 && !self.has(Mutation::OpenWithoutScan) {
            self.scan_all(s);
        }
    }

    /// Next step of the work that an overflow has queued.
    pub(crate) fn scan(&self, s: &mut State, v: u8) {
        let next = match s.vcpus[usize::from(v)].scan {
            Scan::Clear if self.passes_over(s, v) => Scan::Done,
            Scan::Clear => {
                let vcpu = &s.vcpus[usize::from(v)];
                let idle = matches!(vcpu.state, RunState::Preempted | RunState::Halted);
                if !vcpu.on && idle && self.promises_restraint() && s.fault == Fault::None {
                    s.fault = Fault::Disturbed;
                }
                if !self.has(Mutation::HandlerKeepsOn) {
                    self.clear_on(s, v);
                }
                Scan::Wake
            }
            Scan::WakeAndRepeat => {
                Self::wake(s, v);
                Scan::Clear
            }
            Scan::Wake | Scan::Done => {
                Self::wake(s, v);
                Scan::Done
            }
        };
        s.vcpus[usize::from(v)].scan = next;
    }

    /// The work after an overflow leaves a vCPU alone of which no notification is outstanding.
    fn passes_over(&self, s: &State, v: u8) -> bool {
        self.promises_restraint()
            && !self.has(Mutation::ScanTakesAll)
            && !s.vcpus[usize::from(v)].on
    }

    /// Attach and detach of the draft clear `ON`, so that its host must look at every vCPU.
    fn promises_restraint(&self) -> bool {
        self.config.rules == OnRules::Strict
    }

    fn first_of_handler(&self, note: Note) -> Handler {
        if self.has(Mutation::HandlerClearsLate) || self.has(Mutation::HandlerKeepsOn) {
            Handler::Wake(note)
        } else {
            Handler::Clear(note)
        }
    }

    /// Next step of the interrupt handler that runs on a hart.
    pub(crate) fn handle(&self, s: &mut State, hart: u8) {
        let late = self.has(Mutation::HandlerClearsLate);
        let next = match s.harts[usize::from(hart)].handler {
            Handler::None => unreachable!("not offered as an action"),
            Handler::Clear(note) => {
                self.clear_on(s, note.vcpu);
                if late {
                    Handler::None
                } else {
                    Handler::Wake(note)
                }
            }
            Handler::Wake(note) => {
                if note.wake || !self.has(Mutation::HandlerTrustsKind) {
                    Self::wake(s, note.vcpu);
                }
                if late {
                    Handler::Clear(note)
                } else {
                    Handler::None
                }
            }
            Handler::Latch => {
                if let Some(v) = s.harts[usize::from(hart)].thread {
                    Self::wake(s, v);
                }
                Handler::None
            }
        };
        s.harts[usize::from(hart)].handler = next;
    }

    /// `try_to_wake_up`; without effect on a thread that does not wait.
    fn wake(s: &mut State, v: u8) {
        let vcpu = &mut s.vcpus[usize::from(v)];
        match vcpu.thread {
            Thread::Asleep => vcpu.thread = Thread::Runnable,
            Thread::Deactivated => vcpu.woken = true,
            Thread::Runnable | Thread::Running => vcpu.waiting = false,
        }
    }
}
