//! Events of guests that wait in queues of harts (Xvei).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Events followed until they are taken.
const QUEUED: usize = 4096;

/// When the events that are in queues were put there, by hart and identity.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueuedEvents(
    #[serde(serialize_with = "crate::state::sorted::serialize")] HashMap<(usize, u32), u64>,
);

impl QueuedEvents {
    /// Event `id` is put into the queue of `hart` at `time`, unless it is there.
    pub fn put(&mut self, hart: usize, id: u32, time: u64) {
        if self.0.len() < QUEUED {
            self.0.entry((hart, id)).or_insert(time);
        }
    }

    /// It is taken; when it was put there, if that is known.
    pub fn take(&mut self, hart: usize, id: u32) -> Option<u64> {
        self.0.remove(&(hart, id))
    }
}
