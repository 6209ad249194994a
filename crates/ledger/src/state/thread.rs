//! Identities of threads of the host.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Index of software before a hart has a thread: firmware, and the start of the kernel.
pub(crate) const NONE: usize = 0;
/// Index of handlers of user contexts that interrupt a guest (Xhcs).
pub(crate) const HANDLERS: usize = 1;

/// Maximum number of threads; the rest is counted as one. The host controls how many there are.
const THREADS: usize = 8192;

/// A thread of the host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Thread {
    /// Its last name, if known.
    pub name: Option<String>,
    /// Its number in the host's kernel.
    pub pid: Option<u32>,
    /// Number of its process there.
    pub process: Option<u32>,
}

impl Thread {
    /// A pseudo thread with this name.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}

/// Name and numbers of a thread in the host's kernel.
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

    /// Number of indices that [`find`](Self::find) may return: the known ones, and one for the
    /// rest.
    pub fn numbers(&self) -> usize {
        self.list.len() + usize::from(self.list.len() == THREADS)
    }

    /// Whether indices are in range, and the pseudo threads exist.
    pub fn are_sound(&self) -> bool {
        let list = self.list.len();
        (HANDLERS + 1..=THREADS).contains(&list)
            && self.index.values().all(|index| *index < self.numbers())
    }

    /// The thread at `index`; `None` for those that are counted as one.
    pub fn get(&self, index: usize) -> Option<&Thread> {
        self.list.get(index)
    }

    /// The thread at `index`, to set its name.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Thread> {
        self.list.get_mut(index)
    }
}
