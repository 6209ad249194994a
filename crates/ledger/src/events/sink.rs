//! Combinations of sinks.

use crate::events::event::{Event, Sink, TimerSets};

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn record(&mut self, event: &Event) {
        self.0.record(event);
        self.1.record(event);
    }

    fn sums_timer_sets(&self) -> bool {
        self.0.sums_timer_sets() && self.1.sums_timer_sets()
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        self.0.timer_sets(sets);
        self.1.timer_sets(sets);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn record(&mut self, event: &Event) {
        if let Some(sink) = self {
            sink.record(event);
        }
    }

    fn sums_timer_sets(&self) -> bool {
        self.as_ref().is_none_or(Sink::sums_timer_sets)
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        if let Some(sink) = self {
            sink.timer_sets(sets);
        }
    }
}

impl<S: Sink> Sink for Vec<S> {
    fn record(&mut self, event: &Event) {
        self.iter_mut().for_each(|sink| sink.record(event));
    }

    fn sums_timer_sets(&self) -> bool {
        self.iter().all(Sink::sums_timer_sets)
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        self.iter_mut().for_each(|sink| sink.timer_sets(sets));
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn record(&mut self, event: &Event) {
        (**self).record(event);
    }

    fn sums_timer_sets(&self) -> bool {
        (**self).sums_timer_sets()
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        (**self).timer_sets(sets);
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn record(&mut self, event: &Event) {
        (**self).record(event);
    }

    fn sums_timer_sets(&self) -> bool {
        (**self).sums_timer_sets()
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        (**self).timer_sets(sets);
    }
}
