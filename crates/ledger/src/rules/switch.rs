//! Rules for threads of the host on harts, and switches between them.
//!
//! `docs/ledger.md`, section "Threads of the host", states them; `tests/threads.rs` tests each.

use crate::events::event::Switch;
use crate::ledger::Ledger;
use crate::state::thread::{NONE, Thread, ThreadName};

/// Maximum length of a name in bytes; Linux's have 15.
const NAME: usize = 64;

impl Ledger {
    /// Sets name and numbers of the thread at `task`, read from the host's kernel. Memory of a dead
    /// thread is reused: with another number it is another thread, unless a hart runs it.
    pub fn name_thread(&mut self, task: u64, name: &ThreadName<'_>) {
        let mut index = self.threads.find(task);
        let runs = self.harts.iter().any(|hart| hart.thread == index);
        let other = |thread: &Thread| thread.pid.is_some_and(|pid| pid != name.pid);
        if !runs && self.threads.get(index).is_some_and(other) {
            index = self.threads.add(task);
        }
        let Some(thread) = self.threads.get_mut(index) else {
            return;
        };
        (thread.pid, thread.process) = (Some(name.pid), Some(name.process));
        if thread.name.as_deref() != Some(name.name) {
            thread.name = Some(name.name.chars().take(NAME).collect());
        }
    }

    pub(crate) fn switched(&mut self, s: &Switch) {
        self.at(s.hart, s.time);
        let to = self.threads.find(s.to);
        let from = std::mem::replace(&mut self.harts[s.hart].thread, to);
        // The first thread of a hart ran before it was seen.
        if from != NONE {
            let totals = self.totals();
            totals.counts.context_switches += 1;
            totals.thread(to).switches += 1;
        }
    }
}
