//! The list of non-zero pages of RAM, and where their content is stored: each content once, in this
//! file or in the base that it shares pages with.

use std::io::Read;

use serde::{Deserialize, Serialize};

use super::errors::damaged;
use super::file;
use super::pages::Extent;
use crate::error::Error;

/// Pages of the base.
#[derive(Serialize, Deserialize)]
pub(super) struct Shared {
    /// Number of its own pages.
    pub pages: u32,
    /// Checksum of their checksums.
    pub sum: u32,
}

/// The list of pages.
#[derive(Serialize, Deserialize)]
pub(super) struct Listing {
    /// Numbers of the pages in RAM.
    pub places: Vec<Extent>,
    /// Their content, in the same order: numbers of stored pages, those of the base first.
    pub contents: Vec<Extent>,
    /// Checksums of the pages that this file stores itself.
    pub sums: Vec<u32>,
    /// The base, which stores the others.
    pub shared: Option<Shared>,
}

impl Listing {
    /// Reads it at the present position of a file.
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
