//! The list of which pages of RAM have something in them, and where that is stored: each content
//! once, in this file or in another one that it shares pages with.

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::errors::damaged;
use super::file;
use super::pages::Extent;
use crate::error::Error;

/// Pages of another file.
#[derive(Serialize, Deserialize)]
pub(super) struct Shared {
    /// How many it has itself.
    pub pages: u32,
    /// Checksum of their checksums.
    pub sum: u32,
}

/// The list of pages.
#[derive(Serialize, Deserialize)]
pub(super) struct Listing {
    /// Where they are in RAM.
    pub places: Vec<Extent>,
    /// What is in them, in the same order: numbers of stored pages, those of the other file first.
    pub contents: Vec<Extent>,
    /// Checksums of the pages that this file has itself.
    pub sums: Vec<u32>,
    /// The file that has the others.
    pub shared: Option<Shared>,
}

impl Listing {
    /// Reads it where a file has it.
    pub fn read(from: &mut dyn Read) -> Result<Self, Error> {
        let listed = file::read_part(from)?;
        postcard::from_bytes(&listed).map_err(|_| damaged("its pages cannot be decoded"))
    }
}

/// The checksum of checksums.
pub(super) fn sum_of(sums: &[u32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    sums.iter()
        .for_each(|sum| hasher.update(&sum.to_le_bytes()));
    hasher.finalize()
}
