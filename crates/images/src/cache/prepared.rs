//! Finished images in the cache: what is known of each.

use crate::debian::package::Package;
use crate::digest::{sha256_file, sha256_parts};
use crate::error::{Result, io};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

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
    (sha256_file(&prepared.path).ok()? == prepared.sha256).then_some(prepared)
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
}
