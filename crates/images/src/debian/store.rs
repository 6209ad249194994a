//! Package files in the cache, named by their SHA-256: fetched once, checked on every use, repaired
//! when damaged.

use crate::cache::Cache;
use crate::debian::apt::Apt;
use crate::debian::package::Package;
use crate::debian::transfer::{PATIENCE, transfer};
use crate::digest::sha256_file;
use crate::error::{Error, Result, io};
use crate::progress::{Progress, Task};
use std::fs;
use std::path::{Path, PathBuf};

/// Brings package files onto this machine. The caller checks them, so a fetcher may fail half-way.
pub trait Fetch {
    /// Tries to write each package's file to the path beside it. `done` is told the bytes present
    /// so far.
    ///
    /// # Errors
    /// The reason, in the transport's own words.
    fn fetch(
        &self,
        files: &[(&Package, PathBuf)],
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), String>;
}

impl Fetch for Apt {
    fn fetch(
        &self,
        files: &[(&Package, PathBuf)],
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), String> {
        let mut reasons = Vec::new();
        // Bounded, because the names travel on a command line.
        for chunk in files.chunks(100) {
            let mut command = self.download_command(chunk).map_err(|e| e.to_string())?;
            let ended = transfer(&mut command, PATIENCE, &mut || {
                let arrived = arrived(files)?;
                done(arrived);
                Ok(arrived)
            });
            if let Err(reason) = ended {
                reasons.push(reason);
            }
        }
        if reasons.is_empty() {
            Ok(())
        } else {
            Err(reasons.join(" | "))
        }
    }
}

/// Bytes that are here of all files together.
fn arrived(files: &[(&Package, PathBuf)]) -> std::result::Result<u64, String> {
    let mut all = 0;
    for (package, path) in files {
        let size = fs::metadata(path).map_or(0, |about| about.len());
        if size > package.size {
            return Err(format!("the mirror sends more than {} has", package.name));
        }
        all += size;
    }
    Ok(all)
}

/// The package files of a cache.
#[derive(Debug)]
pub struct Store<'a> {
    cache: &'a Cache,
    progress: Progress,
}

impl<'a> Store<'a> {
    /// The store of `cache`.
    #[must_use]
    pub fn new(cache: &'a Cache, progress: Progress) -> Self {
        Self { cache, progress }
    }

    /// Returns the checked file of every package, in the same order; fetches what is missing or
    /// damaged.
    ///
    /// # Errors
    /// [`Error::Download`] if a file is neither here nor can be fetched.
    pub fn obtain(&self, packages: &[Package], fetcher: &dyn Fetch) -> Result<Vec<PathBuf>> {
        let folder = self.cache.folder("packages")?;
        let _lock = self.cache.lock("packages")?;
        let path = |p: &Package| folder.join(format!("{}.deb", p.sha256));
        let mut missing = Vec::new();
        for package in packages {
            if !is_intact(&path(package), package)? {
                missing.push(package);
            }
        }
        remove_leftovers(&folder, &missing);
        if let Some(first) = missing.first() {
            // apt would not say clearly that this user may not write here.
            let part = folder.join(format!("{}.part", first.sha256));
            let open = fs::OpenOptions::new().append(true).create(true).open(&part);
            open.map_err(io("write", &part))?;
        }
        // The second attempt starts from nothing, in case a partial file of an earlier run is what
        // spoils the first.
        let mut reason = String::new();
        for attempt in 0..2 {
            if missing.is_empty() {
                break;
            }
            let task = self.announce(&missing);
            let files: Vec<_> = missing
                .iter()
                .map(|p| (*p, folder.join(format!("{}.part", p.sha256))))
                .collect();
            if attempt > 0 {
                for (_, part) in &files {
                    let _ = fs::remove_file(part);
                }
            }
            if let Err(words) = fetcher.fetch(&files, &|done| task.set(done)) {
                reason = words;
            }
            missing.clear();
            for (package, part) in files {
                if is_intact(&part, package)? {
                    let target = path(package);
                    fs::rename(&part, &target).map_err(io("write", &target))?;
                } else {
                    if reason.is_empty() && part.exists() {
                        reason = "the file that arrived is not the one the package index describes"
                            .into();
                    }
                    missing.push(package);
                }
            }
        }
        match missing.first() {
            None => Ok(packages.iter().map(path).collect()),
            Some(first) => Err(Error::Download {
                count: missing.len(),
                first: format!("{} {}", first.name, first.version),
                reason,
            }),
        }
    }

    fn announce(&self, missing: &[&Package]) -> Task {
        let total: u64 = missing.iter().map(|p| p.size).sum();
        #[allow(clippy::cast_precision_loss)]
        let megabytes = total as f64 / 1e6;
        self.progress.task(
            &format!("Fetching {} packages, {megabytes:.1} MB", missing.len()),
            total,
        )
    }
}

