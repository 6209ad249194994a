//! Base checkpoints, with which others share pages.

use std::io;

use super::errors::{damaged, unreadable};
use super::file;
use super::listing::Listing;
use super::pages::PAGE;
use super::source::{Cursor, Source};
use super::{Header, PARTS};
use crate::error::Error;

/// A self-contained checkpoint, whose pages other checkpoints can refer to.
pub struct Base {
    /// Its name.
    pub name: String,
    source: Box<dyn Source + Send>,
    listing: Listing,
    /// Offset of its pages.
    offset: u64,
}

impl Base {
    /// Reads the list of its pages.
    ///
    /// # Errors
    /// If this is not a checkpoint, is damaged, or shares pages itself.
    pub fn open(name: String, source: Box<dyn Source + Send>) -> Result<Self, Error> {
        let mut cursor = Cursor::new(&*source).map_err(unreadable)?;
        let header = Header::read(&mut cursor)?;
        if header.base.is_some() {
            return Err(damaged("it shares pages itself"));
        }
        for _ in 0..PARTS {
            file::skip_part(&mut cursor)?;
        }
        let listing = Listing::read(&mut cursor)?;
        let offset = cursor.at;
        Ok(Self {
            name,
            source,
            listing,
            offset,
        })
    }

    /// Compares all its pages with their checksums.
    ///
    /// # Errors
    /// If they differ or cannot be read.
    pub fn check(&self) -> Result<(), Error> {
        let mut page = [0; PAGE];
        for (number, sum) in (0..).zip(self.sums()) {
            self.read(number, &mut page).map_err(unreadable)?;
            if crc32fast::hash(&page) != *sum {
                return Err(damaged("the checksum of its memory is wrong"));
            }
        }
        Ok(())
    }

    /// Checksums of its pages.
    pub(super) fn sums(&self) -> &[u32] {
        &self.listing.sums
    }

    /// Its pages from number `first` on, as many as `bytes` has room for.
    pub(super) fn read(&self, first: u32, bytes: &mut [u8]) -> io::Result<()> {
        let offset = self.offset + u64::from(first) * PAGE as u64;
        self.source.read_at(offset, bytes)
    }
}
