//! The end of a run, which any thread may request.

use crate::run::outcome::Outcome;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use vmm_sys_util::eventfd::EventFd;

/// End of a run; the first request determines the outcome.
pub struct Stop {
    outcome: Mutex<Option<Outcome>>,
    /// True from the first [`Stop::request`] on.
    pub stopping: Arc<AtomicBool>,
    wake: Arc<EventFd>,
}

impl Stop {
    /// `wake` wakes the event loop.
    pub fn new(wake: &Arc<EventFd>) -> Self {
        Self {
            outcome: Mutex::default(),
            stopping: Arc::default(),
            wake: Arc::clone(wake),
        }
    }

    /// Ends the run with `outcome`, unless it is ending already.
    pub fn request(&self, outcome: Outcome) {
        self.outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(outcome);
        self.stopping.store(true, Ordering::SeqCst);
        let _ = self.wake.write(1);
    }

    /// The outcome, once the run is ending.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
