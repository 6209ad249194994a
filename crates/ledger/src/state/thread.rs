//! Threads of the host: who they are.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Index of what runs before a hart has a thread: firmware, and the start of the kernel.
pub(crate) const NONE: usize = 0;
/// Index of handlers of user contexts that interrupt a guest (Xhcs).
pub(crate) const HANDLERS: usize = 1;

/// Threads told apart; the rest is counted as one. The host decides how many there are.
const THREADS: usize = 8192;

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
    #[serde(serialize_with = "crate::state::sorted::serialize")]
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
    pub fn find(&mut self, task: u64) -> usize {
        match self.index.get(&task) {
            Some(index) => *index,
            None => self.add(task),
        }
    }

    /// Adds a thread at `task`, where another one was or none; its index.
    pub fn add(&mut self, task: u64) -> usize {
        let index = self.list.len().min(THREADS);
        if index < THREADS {
            self.list.push(Thread::default());
            self.index.insert(task, index);
        } else if let Some(known) = self.index.get_mut(&task) {
            *known = index;
        }
        index
    }

    /// Numbers that [`find`](Self::find) may give: of those that are known, and one for the rest.
    pub fn numbers(&self) -> usize {
        self.list.len() + usize::from(self.list.len() == THREADS)
    }

    /// Whether what is found is there, and harts without a thread have one.
    pub fn are_sound(&self) -> bool {
        let list = self.list.len();
        (HANDLERS + 1..=THREADS).contains(&list)
            && self.index.values().all(|index| *index < self.numbers())
    }

    /// The thread at `index`; `None` for those that are counted as one.
    pub fn get(&self, index: usize) -> Option<&Thread> {
        self.list.get(index)
    }

    /// The thread at `index`, to tell its name.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Thread> {
        self.list.get_mut(index)
    }
}
