//! Holds the vCPU threads outside of `KVM_RUN` while the guest is paused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct State {
    closed: bool,
    /// Number of threads that hold a [`Ticket`], and of those that wait.
    threads: usize,
    waiting: usize,
}

/// Closed while the guest is paused. After closing it, the vCPUs must be made to leave `KVM_RUN`.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a thread. Call it before the thread starts, so that a closed gate waits for that
    /// thread.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        self.state().threads += 1;
        Ticket(Arc::clone(self))
    }

    /// Makes threads wait at their next [`Ticket::pass`].
    pub fn close(&self) {
        self.state().closed = true;
    }

    /// Lets all threads continue.
    pub fn open(&self) {
        self.state().closed = false;
        self.changed.notify_all();
    }

    /// Whether the gate is closed.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits until every thread waits or has ended; `false` if that takes longer than `limit`.
    pub fn all_wait(&self, limit: Duration) -> bool {
        let state = self.state();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, limit, |state| state.waiting < state.threads)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting >= state.threads
    }
}

/// A thread's registration with the gate.
pub struct Ticket(Arc<Gate>);

impl Ticket {
    /// Returns at once while the gate is open or `stopping` is set (then [`Gate::open`] must
    /// follow), else when it opens.
    pub fn pass(&self, stopping: &AtomicBool) {
        let mut state = self.0.state();
        if !state.closed {
            return;
        }
        state.waiting += 1;
        self.0.changed.notify_all();
        while state.closed && !stopping.load(Ordering::SeqCst) {
            state = self
                .0
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_closed_gate_holds_every_thread_and_counts_those_that_end() {
        let (gate, stopping) = (Arc::new(Gate::default()), AtomicBool::new(false));
        let passes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for limit in [u64::MAX, u64::MAX, 100] {
                let ticket = gate.ticket();
                let (stopping, passes) = (&stopping, &passes);
                scope.spawn(move || {
                    let mut turn = 0;
                    while turn < limit && !stopping.load(Ordering::SeqCst) {
                        ticket.pass(stopping);
                        passes.fetch_add(1, Ordering::SeqCst);
                        turn += 1;
                    }
                });
            }
            for _ in 0..50 {
                gate.close();
                assert!(gate.all_wait(Duration::from_secs(20)));
                let before = passes.load(Ordering::SeqCst);
                std::thread::yield_now();
                assert_eq!(passes.load(Ordering::SeqCst), before);
                gate.open();
            }
            gate.close();
            stopping.store(true, Ordering::SeqCst);
            gate.open();
        });
        assert!(gate.all_wait(Duration::ZERO), "no thread is left");
    }

    #[test]
    fn a_thread_that_does_not_come_is_noticed() {
        let gate = Arc::new(Gate::default());
        let _ticket = gate.ticket();
        gate.close();
        assert!(!gate.all_wait(Duration::from_millis(1)));
    }
}
