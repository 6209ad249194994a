//! Files that the user names.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, bail};
use trapless_machine::Content;

/// Reads a file the user named.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// What is in a file the user named, which may be large.
pub fn content(path: &Path, what: &str) -> Result<Content> {
    Content::of_file(path).with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// Makes the folder a file will be written to.
pub fn make_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display())),
        _ => Ok(()),
    }
}

/// Whether a result file can be written later.
pub fn check_output(path: &Path) -> Result<()> {
    if path.is_dir() {
        bail!("{} is a folder; name a file", path.display());
    }
    make_parent(path)
}

/// Writes a result file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    check_output(path)?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Opens a file for writing, and its folder.
pub fn create(path: &Path) -> Result<BufWriter<File>> {
    make_parent(path)?;
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}
