//! The cache folder: package files named by their SHA-256, trees and images named by what they were
//! made from.

pub(crate) mod kept;
mod lock;
pub(crate) mod prepared;
pub(crate) mod shipped;

use crate::error::{Error, Result, io};
use lock::Locked;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Names the cache folder.
const VARIABLE: &str = "TRAPLESS_CACHE";

/// A cache folder. Everything below it can be deleted at any time and is made again when needed.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Keeps other processes away from a part of the cache until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// `None` in another user's cache, used read-only: what is finished stays as it is.
    _locked: Option<Locked>,
}

impl Cache {
    /// Opens the cache: `TRAPLESS_CACHE` if set, else `.cache` in the project folder, or that of
    /// the user if nobody has made one there and this user cannot. With a project folder that was
    /// installed from a package it is always the user's.
    ///
    /// A cache that belongs to another user serves what is finished in it.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(project: &Path) -> Result<Self> {
        Self::find(project).map_err(|error| match error {
            Error::Io { ref path, .. } => Error::Cache {
                root: path.clone(),
                reason: Box::new(error),
            },
            other => other,
        })
    }

    fn find(project: &Path) -> Result<Self> {
        if let Some(named) = std::env::var_os(VARIABLE) {
            return Self::at(Path::new(&named));
        }
        if shipped::is_packed(project) {
            return Self::of_user().unwrap_or(Err(Error::NoCache));
        }
        match Self::at(&project.join(".cache")) {
            Err(error) if error.is_denied() => Self::of_user().unwrap_or(Err(error)),
            opened => opened,
        }
    }

    /// The user's own: `trapless` in `XDG_CACHE_HOME` or `~/.cache`. `None` if the user has named a
    /// cache, or has no home.
    #[must_use]
    pub fn of_user() -> Option<Result<Self>> {
        if std::env::var_os(VARIABLE).is_some() {
            return None;
        }
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
        let caches = folder("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(Path::new(&folder("HOME")?).join(".cache")))?;
        Some(Self::at(&caches.join("trapless")))
    }

    /// Opens (and creates) a cache at `root`.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(io("create the cache folder", root))?;
        let root = root.canonicalize().map_err(io("find", root))?;
        Ok(Self { root })
    }

    /// The folder itself, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder of the cache, created if needed.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(io("create", &path))?;
        Ok(path)
    }

    /// Waits until no other process works on `name` and keeps others out until the result is
    /// dropped. In the cache of another user it waits for that user only.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock> {
        let path = self.root.join("locks").join(name);
        let created = self.folder("locks").and_then(|_| {
            let file = File::create(&path).map_err(io("create", &path))?;
            Locked::alone(file).map_err(io("lock", &path))
        });
        match created {
            Ok(locked) => Ok(Lock {
                _locked: Some(locked),
            }),
            Err(error) if error.is_denied() => {
                let locked = File::open(&path).ok().map(Locked::shared).transpose();
                Ok(Lock {
                    _locked: locked.map_err(io("lock", &path))?,
                })
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Promise: two processes never work on the same thing, and one reads what another user has
    /// finished.
    #[test]
    fn a_cache_that_cannot_be_written_can_still_be_locked_for_reading() {
        let temp = tempfile::tempdir().unwrap();
        let cache = Cache::at(temp.path()).unwrap();
        drop(cache.lock("x").unwrap());
        let locks = temp.path().join("locks");
        fs::set_permissions(locks.join("x"), fs::Permissions::from_mode(0o444)).unwrap();
        fs::set_permissions(&locks, fs::Permissions::from_mode(0o555)).unwrap();
        // Root may write everywhere; for it this only shows that locking twice in a row works.
        drop(cache.lock("x").unwrap());
        drop(cache.lock("y").unwrap());
        fs::set_permissions(&locks, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
