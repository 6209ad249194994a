//! The files of a guest, by numbers that do not depend on the host.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, flock};
use rustix::io::Errno;
use trapless_devices::Clock;

use super::attributes::{Attributes, Time};
use super::place::{Key, Place, key};

/// Number of the shared folder.
pub const ROOT: u64 = 1;
/// Maximum depth of a node; more is a cycle, which the host can make by moving folders.
const MAX_DEPTH: usize = 256;
/// Maximum number of nodes that a guest may hold.
const MAX_NODES: usize = 1 << 18;
/// Maximum number of files with a number: others may make and remove files that the guest sees.
const MAX_NUMBERS: usize = 1 << 22;

/// Number of attempts to lock the shared folder, and their interval. Machines hold the lock
/// briefly; other programs may hold it for ever.
const LOCK_ATTEMPTS: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The lock of the shared folder.
pub struct Alone<'t>(&'t File);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // The lock is released at the end of the machine at the latest.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// Key of no file.
const GONE: Key = (u64::MAX, u64::MAX);

/// Last known place of a node.
struct Node {
    parent: u64,
    name: OsString,
    key: Key,
    /// Lookups by the guest that it has not forgotten.
    lookups: u64,
    /// Nodes below it.
    children: u64,
}

/// Nodes of the shared folder that a guest knows.
pub struct Tree {
    root: File,
    clock: Box<dyn Clock>,
    /// Nodes that the guest holds, beside the root.
    nodes: HashMap<u64, Node>,
    /// Numbers of all files that the guest has ever seen and that still exist.
    numbers: HashMap<Key, u64>,
    last: u64,
    /// Times of changes by the guest.
    changed: HashMap<u64, Time>,
}

impl Tree {
    /// A tree below `root`.
    pub fn new(root: File, clock: Box<dyn Clock>) -> Self {
        Self {
            root,
            clock,
            nodes: HashMap::new(),
            numbers: HashMap::new(),
            last: ROOT,
            changed: HashMap::new(),
        }
    }

    /// The guest was reset: it holds no node.
    pub fn reset(&mut self) {
        for (number, node) in self.nodes.drain() {
            if node.key == GONE {
                self.changed.remove(&number);
            }
        }
    }