/// Removes what apt was fetching when a command was killed, unless it is what is `missing` now, and
/// what it did not want. Who holds the lock of the folder is alone in it.
fn remove_leftovers(folder: &Path, missing: &[&Package]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some((sum, end)) = name.split_once(".part") else {
            continue;
        };
        if !end.is_empty() || missing.iter().all(|package| package.sha256 != sum) {
            // In another user's cache it stays.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether the file is there with the size and hash of the package index.
fn is_intact(path: &Path, package: &Package) -> Result<bool> {
    match fs::metadata(path) {
        Ok(found) if found.len() == package.size => Ok(sha256_file(path)? == package.sha256),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256_file;
    use std::cell::Cell;

    /// Serves one file; `breakage` says what goes wrong in the first calls.
    struct Mirror {
        content: &'static [u8],
        bad_calls: Cell<u32>,
        calls: Cell<u32>,
    }

    impl Fetch for Mirror {
        fn fetch(
            &self,
            files: &[(&Package, PathBuf)],
            _: &dyn Fn(u64),
        ) -> std::result::Result<(), String> {
            self.calls.set(self.calls.get() + 1);
            if self.bad_calls.get() > 0 {
                self.bad_calls.set(self.bad_calls.get() - 1);
                for (_, path) in files {
                    fs::write(path, &self.content[..2]).unwrap();
                }
                return Err("connection lost".into());
            }
            for (_, path) in files {
                fs::write(path, self.content).unwrap();
            }
            Ok(())
        }
    }

    fn setup() -> (tempfile::TempDir, Cache, Package, Mirror) {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::at(&temp.path().join("cache")).unwrap();
        let content = b"a package";
        let original = temp.path().join("original");
        fs::write(&original, content).unwrap();
        let package = Package {
            name: "p".into(),
            version: "1".into(),
            arch: "all".into(),
            uri: String::new(),
            size: content.len() as u64,
            sha256: sha256_file(&original).unwrap(),
        };
        (
            temp,
            cache,
            package,
            Mirror {
                content,
                bad_calls: Cell::new(0),
                calls: Cell::new(0),
            },
        )
    }

    #[test]
    fn second_use_needs_no_network() {
        let (_temp, cache, package, mirror) = setup();
        let store = Store::new(&cache, Progress::Silent);
        let first = store
            .obtain(std::slice::from_ref(&package), &mirror)
            .unwrap();
        let second = store.obtain(&[package], &mirror).unwrap();
        assert_eq!(first, second);
        assert_eq!(mirror.calls.get(), 1);
    }

    #[test]
    fn damaged_file_is_fetched_again() {
        let (_temp, cache, package, mirror) = setup();
        let store = Store::new(&cache, Progress::Silent);
        let path = store
            .obtain(std::slice::from_ref(&package), &mirror)
            .unwrap()
            .remove(0);
        for damage in [&b"a pAckage"[..], b"", b"a package and more"] {
            fs::write(&path, damage).unwrap();
            store
                .obtain(std::slice::from_ref(&package), &mirror)
                .unwrap();
            assert_eq!(fs::read(&path).unwrap(), mirror.content);
        }
        assert_eq!(mirror.calls.get(), 4);
    }

    #[test]
    fn interrupted_download_is_tried_again_from_nothing() {
        let (_temp, cache, package, mirror) = setup();
        mirror.bad_calls.set(1);
        let paths = Store::new(&cache, Progress::Silent)
            .obtain(&[package], &mirror)
            .unwrap();
        assert_eq!(fs::read(&paths[0]).unwrap(), mirror.content);
    }

    #[test]
    fn download_that_keeps_failing_is_reported_with_its_reason() {
        let (_temp, cache, package, mirror) = setup();
        mirror.bad_calls.set(9);
        let error = Store::new(&cache, Progress::Silent)
            .obtain(&[package], &mirror)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("connection lost") && error.contains("p 1"),
            "{error}"
        );
        assert!(!cache.root().join("packages").join("p.deb").exists());
    }

    /// Promise: of transfers that were killed, and of files that apt refused, nothing stays.
    #[test]
    fn leftovers_of_earlier_transfers_are_removed() {
        let (_temp, cache, package, mirror) = setup();
        let folder = cache.folder("packages").unwrap();
        for name in ["0123.part", "4567.part.FAILED"] {
            fs::write(folder.join(name), "half").unwrap();
        }
        let refused = format!("{}.part.FAILED", package.sha256);
        fs::write(folder.join(refused), "half").unwrap();
        Store::new(&cache, Progress::Silent)
            .obtain(&[package], &mirror)
            .unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
}
