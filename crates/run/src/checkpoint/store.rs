//! Checkpoints that runs keep, in a folder of the cache of bounded size.
//!
//! A reader holds an open file, which stays complete when another process removes its name. Nothing
//! is ever written to a file that has its final name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Default size of the folder in bytes, as far as the disk has room.
const MOST: u64 = 8 << 30;
/// Default share of the disk's free space that may be used: one part in so many.
const SHARE: u64 = 4;
/// Bytes of the disk that are always left free.
const RESERVE: u64 = 256 << 20;
/// How far the times of new files can be behind the clock: file systems take that of the kernel's
/// last tick, of which there are 100 in a second or more.
const TICK: Duration = Duration::from_millis(10);
/// Suffixes of names: of checkpoints, of bases with shared pages, and of files that are being
/// written.
pub const DONE: &str = "checkpoint";
pub const SHARED: &str = "pages";
const PART: &str = "part";

/// The folder.
pub struct Store {
    folder: PathBuf,
    /// The user's bound in bytes.
    most: Option<u64>,
    /// Files used since then are not evicted: a series that is larger than the folder would
    /// otherwise evict all its own files before it is run again.
    since: SystemTime,
}

/// Contents of the folder.
struct Listing {
    /// Finished files: when they were last used, their size, and where they are.
    done: Vec<(SystemTime, u64, PathBuf)>,
    /// Bytes of files that are being written.
    parts: u64,
}

impl Store {
    /// Opens the store in the folder `cache`, with at most so many bytes. `None` if that is 0 or
    /// the folder cannot be created.
    pub fn open(cache: &Path, most: Option<u64>) -> Option<Self> {
        let folder = cache.join("checkpoints");
        (most != Some(0) && fs::create_dir_all(&folder).is_ok()).then(|| Self {
            folder,
            most,
            since: SystemTime::now() - TICK,
        })
    }

    /// Path of the file `key`.
    pub fn path(&self, key: &str, end: &str) -> PathBuf {
        self.folder.join(key).with_extension(end)
    }

    /// The file `key`, if it is there; counts as a use.
    pub fn find(&self, key: &str, end: &str) -> Option<File> {
        let file = File::open(self.path(key, end)).ok()?;
        // Fails in another user's cache, where the file keeps its age.
        let _ = file.set_modified(SystemTime::now());
        Some(file)
    }

    /// Removes the file `key`, which cannot be used.
    pub fn discard(&self, key: &str, end: &str) {
        // Another process may have removed it.
        let _ = fs::remove_file(self.path(key, end));
    }

    /// Begins to write the file `key`. `None` if there is no room, or another process writes it.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self, key: &str, end: &str) -> io::Result<Option<Entry<'_>>> {
        let _lock = self.lock()?;
        let listing = self.list()?;
        let room = self.room(&listing);
        let least = listing.done.iter().map(|(_, size, _)| *size).min();
        if room < least.unwrap_or(1) {
            return Ok(None);
        }
        let place = self.path(key, end);
        let path = self.folder.join(format!("{key}.{end}.{PART}"));
        let file = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            file => file?,
        };
        file.lock()?;
        Ok(Some(Entry {
            store: self,
            file: Some(BufWriter::new(file)),
            path,
            place,
            left: room,
            written: 0,
            full: false,
        }))
    }

    /// Keeps other processes from evicting and renaming files until the result is dropped.
    fn lock(&self) -> io::Result<File> {
        let file = File::create(self.folder.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Maximum size of a new file in bytes.
    fn room(&self, listing: &Listing) -> u64 {
        let of = |old: bool| {
            let files = listing.done.iter();
            let files = files.filter(|(used, _, _)| (*used < self.since) == old);
            files.map(|(_, size, _)| size).sum::<u64>()
        };
        let (old, new) = (of(true), of(false));
        let free = free(&self.folder).saturating_sub(RESERVE);
        let bound = self.bound(listing);
        bound.saturating_sub(new + listing.parts).min(free + old)
    }

    /// Maximum size of all files together, in bytes.
    fn bound(&self, listing: &Listing) -> u64 {
        let all: u64 = listing.done.iter().map(|(_, size, _)| size).sum();
        let usual = || MOST.min((free(&self.folder) + all + listing.parts) / SHARE);
        self.most.unwrap_or_else(usual)
    }

    /// Lists the files; removes unfinished files of dead processes.
    fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing {
            done: Vec::new(),
            parts: 0,
        };
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let (path, Ok(about)) = (entry.path(), entry.metadata()) else {
                continue;
            };
            if path
                .extension()
                .is_some_and(|end| end == DONE || end == SHARED)
            {
                let used = about.modified()?;
                listing.done.push((used, about.len(), path));
            } else if path.extension().is_some_and(|end| end == PART) {
                let file = File::open(&path);
                if let Ok(Err(TryLockError::WouldBlock)) = file.map(|file| file.try_lock()) {
                    listing.parts += about.len();
                } else {
                    fs::remove_file(&path)?;
                }
            }
        }
        Ok(listing)
    }

    /// Removes the least recently used files, until there is room for `size` bytes.
    fn make_room(&self, size: u64) -> io::Result<bool> {
        let mut listing = self.list()?;
        // The file itself is among the parts.
        listing.parts = listing.parts.saturating_sub(size);
        if self.room(&listing) < size {
            return Ok(false);
        }
        listing.done.sort();
        let all: u64 = listing.done.iter().map(|(_, size, _)| size).sum();
        let mut excess = (all + listing.parts + size).saturating_sub(self.bound(&listing));
        for (used, size, path) in listing.done {
            if excess == 0 || used >= self.since {
                break;
            }
            fs::remove_file(path)?;
            excess = excess.saturating_sub(size);
        }
        Ok(true)
    }
}

