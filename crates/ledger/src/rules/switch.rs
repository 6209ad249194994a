//! Rules: which thread of the host a hart runs, and what a switch is.
//!
//! `docs/ledger.md`, section "Threads of the host", states them; `tests/threads.rs` tests each.

use crate::events::event::Switch;
use crate::ledger::Ledger;
use crate::state::thread::{NONE, Thread, ThreadName};

/// Longest name in bytes; Linux's have 15.
const NAME: usize = 64;

impl Ledger {
    /// Notes what the host's kernel says of the thread at `task`. Memory of a thread that has ended
    /// is used for another one: with another number it is another thread, unless a hart runs it.
    pub fn name_thread(&mut self, task: u64, said: &ThreadName<'_>) {
        let mut index = self.threads.find(task);
        let runs = self.harts.iter().any(|hart| hart.thread == index);
        let other = |thread: &Thread| thread.pid.is_some_and(|pid| pid != said.pid);
        if !runs && self.threads.get(index).is_some_and(other) {
            index = self.threads.add(task);
        }
        let Some(thread) = self.threads.get_mut(index) else {
            return;
        };
        (thread.pid, thread.process) = (Some(said.pid), Some(said.process));
        if thread.name.as_deref() != Some(said.name) {
            thread.name = Some(said.name.chars().take(NAME).collect());
        }
    }

    pub(crate) fn switched(&mut self, s: &Switch) {
        self.at(s.hart, s.time);
        let to = self.threads.find(s.to);
        let from = std::mem::replace(&mut self.harts[s.hart].thread, to);
        // The first thread of a hart has been there before it was seen.
        if from != NONE {
            let totals = self.totals();
            totals.counts.context_switches += 1;
            totals.thread(to).switches += 1;
        }
    }
}
