//! The cache folder: package files named by their SHA-256, trees and images named by what they were made from.

use crate::error::{Result, io};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A cache folder. Everything below it can be deleted at any time and is made again when needed.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens (and creates) the cache: `TRAPLESS_CACHE` if set, else `.cache` in the project folder.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(project: &Path) -> Result<Self> {
        let root = std::env::var_os("TRAPLESS_CACHE")
            .map_or_else(|| project.join(".cache"), PathBuf::from);
        Self::at(&root)
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

    /// Waits until no other process works on `name` and keeps others out until the result is dropped.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.folder("locks")?.join(name);
        let file = File::create(&path).map_err(io("create", &path))?;
        file.lock().map_err(io("lock", &path))?;
        Ok(file)
    }
}

/// SHA-256 of a file in lower-case hexadecimal.
pub(crate) fn sha256_file(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(io("open", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer).map_err(io("read", path))?;
        if n == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..n]);
    }
}

/// SHA-256 of several byte strings; their borders count.
pub(crate) fn sha256_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
