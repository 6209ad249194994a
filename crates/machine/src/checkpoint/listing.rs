//! Which pages of RAM have something in them, and where that is stored: each content once, in this
//! file or in another one that it shares pages with.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};
use trapless_hart::Ram;

use super::base::Base;
use super::file::{damaged, unreadable};
use super::pages::{self, Extent, PAGE};
use super::source::Source;
use crate::error::Error;

/// Pages read or written at once: they stay in the processor's caches.
const PIECE: usize = 64;
/// Pages that a host clears at once if it can.
const HUGE: usize = 512;
/// RAM with fewer pages is restored by one thread.
const ALONE: usize = 4096;

/// Pages of another file.
#[derive(Serialize, Deserialize)]
struct Shared {
    /// How many it has itself.
    pages: u32,
    /// Checksum of their checksums.
    sum: u32,
}

/// The list of pages.
#[derive(Serialize, Deserialize)]
pub(super) struct Listing {
    /// Where they are in RAM.
    places: Vec<Extent>,
    /// What is in them, in the same order: numbers of stored pages, those of the other file first.
    contents: Vec<Extent>,
    /// Checksums of the pages that this file has itself.
    pub sums: Vec<u32>,
    shared: Option<Shared>,
}

/// The checksum of checksums.
fn sum_of(sums: &[u32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    sums.iter()
        .for_each(|sum| hasher.update(&sum.to_le_bytes()));
    hasher.finalize()
}

/// Finds out what has to be stored. Checksums tell where the same content may be; it counts only
/// if it is equal.
struct Collector<'a> {
    ram: &'a Ram,
    base: Option<&'a Base>,
    listing: Listing,
    /// A stored page for each checksum.
    known: HashMap<u32, u32>,
    /// Where the pages that this file has itself are in RAM.
    own: Vec<u32>,
    /// The stored page of the last one.
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
        // What followed the last one is likely to follow it here, too.
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

/// What a file needs to hold: the list, and where its own pages are in RAM.
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

/// Pages that are neighbours in RAM and where they are stored.
#[derive(Clone, Copy)]
struct Run {
    place: usize,
    stored: usize,
    count: usize,
}

impl Listing {
    /// Refuses one that does not fit RAM and both files.
    fn check(&self, reader: &Reader<'_>) -> Result<(), Error> {
        let Reader {
            source,
            offset,
            base,
            ram,
        } = *reader;
        let end = offset + (self.sums.len() * PAGE) as u64;
        match source.size().map_err(unreadable)?.cmp(&end) {
            Ordering::Less => return Err(damaged("it is cut off")),
            Ordering::Equal => {}
            Ordering::Greater => return Err(damaged("something follows its end")),
        }
        let mut shared = 0;
        if let Some(expected) = &self.shared {
            let Some(base) = base else {
                return Err(Error::Invalid(
                    "the checkpoint shares pages with a file that is not there; make it again"
                        .into(),
                ));
            };
            let sums = base.sums();
            if sums.len() != expected.pages as usize || sum_of(sums) != expected.sum {
                return Err(damaged("it shares pages with another file"));
            }
            shared = sums.len();
        }
        let all = (shared + self.sums.len()) as u64;
        let end = |&(first, count): &Extent| u64::from(first) + u64::from(count);
        let count = |extents: &[Extent]| extents.iter().map(|e| u64::from(e.1)).sum::<u64>();
        if !pages::are_in(ram, &self.places) {
            return Err(damaged("it has pages outside RAM"));
        }
        let stored = self.contents.iter().all(|extent| end(extent) <= all);
        if !stored || count(&self.places) != count(&self.contents) {
            return Err(damaged("its pages are not all there"));
        }
        Ok(())
    }

    /// Both lists as one.
    fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut contents = self.contents.iter().copied();
        let (mut stored, mut left) = (0, 0);
        for &(place, count) in &self.places {
            let (mut place, mut count) = (place as usize, count as usize);
            while count > 0 {
                if left == 0 {
                    let Some((first, count)) = contents.next() else {
                        return runs;
                    };
                    (stored, left) = (first as usize, count as usize);
                }
                let many = count.min(left).min(PIECE);
                runs.push(Run {
                    place,
                    stored,
                    count: many,
                });
                (place, count) = (place + many, count - many);
                (stored, left) = (stored + many, left - many);
            }
        }
        runs
    }

    /// Puts all pages into RAM.
    pub fn restore(&self, reader: &Reader<'_>) -> Result<(), Error> {
        self.check(reader)?;
        reader.ram.clear();
        let runs = self.runs();
        // The host clears memory at its first touch, and that is most of the work: two processors
        // take by turns what it clears at once.
        let huge: Vec<&[Run]> = runs
            .chunk_by(|a, b| a.place / HUGE == b.place / HUGE)
            .collect();
        let next = AtomicUsize::new(0);
        let read = || {
            let taken = std::iter::from_fn(|| huge.get(next.fetch_add(1, Relaxed)));
            reader.read(self, taken.copied().flatten(), pages::write)
        };
        let total: usize = runs.iter().map(|run| run.count).sum();
        if total < ALONE {
            return read();
        }
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("restore".into());
            let other = builder.spawn_scoped(scope, read);
            let done = read();
            let other = match other {
                Ok(other) => other
                    .join()
                    .unwrap_or_else(|_| Err(damaged("it cannot be read"))),
                // There are no more threads.
                Err(_) => Ok(()),
            };
            done.and(other)
        })
    }

    /// The same for RAM that has most of it already: only what differs is stored.
    pub fn restore_changes(&self, reader: &Reader<'_>) -> Result<(), Error> {
        self.check(reader)?;
        let mut listed = vec![false; (reader.ram.size() / PAGE as u64) as usize];
        for &(first, count) in &self.places {
            let first = first as usize;
            listed[first..first + count as usize].fill(true);
        }
        let mut filled = Vec::new();
        pages::for_each_filled(reader.ram, |place, _| {
            if !listed[place as usize] {
                filled.push(place as usize);
            }
        });
        for place in filled {
            pages::change(reader.ram, place, &[0; PAGE]);
        }
        reader.read(self, self.runs().iter(), pages::change)
    }
}

