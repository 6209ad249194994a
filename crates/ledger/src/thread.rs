//! Rules: which thread of the host a hart's time belongs to, and what a switch is.
//!
//! `docs/ledger.md`, section "Threads of the host", states them; `tests/threads.rs` tests each.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trapless_isa::Mode;
use trapless_isa::cause::INTERRUPT;

use crate::event::Switch;
use crate::hart::Hart;
use crate::ledger::Ledger;

/// Index of what runs before a hart has a thread: firmware, and the start of the kernel.
pub(crate) const NONE: usize = 0;
/// Index of handlers of user contexts that interrupt a guest (Xhcs).
pub(crate) const HANDLERS: usize = 1;

/// Threads told apart; the rest is counted as one. The host decides how many there are.
const THREADS: usize = 8192;
/// Longest name in bytes; Linux's have 15.
const NAME: usize = 64;

/// A thread of the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Thread {
    /// Its last name, if somebody has told it.
    pub name: Option<String>,
    /// Its number in the host's kernel.
    pub pid: Option<u32>,
    /// Number of its process there.
    pub process: Option<u32>,
}

impl Thread {
    /// What has this name without being a thread.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}

/// What the host's kernel says of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadName<'a> {
    /// Number of the thread (`task_struct.pid`).
    pub pid: u32,
    /// Number of its process (`task_struct.tgid`).
    pub process: u32,
    /// Name (`task_struct.comm`); that of a program changes when it is replaced by another.
    pub name: &'a str,
}

/// All threads seen, in order of appearance.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Threads {
    list: Vec<Thread>,
    /// By address; the last thread that was there.
    #[serde(serialize_with = "crate::sorted::serialize")]
    index: HashMap<u64, usize>,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            list: vec![Thread::named("(none)"), Thread::named("(handlers)")],
            index: HashMap::new(),
        }
    }
}

impl Threads {
    /// Index of the thread at `task`; a new one is added.
    fn find(&mut self, task: u64) -> usize {
        match self.index.get(&task) {
            Some(index) => *index,
            None => self.add(task),
        }
    }

    fn add(&mut self, task: u64) -> usize {
        let index = self.list.len().min(THREADS);
        if index < THREADS {
            self.list.push(Thread::default());
            self.index.insert(task, index);
        } else if let Some(known) = self.index.get_mut(&task) {
            *known = index;
        }
        index
    }

    /// The thread at `index`; `None` for those that are counted as one.
    pub fn get(&self, index: usize) -> Option<&Thread> {
        self.list.get(index)
    }
}

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
        let Some(thread) = self.threads.list.get_mut(index) else {
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

impl Hart {
    /// Index of the thread that time in the present mode belongs to.
    pub(crate) fn charged_thread(&self) -> usize {
        match &self.handler {
            // It interrupts the guest that it has nothing to do with.
            Some(h) if self.mode == Mode::U && h.trap.cause & INTERRUPT != 0 => HANDLERS,
            _ => self.thread,
        }
    }
}
