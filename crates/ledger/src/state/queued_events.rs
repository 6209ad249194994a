//! Events of guests that wait in queues of harts (Xvei).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Maximum number of events that are tracked until they are taken.
const QUEUED: usize = 4096;

/// When the events in queues were queued, by hart and identity.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueuedEvents(
    #[serde(serialize_with = "crate::state::sorted::serialize")] HashMap<(usize, u32), u64>,
);

impl QueuedEvents {
    /// Queues event `id` for `hart` at `time`, unless it is in the queue.
    pub fn put(&mut self, hart: usize, id: u32, time: u64) {
        if self.0.len() < QUEUED {
            self.0.entry((hart, id)).or_insert(time);
        }
    }

    /// Takes the event; returns when it was queued, if known.
    pub fn take(&mut self, hart: usize, id: u32) -> Option<u64> {
        self.0.remove(&(hart, id))
    }
}
