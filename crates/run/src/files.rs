//! Files that the user names.
//!
//! An input may be a pipe without a writer, or a device without an end. An output file gets its
//! name only when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use trapless_machine::Content;

use crate::interrupt;
pub use output::Output;

mod output;

/// Maximum number of bytes that are read from one file into this program's own memory.
const MOST: u64 = 1 << 30;
/// How long to wait for data before checking Ctrl-C again.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// Reads a file the user named; `what` describes it in errors.
///
/// # Errors
/// If it cannot be read or has more than 1 GiB, or the user interrupts while a pipe has no data.
pub fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    let context = || format!("cannot read the {what} {}", path.display());
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .with_context(context)?;
    let metadata = file.metadata().with_context(context)?;
    let mut bytes = Vec::new();
    if !metadata.is_file() {
        return read_stream(file, path, what);
    }
    if metadata.len() > MOST {
        return Err(too_large(path, what));
    }
    file.read_to_end(&mut bytes).with_context(context)?;
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
    let mut waiting = false;
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
            if !waiting {
                note!("Waiting for the {what} from {}", path.display());
            }
            waiting = true;
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

/// Reads a text file.
///
/// # Errors
/// As [`read`], or if it is not UTF-8.
pub fn text(path: &Path, what: &str) -> Result<String> {
    String::from_utf8(read(path, what)?)
        .with_context(|| format!("cannot read the {what} {}", path.display()))
}

/// Content of a file the user named, which may be large. A regular file is read when it is loaded.
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

/// Rejects a result file that could not be written later. Only its folder is created.
///
/// # Errors
/// If it cannot be written, with the reason.
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
/// If it cannot be written; an older file of that name is unchanged.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut output = Output::create(path)?;
    output
        .write_all(bytes.as_ref())
        .with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}
