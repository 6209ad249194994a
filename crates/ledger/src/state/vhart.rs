//! State of each vhart of an interrupt domain: its place, and pending interrupts.

use std::collections::{BTreeMap, HashMap};

use crate::class::Place;
use serde::{Deserialize, Serialize};

/// Maximum number of vharts that are tracked; interrupts of further ones are only counted.
const VHARTS: usize = 4096;
/// Maximum number of sources that are tracked per vhart.
const SOURCES: usize = 1024;
/// Maximum number of notifications that are tracked until they are fetched.
const NOTIFIED: usize = 4096;

/// An interrupt that has arrived and that the guest has not taken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// When it was sent.
    pub time: u64,
    /// State of the vCPU.
    pub place: Place,
    /// [`Vhart::traps`] at that time.
    pub traps: u64,
}

/// One vhart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Vhart {
    /// Hart on which it is loaded.
    pub hart: Option<usize>,
    /// Its place if it is on no hart.
    pub left: Place,
    /// Its vCPU, once it has run.
    pub vcpu: Option<usize>,
    /// Software interrupt.
    pub soft: Option<Pending>,
    /// External interrupts by source.
    pub sources: BTreeMap<u16, Pending>,
    /// External interrupts taken so far.
    pub traps: u64,
    /// Time of the last one.
    pub last_trap: u64,
}

impl Vhart {
    /// Records that `source` is pending.
    pub fn post(&mut self, source: u16, pending: Pending) {
        if self.sources.len() < SOURCES {
            self.sources.insert(source, pending);
        }
    }
}

/// Domain and vhart.
pub type Key = (u16, u16);

/// All vharts seen.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Vharts {
    list: Vec<(Key, Vhart)>,
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    index: HashMap<Key, usize>,
    #[serde(serialize_with = "crate::state::sorted::serialize")]
    notified: HashMap<(u16, u16, u8), u64>,
}

impl Vharts {
    /// Index of a vhart; a new one is added. `None` beyond the bound.
    pub fn find(&mut self, key: Key) -> Option<usize> {
        if let Some(index) = self.index.get(&key) {
            return Some(*index);
        }
        if self.list.len() >= VHARTS {
            return None;
        }
        self.index.insert(key, self.list.len());
        self.list.push((key, Vhart::default()));
        Some(self.list.len() - 1)
    }

    /// The vhart at `index`.
    pub fn get(&self, index: usize) -> &Vhart {
        &self.list[index].1
    }

    /// The vhart at `index`.
    pub fn get_mut(&mut self, index: usize) -> &mut Vhart {
        &mut self.list[index].1
    }

    /// Domain and number of the vhart at `index`.
    pub fn key(&self, index: usize) -> Key {
        self.list[index].0
    }

    /// Whether each is found by its domain and number.
    pub fn are_sound(&self) -> bool {
        let place =
            |(index, entry): (usize, &(Key, Vhart))| self.index.get(&entry.0) == Some(&index);
        self.list.len() <= VHARTS
            && self.index.len() == self.list.len()
            && self.list.iter().enumerate().all(place)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Vhart> {
        self.list.iter().map(|entry| &entry.1)
    }

    /// The vharts of a domain.
    pub fn of_domain(&mut self, domain: u16) -> impl Iterator<Item = &mut Vhart> {
        let mine = move |entry: &&mut (Key, Vhart)| entry.0.0 == domain;
        self.list.iter_mut().filter(mine).map(|entry| &mut entry.1)
    }

    /// Records that a notification was queued.
    pub fn notify(&mut self, domain: u16, id: u16, kind: u8, time: u64) {
        if self.notified.len() < NOTIFIED {
            self.notified.entry((domain, id, kind)).or_insert(time);
        }
    }

    /// When the notification that the host takes now was queued.
    pub fn fetch(&mut self, domain: u16, id: u16, kind: u8) -> Option<u64> {
        self.notified.remove(&(domain, id, kind))
    }
}
