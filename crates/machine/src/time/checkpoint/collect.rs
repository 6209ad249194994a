//! Deduplication of pages: a checkpoint stores each content once, and none that its base has.

use std::collections::HashMap;
use std::io::{self, Write};

use trapless_hart::Ram;

use super::base::Base;
use super::listing::{Listing, Shared, sum_of};
use super::pages::{self, Extent, PAGE};

/// Pages written at once: few enough to stay in the processor's caches.
const PIECE: usize = 64;

/// Determines which pages to store. Checksums find candidates for the same content, which are then
/// compared.
struct Collector<'a> {
    ram: &'a Ram,
    base: Option<&'a Base>,
    listing: Listing,
    /// A stored page for each checksum.
    known: HashMap<u32, u32>,
    /// Numbers in RAM of the pages that this file stores itself.
    own: Vec<u32>,
    /// The stored page with the content of the previous page of RAM.
    last: u32,
    other: Vec<u8>,
}

impl Collector<'_> {
    fn shared(&self) -> u32 {
        self.base.map_or(0, |base| base.sums().len() as u32)
    }

    /// The checksum of a stored page.
    fn sum(&self, stored: u32) -> Option<u32> {
        let (stored, shared) = (stored as usize, self.shared() as usize);
        match (stored.checked_sub(shared), self.base) {
            (None, Some(base)) => base.sums().get(stored).copied(),
            (own, _) => self.listing.sums.get(own?).copied(),
        }
    }

    /// Whether a stored page is this one.
    fn holds(&mut self, stored: u32, page: &[u8]) -> bool {
        match (stored.checked_sub(self.shared()), self.base) {
            (None, Some(base)) => {
                if base.read(stored, &mut self.other).is_err() {
                    return false;
                }
            }
            (own, _) => {
                let Some(place) = own.and_then(|own| self.own.get(own as usize)) else {
                    return false;
                };
                pages::read(self.ram, *place as usize, &mut self.other);
            }
        }
        self.other == page
    }

    fn take(&mut self, place: u32, page: &[u8]) {
        let sum = crc32fast::hash(page);
        // The page that followed the last match is likely to follow it here, too.
        let next = Some(self.last.wrapping_add(1)).filter(|next| self.sum(*next) == Some(sum));
        let known = next.or_else(|| self.known.get(&sum).copied());
        let stored = known.filter(|stored| self.holds(*stored, page));
        let stored = stored.unwrap_or_else(|| {
            self.own.push(place);
            self.listing.sums.push(sum);
            self.shared() + self.own.len() as u32 - 1
        });
        self.known.entry(sum).or_insert(stored);
        self.last = stored;
        pages::add(&mut self.listing.places, place);
        pages::add(&mut self.listing.contents, stored);
    }
}

/// The list of pages, and the numbers in RAM of the pages that the file stores itself.
pub(super) fn collect(ram: &Ram, base: Option<&Base>) -> (Listing, Vec<Extent>) {
    let sums = base.map(Base::sums).unwrap_or_default();
    let shared = base.map(|_| Shared {
        pages: sums.len() as u32,
        sum: sum_of(sums),
    });
    let mut collector = Collector {
        ram,
        base,
        listing: Listing {
            places: Vec::new(),
            contents: Vec::new(),
            sums: Vec::new(),
            shared,
        },
        known: sums.iter().copied().zip(0..).collect(),
        own: Vec::new(),
        last: u32::MAX - 1,
        other: vec![0; PAGE],
    };
    pages::for_each_filled(ram, |place, page| collector.take(place, page));
    let mut own = Vec::new();
    collector
        .own
        .iter()
        .for_each(|place| pages::add(&mut own, *place));
    (collector.listing, own)
}

/// Writes pages of RAM.
pub(super) fn write(to: &mut dyn Write, ram: &Ram, own: &[Extent]) -> io::Result<()> {
    let mut piece = vec![0; PIECE * PAGE];
    for &(first, count) in own {
        let (first, count) = (first as usize, count as usize);
        for at in (0..count).step_by(PIECE) {
            let bytes = &mut piece[..PIECE.min(count - at) * PAGE];
            pages::read(ram, first + at, bytes);
            to.write_all(bytes)?;
        }
    }
    Ok(())
}
