//! The file of a log.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// Size of the buffer in bytes: an `exec` log has gigabytes.
const BUFFER: usize = 1 << 20;

struct Inner {
    out: BufWriter<File>,
    path: PathBuf,
    failed: Option<io::Error>,
}

/// A buffered file with several writers. After a failed write everything else is dropped, so that a
/// full disk does not end the machine; [`finish`](Self::finish) returns the error.
#[derive(Clone)]
pub struct LogFile(Arc<Mutex<Inner>>);

impl LogFile {
    /// Creates or replaces the file `path`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| {
            Error::Invalid(format!("cannot create the log {}: {e}", path.display()))
        })?;
        Ok(Self(Arc::new(Mutex::new(Inner {
            out: BufWriter::with_capacity(BUFFER, file),
            path: path.into(),
            failed: None,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line.
    pub fn line(&self, text: Arguments<'_>) {
        let mut inner = self.lock();
        if inner.failed.is_none() {
            inner.failed = writeln!(inner.out, "{text}").err();
        }
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn finish(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        if inner.failed.is_none() {
            inner.failed = inner.out.flush().err();
        }
        match &inner.failed {
            None => Ok(()),
            Some(e) => Err(Error::Invalid(format!(
                "the log {} is incomplete: {e}; free some space or log less",
                inner.path.display()
            ))),
        }
    }
}

impl Write for LogFile {
    /// Never fails: see the type.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.lock();
        if inner.failed.is_none() {
            inner.failed = inner.out.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Start of a line: time and hart.
pub(super) fn start(time: u64, hart: usize) -> String {
    format!("{time:>14} {hart:>2}")
}