/// A checkpoint that is being written; removed if it is dropped before [`commit`](Self::commit).
pub struct Entry<'s> {
    store: &'s Store,
    /// Temporary name until it has its final one.
    file: Option<BufWriter<File>>,
    path: PathBuf,
    place: PathBuf,
    left: u64,
    written: u64,
    full: bool,
}

impl Entry<'_> {
    /// Whether a write exceeded the room.
    pub fn full(&self) -> bool {
        self.full
    }

    /// Gives the file its final name, and evicts others if it needs their room. `false` if there is
    /// no room any more.
    ///
    /// # Errors
    /// The system's.
    pub fn commit(mut self) -> io::Result<bool> {
        self.flush()?;
        let _lock = self.store.lock()?;
        let fits = self.store.make_room(self.written)?;
        if fits {
            fs::rename(&self.path, &self.place)?;
            self.file = None;
        }
        Ok(fits)
    }
}

impl Write for Entry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.full = true;
            return Err(io::ErrorKind::QuotaExceeded.into());
        };
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        let count = file.write(bytes)?;
        self.left = left + (bytes.len() - count) as u64;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        // The file is locked as long as it is open, so no other process has replaced it.
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Free bytes of the file system of `folder`; `u64::MAX` if they are unknown.
fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX / 2, |about| about.f_bavail * about.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn put(store: &Store, key: &str, size: usize) -> bool {
        let Some(mut entry) = store.begin(key, DONE).unwrap() else {
            return false;
        };
        entry.write_all(&vec![1; size]).is_ok() && entry.commit().unwrap()
    }

    fn names(store: &Store) -> Vec<String> {
        let names = fs::read_dir(&store.folder).unwrap().flatten();
        let mut names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "lock")
            .collect();
        names.sort();
        names
    }

    /// A store as the next command opens it.
    fn later(cache: &Path, most: u64) -> Store {
        let store = Store::open(cache, Some(most)).unwrap();
        let all = store.list().unwrap().done;
        for (at, (_, _, path)) in all.iter().enumerate() {
            let age = Duration::from_secs(100 - at as u64);
            let file = File::open(path).unwrap();
            file.set_modified(store.since - age).unwrap();
        }
        store
    }

    /// Promise: kept checkpoints take no more disk space than allowed; those used last stay, and
    /// those of this command make no room for each other.
    #[test]
    fn the_folder_keeps_its_bound() {
        let cache = tempfile::tempdir().unwrap();
        let store = Store::open(cache.path(), Some(1000)).unwrap();
        assert!(put(&store, "a", 400) && put(&store, "b", 400));
        assert!(!put(&store, "c", 400), "no room that is not in use");
        assert_eq!(names(&store), ["a.checkpoint", "b.checkpoint"]);
        let store = later(cache.path(), 1000);
        assert!(store.find("a", DONE).is_some() && store.find("x", DONE).is_none());
        assert!(put(&store, "d", 500));
        assert_eq!(names(&store), ["a.checkpoint", "d.checkpoint"]);
        assert!(Store::open(cache.path(), Some(0)).is_none());
    }

    #[test]
    fn what_is_read_stays_whole() {
        let cache = tempfile::tempdir().unwrap();
        let store = Store::open(cache.path(), Some(1000)).unwrap();
        assert!(put(&store, "a", 700));
        let mut file = store.find("a", DONE).unwrap();
        let store = later(cache.path(), 1000);
        assert!(put(&store, "b", 700));
        assert_eq!(names(&store), ["b.checkpoint"]);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [1; 700]);
    }

    /// Promise: of a command that was killed nothing stays but what was finished, and of two that
    /// write the same, one does.
    #[test]
    fn what_is_not_finished_goes_away() {
        let cache = tempfile::tempdir().unwrap();
        let store = Store::open(cache.path(), Some(1000)).unwrap();
        fs::write(store.folder.join("killed.part"), "half").unwrap();
        let mut one = store.begin("a", DONE).unwrap().unwrap();
        assert!(store.begin("a", DONE).unwrap().is_none());
        assert_eq!(names(&store), ["a.checkpoint.part"]);
        one.write_all(&[2; 10]).unwrap();
        drop(one);
        assert!(names(&store).is_empty());
        assert!(put(&store, "a", 10));
    }
}
