//! An event sink shared between its owner and the machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_ledger::event::{Event, Sink};

/// A sink with several handles: one for [`Machine::add_sink`](crate::Machine::add_sink), the other
/// for reading the result.
#[derive(Default)]
pub struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> Shared<S> {
    /// Shares `sink`.
    pub fn new(sink: S) -> Self {
        Self(Arc::new(Mutex::new(sink)))
    }

    /// The sink.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Sink for Shared<S> {
    fn record(&mut self, event: &Event) {
        self.lock().record(event);
    }
}
