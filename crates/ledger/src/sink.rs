//! Sinks made of sinks.

use crate::event::{Event, Sink};

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn record(&mut self, event: &Event) {
        self.0.record(event);
        self.1.record(event);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn record(&mut self, event: &Event) {
        if let Some(sink) = self {
            sink.record(event);
        }
    }
}

impl<S: Sink> Sink for Vec<S> {
    fn record(&mut self, event: &Event) {
        self.iter_mut().for_each(|sink| sink.record(event));
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn record(&mut self, event: &Event) {
        (**self).record(event);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, event: &Event) {
        (**self).record(event);
    }
}
