//! Rules for events of guests that reach the host without an exit (Xvei).
//!
//! `docs/ledger.md`, section "Events", states them; `tests/events.rs` tests each.

use crate::events::event::{EventOrigin, VirtualStep};
use crate::ledger::Ledger;

impl Ledger {
    /// An event is posted.
    pub(crate) fn event_posted(&mut self, s: &VirtualStep, by: EventOrigin, merged: bool) {
        let events = &mut self.totals().events;
        match by {
            EventOrigin::Guest => events.guest += 1,
            EventOrigin::Doorbell => events.doorbell += 1,
            EventOrigin::Host => events.host += 1,
        }
        events.merged += u64::from(merged);
        events.memory_words += u64::from(s.memory);
    }

    /// An event is put into the queue of a hart.
    pub(crate) fn event_queued(&mut self, s: &VirtualStep, to: usize, id: u32) {
        let events = &mut self.totals().events;
        events.queued += 1;
        events.memory_words += u64::from(s.memory);
        self.queued_events.put(to, id, s.time);
    }

    /// The host takes an event from the queue of its hart.
    pub(crate) fn event_taken(&mut self, s: &VirtualStep, id: u32) {
        self.totals().events.taken += 1;
        self.out_of_queue(s, id);
    }

    /// The handler of a user context takes an event, and interrupts the guest of its hart.
    pub(crate) fn event_handled(&mut self, s: &VirtualStep, id: u32) {
        self.totals().events.handled += 1;
        self.out_of_queue(s, id);
    }

    fn out_of_queue(&mut self, s: &VirtualStep, id: u32) {
        let since = self.queued_events.take(s.hart, id);
        let totals = self.totals();
        totals.events.memory_words += u64::from(s.memory);
        if let Some(time) = since {
            totals.event_latency.record(s.time.saturating_sub(time));
        }
    }
}
