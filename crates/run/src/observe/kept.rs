//! Event sinks that outlive the machine they are attached to.

use std::sync::{Arc, Mutex, PoisonError};

use trapless_ledger::event::{Event, Sink};

/// A sink that can be taken back from the machine when the run is over.
pub struct Kept<S>(Arc<Mutex<Option<S>>>);

impl<S> Kept<S> {
    /// Keeps `sink`.
    pub fn new(sink: S) -> Self {
        Self(Arc::new(Mutex::new(Some(sink))))
    }

    /// The handle for the machine.
    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Calls a function on the sink, unless it was taken.
    pub fn with(&self, act: impl FnOnce(&mut S)) {
        if let Some(sink) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            act(sink);
        }
    }

    /// Takes the sink, unless it was taken before.
    pub fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Sink> Sink for Kept<S> {
    fn record(&mut self, event: &Event) {
        self.with(|sink| sink.record(event));
    }
}