/// Reads pages into RAM.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The file.
    pub source: &'a dyn Source,
    /// Where its own pages begin; it ends with them.
    pub offset: u64,
    /// The file that it shares pages with.
    pub base: Option<&'a Base>,
    /// Where they go.
    pub ram: &'a Ram,
}

impl Reader<'_> {
    /// Calls `put` with RAM, the number of a page in it, and the bytes from there on.
    fn read<'r>(
        &self,
        listing: &Listing,
        runs: impl Iterator<Item = &'r Run>,
        put: fn(&Ram, usize, &[u8]),
    ) -> Result<(), Error> {
        let mut piece = vec![0; PIECE * PAGE];
        let shared = self.base.filter(|_| listing.shared.is_some());
        let sums = shared.map(Base::sums).unwrap_or_default();
        for &Run {
            place,
            stored,
            count,
        } in runs
        {
            // A run may begin in the other file and end in this one.
            let there = count.min(sums.len().saturating_sub(stored));
            let (bytes, mut at) = (&mut piece[..count * PAGE], 0);
            if let (Some(base), 1..) = (shared, there) {
                let bytes = &mut bytes[..there * PAGE];
                base.read(stored as u32, bytes).map_err(unreadable)?;
                verify(bytes, &sums[stored..])?;
                at = there;
            }
            if at < count {
                let own = stored + at - sums.len();
                let bytes = &mut bytes[at * PAGE..];
                let offset = self.offset + (own * PAGE) as u64;
                self.source.read_at(offset, bytes).map_err(unreadable)?;
                verify(bytes, &listing.sums[own..])?;
            }
            put(self.ram, place, bytes);
        }
        Ok(())
    }
}

/// Compares pages with their checksums.
fn verify(bytes: &[u8], sums: &[u32]) -> Result<(), Error> {
    let mut pages = bytes.chunks_exact(PAGE).zip(sums);
    if pages.all(|(page, sum)| crc32fast::hash(page) == *sum) {
        return Ok(());
    }
    Err(damaged("the checksum of its memory is wrong"))
}
