//! Which versions of an image stay in the cache: those that were used last, and those in use.

use super::lock::Locked;
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

/// How many versions of an image stay.
const KEPT: usize = 4;

/// Keeps one version of an image in the cache until it is dropped: no process removes it.
#[derive(Debug)]
pub(crate) struct InUse {
    _folder: Locked,
}

impl InUse {
    /// Uses the version in `folder`. The caller holds the lock under which versions of this image
    /// are made and removed. `None` if there is no such folder, or it is in a file system without
    /// locks.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let locked = Locked::shared(File::open(folder).ok()?).ok()?;
        // Best effort: another user's cache stays as it is.
        let _ = locked.file().set_modified(SystemTime::now());
        Some(Self { _folder: locked })
    }
}

/// Keeps what [`Images`](crate::Images) has returned in the cache until it is dropped.
#[derive(Debug, Default)]
pub struct Kept(Vec<InUse>);

impl Kept {
    pub(crate) fn add(&mut self, version: Option<InUse>) {
        self.0.extend(version);
    }
}

/// Removes all but the versions of an image that were used last; `folder` holds the one just made.
/// One that another process is about to read stays.
pub(crate) fn remove_old(folder: &Path, name: &str) {
    let key_of = |path: &Path| {
        let file = path.file_name()?.to_str()?;
        let key = file.strip_prefix(name)?.strip_prefix('-')?;
        // `host-...` must not take `host-x-...` for its own.
        (key.len() == 16 && key.bytes().all(|b| b.is_ascii_hexdigit())).then_some(())
    };
    let versions = fs::read_dir(folder.parent().unwrap_or(folder))
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<_> = versions
        .map(|entry| entry.path())
        .filter(|path| key_of(path).is_some() && path != folder)
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    versions.sort();
    versions.reverse();
    for (_, path) in versions.iter().skip(KEPT - 1) {
        let Ok(folder) = File::open(path) else {
            continue;
        };
        if let Some(_unused) = Locked::alone_now(folder) {
            // Best effort: a folder that stays costs only room.
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    /// Folders of the versions 0 to 5 of an image `host`, used in this order, an hour ago.
    fn versions(parent: &Path) -> Vec<PathBuf> {
        let began = SystemTime::now() - Duration::from_hours(1);
        let version = |n: u32| {
            let path = parent.join(format!("host-{n:016}"));
            fs::create_dir(&path).unwrap();
            let used = began + Duration::from_secs(n.into());
            File::open(&path).unwrap().set_modified(used).unwrap();
            path
        };
        (0..6).map(version).collect()
    }

    /// Promise: the cache keeps a few versions of each image, and does not take one for another.
    #[test]
    fn old_versions_of_the_same_image_only_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let other = temp.path().join("host-x-0000000000000000");
        fs::create_dir(&other).unwrap();
        let versions = versions(temp.path());
        remove_old(&versions[5], "host");
        let left: Vec<_> = versions.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [false, false, true, true, true, true]);
        assert!(other.exists());
    }

    /// Promise: several measurements side by side, each with its own version of an image, do not
    /// take the images away from each other.
    #[test]
    fn a_version_in_use_stays_and_then_counts_as_new() {
        let temp = tempfile::tempdir().unwrap();
        let versions = versions(temp.path());
        let reader = InUse::of(&versions[0]).unwrap();
        for older in &versions[1..4] {
            drop(InUse::of(older));
        }
        remove_old(&versions[5], "host");
        assert!(versions[0].exists(), "someone reads it");
        assert!(!versions[4].exists(), "the others were used later");
        drop(reader);
        remove_old(&versions[5], "host");
        assert!(!versions[0].exists(), "nobody reads it any more");
    }
}