    /// Locks the folder against moves by other machines until the result is dropped. `EBUSY` if
    /// another program has locked it for long.
    pub fn alone(&self) -> Result<Alone<'_>, Errno> {
        for _ in 0..LOCK_ATTEMPTS {
            match flock(&self.root, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
                // Some file systems have no locks.
                _ => return Ok(Alone(&self.root)),
            }
        }
        Err(Errno::BUSY)
    }

    /// Place of a node's file.
    pub fn place(&self, number: u64) -> Result<Place, Errno> {
        let (mut names, mut at) = (Vec::new(), number);
        while at != ROOT {
            let node = self.nodes.get(&at).ok_or(Errno::STALE)?;
            names.push(node.name.clone());
            at = node.parent;
            if names.len() > MAX_DEPTH {
                return Err(Errno::STALE);
            }
        }
        names.reverse();
        Place::find(&self.root, &names)
    }

    /// Folders between the shared one and what is in the folder of a node: 0 for the shared one.
    pub fn depth(&self, number: u64) -> usize {
        let above = |at: &u64| self.nodes.get(at).map(|node| node.parent);
        std::iter::successors(above(&number), above)
            .take(MAX_DEPTH)
            .count()
    }

    /// Syncs the host's file system.
    pub fn sync(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(&self.root)
    }

    /// The file of a node, if it is still the one that the guest has seen. If it is not, the guest
    /// looks its name up again.
    pub fn stat(&self, number: u64) -> Result<(Place, Stat), Errno> {
        let gone = |error| match error {
            Errno::NOENT | Errno::NOTDIR => Errno::STALE,
            error => error,
        };
        let place = self.place(number).map_err(gone)?;
        let stat = place.stat().map_err(gone)?;
        match self.nodes.get(&number) {
            Some(node) if node.key != key(&stat) => Err(Errno::STALE),
            _ => Ok((place, stat)),
        }
    }

    /// The entry `name` of folder `number`.
    pub fn child(&self, number: u64, name: &OsStr) -> Result<Place, Errno> {
        self.stat(number)?.0.child(name)
    }

    /// Attributes of a node whose file is this.
    pub fn attributes(&self, number: u64, stat: &Stat) -> Attributes {
        Attributes::new(number, stat, self.changed.get(&number).copied())
    }

    /// The number of a file that the guest sees.
    pub fn number(&mut self, stat: &Stat) -> Result<u64, Errno> {
        if let Some(number) = self.numbers.get(&key(stat)) {
            return Ok(*number);
        }
        if self.numbers.len() >= MAX_NUMBERS {
            return Err(Errno::NOMEM);
        }
        self.last += 1;
        self.numbers.insert(key(stat), self.last);
        Ok(self.last)
    }

    /// Enters a lookup of `name` in folder `parent`, with attributes `stat`.
    pub fn enter(&mut self, parent: u64, name: &OsStr, stat: &Stat) -> Result<Attributes, Errno> {
        let number = self.number(stat)?;
        if !self.nodes.contains_key(&number) && self.nodes.len() >= MAX_NODES {
            return Err(Errno::NOMEM);
        }
        let old = self.nodes.get(&number).map(|node| node.parent);
        let node = self.nodes.entry(number).or_insert_with(|| Node {
            parent,
            name: name.into(),
            key: key(stat),
            lookups: 0,
            children: 0,
        });
        node.lookups = node.lookups.saturating_add(1);
        node.parent = parent;
        node.name = name.into();
        self.count_child(parent);
        if let Some(old) = old {
            self.drop_child(old);
        }
        Ok(self.attributes(number, stat))
    }

    /// The guest forgets `count` lookups of a node.
    pub fn forget(&mut self, number: u64, count: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(count);
            self.drop_unused(number);
        }
    }

    fn count_child(&mut self, parent: u64) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children += 1;
        }
    }

    fn drop_child(&mut self, parent: u64) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children = node.children.saturating_sub(1);
            self.drop_unused(parent);
        }
    }

    /// Drops a node that neither the guest nor another node needs, and then its parents.
    fn drop_unused(&mut self, mut number: u64) {
        while let Some(node) = self.nodes.get(&number) {
            if node.lookups > 0 || node.children > 0 {
                return;
            }
            let (parent, gone) = (node.parent, node.key == GONE);
            self.nodes.remove(&number);
            if gone {
                // Written to after its last name was removed; it will not be seen again.
                self.changed.remove(&number);
            }
            number = parent;
            if let Some(node) = self.nodes.get_mut(&number) {
                node.children = node.children.saturating_sub(1);
            }
        }
    }

    /// The guest has removed a name of the file `stat`.
    pub fn removed(&mut self, parent: u64, stat: &Stat) {
        self.touch(parent);
        let folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        if folder || stat.st_nlink <= 1 {
            // The host may reuse the inode for the next file.
            if let Some(number) = self.numbers.remove(&key(stat)) {
                self.changed.remove(&number);
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.key = GONE;
                }
            }
        }
    }

    /// The guest has renamed the file `stat`.
    pub fn renamed(&mut self, stat: &Stat, from: u64, to: u64, name: &OsStr) {
        self.touch(from);
        self.touch(to);
        let Some(&number) = self.numbers.get(&key(stat)) else {
            return;
        };
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let old = std::mem::replace(&mut node.parent, to);
        node.name = name.into();
        self.count_child(to);
        self.drop_child(old);
    }

    /// The guest changes a file at the present virtual time.
    pub fn touch(&mut self, number: u64) {
        self.set_time(number, self.clock.now_ns());
    }

    /// The guest sets a file's time. Numbers of unknown nodes are ignored.
    pub fn set_time(&mut self, number: u64, time: Time) {
        if number == ROOT || self.nodes.contains_key(&number) {
            self.changed.insert(number, time);
        }
    }

    /// Files with a number or a time.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.numbers.len() + self.changed.len()
    }
}
