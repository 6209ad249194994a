//! Finished images in the cache: what is known of each.

use crate::debian::package::Package;
use crate::digest::{sha256_file, sha256_parts};
use crate::error::{Result, io};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A package that went into an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PackageVersion {
    /// Package name.
    pub name: String,
    /// Full Debian version.
    pub version: String,
    /// Debian architecture.
    pub arch: String,
}

impl From<&Package> for PackageVersion {
    fn from(package: &Package) -> Self {
        Self {
            name: package.name.clone(),
            version: package.version.clone(),
            arch: package.arch.clone(),
        }
    }
}

/// An image ready for use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Where it is.
    pub path: PathBuf,
    /// SHA-256 of its content, lower-case hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// Every package that contributed a file, also through images inside this one; sorted.
    pub packages: Vec<PackageVersion>,
}

/// The files of a folder, sorted.
pub(crate) fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(io("list", folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    Ok(files)
}

/// A folder as an image; the names of its files count.
pub(crate) fn of_folder(path: PathBuf, packages: Vec<PackageVersion>) -> Result<Prepared> {
    let mut parts = Vec::new();
    let mut size = 0;
    for file in files_of(&path)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        parts.extend([name.into_owned(), sha256_file(&file)?]);
        size += fs::metadata(&file).map_err(io("read", &file))?.len();
    }
    Ok(Prepared {
        sha256: sha256_parts(parts.iter().map(String::as_bytes)),
        path,
        size,
        packages,
    })
}

/// The finished image of a folder, if its content is what was written.
pub(crate) fn load_intact(folder: &Path) -> Option<Prepared> {
    let text = fs::read(folder.join("manifest.json")).ok()?;
    let mut prepared: Prepared = serde_json::from_slice(&text).ok()?;
    // The cache may have been moved as a whole.
    prepared.path = folder.join(prepared.path.file_name()?);
    is_intact(&prepared, &folder.join("checked.json"), now()).then_some(prepared)
}

/// How a file is told from what it was: the host changes one of these when it is written. What a
/// disk loses is found when the file is hashed again, a day later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change of the file or its attributes.
    changed: (i64, i64),
    /// Hash that the file had.
    sha256: String,
}

/// The version that was found intact, and when, in seconds.
#[derive(Serialize, Deserialize)]
struct Checked {
    version: Version,
    at: i64,
}

/// How long that counts, in seconds.
const DAY: i64 = 24 * 3600;

impl Version {
    fn of(prepared: &Prepared) -> Option<Self> {
        let found = fs::metadata(&prepared.path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
            sha256: prepared.sha256.clone(),
        })
    }

    /// Whether a write at `now` or later gives the file another time.
    fn is_old(&self, now: i64) -> bool {
        self.changed.0.saturating_add(2) <= now
    }
}

/// Seconds of the host's clock.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0))
}

/// Whether an image is what was written. Hashing a hundred megabytes takes a third as long as
/// Linux needs to boot, so that the version that was checked last is kept in the file `checked`.
fn is_intact(prepared: &Prepared, checked: &Path, now: i64) -> bool {
    let Some(version) = Version::of(prepared) else {
        return false;
    };
    let last = fs::read(checked).ok();
    let last = last.and_then(|text| serde_json::from_slice::<Checked>(&text).ok());
    if last.is_some_and(|last| last.version == version && (last.at..last.at + DAY).contains(&now)) {
        return true;
    }
    let intact = sha256_file(&prepared.path).is_ok_and(|sha256| sha256 == prepared.sha256);
    if intact && version.is_old(now) && Version::of(prepared).as_ref() == Some(&version) {
        let text = serde_json::to_vec(&Checked { version, at: now });
        // In another user's cache nothing is kept.
        let _ = fs::write(checked, text.unwrap_or_default());
    }
    intact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_or_unfinished_image_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x.cpio");
        fs::write(&path, "content").unwrap();
        assert_eq!(load_intact(temp.path()), None, "no manifest yet");
        let sha256 = sha256_file(&path).unwrap();
        let prepared = Prepared {
            path: path.clone(),
            sha256,
            size: 7,
            packages: Vec::new(),
        };
        let manifest = serde_json::to_vec(&prepared).unwrap();
        fs::write(temp.path().join("manifest.json"), manifest).unwrap();
        assert_eq!(load_intact(temp.path()), Some(prepared));
        fs::write(&path, "c0ntent").unwrap();
        assert_eq!(load_intact(temp.path()), None);
    }

    #[test]
    fn an_image_is_read_again_only_if_it_was_written() {
        let temp = tempfile::tempdir().unwrap();
        let (path, checked) = (temp.path().join("x"), temp.path().join("checked.json"));
        fs::write(&path, "content").unwrap();
        let mut prepared = Prepared {
            sha256: sha256_file(&path).unwrap(),
            path: path.clone(),
            size: 7,
            packages: Vec::new(),
        };
        let changed = Version::of(&prepared).unwrap().changed.0;
        assert!(is_intact(&prepared, &checked, changed + 1));
        assert!(!checked.exists(), "a write at the same time would not show");
        let later = changed + 10;
        assert!(is_intact(&prepared, &checked, later));
        assert!(checked.exists());
        fs::write(&path, "other content").unwrap();
        assert!(!is_intact(&prepared, &checked, later), "written");
        // As if that had been found intact some time ago.
        let version = Version::of(&prepared).unwrap();
        let known = Checked { version, at: later };
        fs::write(&checked, serde_json::to_vec(&known).unwrap()).unwrap();
        let version = known.version;
        assert!(is_intact(&prepared, &checked, later + 5), "not read");
        assert!(!is_intact(&prepared, &checked, later + DAY), "a day later");
        assert!(
            !is_intact(&prepared, &checked, later - 5),
            "the clock was set"
        );
        prepared.sha256 = "another".to_owned();
        assert!(!is_intact(&prepared, &checked, later));
        prepared.sha256 = version.sha256;
        let copy = temp.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        assert!(!is_intact(&prepared, &checked, later), "another file");
    }
}
