//! Sinks that outlive the machine they are plugged into.

use std::sync::{Arc, Mutex, PoisonError};

use trapless_ledger::event::{Event, Sink};

/// A sink that can be taken back from the machine when the run is over.
pub struct Kept<S>(Arc<Mutex<Option<S>>>);

impl<S> Kept<S> {
    /// Keeps `sink`.
    pub fn new(sink: S) -> Self {
        Self(Arc::new(Mutex::new(Some(sink))))
    }

    /// The machine's part.
    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Does something to the sink, if nobody has taken it.
    pub fn with(&self, act: impl FnOnce(&mut S)) {
        if let Some(sink) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            act(sink);
        }
    }

    /// The sink, if nobody has taken it.
    pub fn take(&self) -> Option<S> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<S: Sink> Sink for Kept<S> {
    fn record(&mut self, event: &Event) {
        self.with(|sink| sink.record(event));
    }
}
