//! Files that the user names.
//!
//! What is read may be a pipe that nobody writes to, or a device without an end. What is written
//! appears under its name only when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use trapless_machine::Content;

use crate::interrupt;

/// Most bytes that are read from one file into this program's own memory.
const MOST: u64 = 1 << 30;
/// How long to wait for data before looking at Ctrl-C again.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Reads a file the user named; `what` it is stands in errors.
///
/// # Errors
/// If it cannot be read or has more than 1 GiB, or the user interrupts while a pipe gives nothing.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    let told = || format!("cannot read the {what} {}", path.display());
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .with_context(told)?;
    let metadata = file.metadata().with_context(told)?;
    let mut bytes = Vec::new();
    if !metadata.is_file() {
        return read_stream(file, path, what);
    }
    if metadata.len() > MOST {
        return Err(too_large(path, what));
    }
    file.read_to_end(&mut bytes).with_context(told)?;
    Ok(bytes)
}

fn too_large(path: &Path, what: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{} has more than 1 GiB, too much for the {what}; name another file",
        path.display()
    )
}

/// Reads a pipe or device, blocking until end of file.
fn read_stream(mut file: File, path: &Path, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    let mut told = false;
    loop {
        if interrupt::requested() {
            return Err(interrupt::Interrupted::WithoutResult.into());
        }
        let ready = match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(ready) => ready > 0,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for a pipe"),
        };
        if !ready {
            if !told {
                note!("Waiting for the {what} from {}", path.display());
            }
            told = true;
            continue;
        }
        match file.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => {
                return Err(e)
                    .with_context(|| format!("cannot read the {what} {}", path.display()));
            }
        }
        if bytes.len() as u64 > MOST {
            return Err(too_large(path, what));
        }
    }
}

/// Reads a text.
///
/// # Errors
/// As [`read`], or if it is not UTF-8.
pub fn text(path: &Path, what: &str) -> Result<String> {
    String::from_utf8(read(path, what)?)
        .with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// What is in a file the user named, which may be large. A regular file is read when it is loaded.
///
/// # Errors
/// As [`read`].
pub fn content(path: &Path, what: &str) -> Result<Content> {
    if path.is_file() {
        return Content::of_file(path)
            .with_context(|| format!("cannot read the {what} {}", path.display()));
    }
    read(path, what).map(Content::Bytes)
}

/// Makes the folder a file will be written to.
pub fn make_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display())),
        _ => Ok(()),
    }
}

/// Refuses a result file that cannot be written later. Nothing is left behind but its folder.
///
/// # Errors
/// A sentence with the reason.
pub fn check_output(path: &Path) -> Result<()> {
    if path.exists() && !path.is_file() && !path.is_dir() {
        // A device or pipe. Opening a pipe would wait for its reader.
        return Ok(());
    }
    Output::create(path).map(drop)
}

/// Writes a result file.
///
/// # Errors
/// A sentence with the reason; an older file of that name stays as it was.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut output = Output::create(path)?;
    output
        .write_all(bytes.as_ref())
        .with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}

/// A file that is being written. It stands beside its place, under a name of its own, until
/// [`commit`](Self::commit); dropped before, it goes away. Devices and pipes are written directly.
pub struct Output {
    file: BufWriter<File>,
    path: PathBuf,
    aside: Option<PathBuf>,
}

impl Output {
    /// Begins a file, and makes its folder.
    ///
    /// # Errors
    /// If there is a folder of that name, or the file cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        if path.is_dir() {
            bail!("{} is a folder; name a file", path.display());
        }
        make_parent(path)?;
        let told = || format!("cannot write {}", path.display());
        // A link is followed: what it points to is replaced, not the link.
        let place = path.canonicalize().unwrap_or_else(|_| path.into());
        let aside = (!path.exists() || path.is_file()).then(|| aside(&place));
        let file = match &aside {
            Some(aside) => File::create(aside),
            None => OpenOptions::new().write(true).open(path),
        };
        let file = file.with_context(told)?;
        if let (Some(aside), Ok(old)) = (&aside, std::fs::metadata(&place)) {
            std::fs::set_permissions(aside, old.permissions()).with_context(told)?;
        }
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            path: place,
            aside,
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn commit(mut self) -> Result<()> {
        let told = || format!("cannot write {}", self.path.display());
        self.file.flush().with_context(told)?;
        if let Some(aside) = &self.aside {
            std::fs::rename(aside, &self.path).with_context(told)?;
        }
        self.aside = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            // Nothing can be done about what stays.
            let _ = std::fs::remove_file(aside);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Name of an unfinished file, which no other process uses.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a run that fails half-way leaves an older result as it was, and nothing beside it.
    #[test]
    fn a_file_that_is_not_finished_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.json");
        write(&path, "old").unwrap();
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, "new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn links_are_followed_and_devices_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&file, "old").unwrap();
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        write(Path::new("/dev/null"), "gone").unwrap();
        assert!(write(Path::new("/dev/full"), "no room").is_err());
    }
}
