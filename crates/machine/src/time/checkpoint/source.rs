//! Sources of a checkpoint's bytes.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any offset, by several threads at once.
pub trait Source: Sync {
    /// Number of bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Fills `bytes` with those from `offset` on.
    ///
    /// # Errors
    /// The system's, or `UnexpectedEof` if there are fewer.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        let from = self.get(start..end);
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Reads a source from its beginning.
pub(super) struct Cursor<'s> {
    source: &'s dyn Source,
    /// Offset of the next byte.
    pub at: u64,
    /// Number of bytes.
    pub size: u64,
}

impl<'s> Cursor<'s> {
    pub fn new(source: &'s dyn Source) -> io::Result<Self> {
        let size = source.size()?;
        Ok(Self {
            source,
            at: 0,
            size,
        })
    }
}

impl Read for Cursor<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        self.source.read_at(self.at, &mut bytes[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}
