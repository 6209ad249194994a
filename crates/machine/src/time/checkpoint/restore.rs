//! Reading pages of a checkpoint into RAM.

use std::cmp::Ordering;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use trapless_hart::Ram;

use super::base::Base;
use super::errors::{damaged, unreadable};
use super::listing::{Listing, sum_of};
use super::pages::{self, Extent, PAGE};
use super::source::Source;
use crate::error::Error;

/// Pages read at once: few enough to stay in the processor's caches.
const PIECE: usize = 64;
/// Pages that a host clears at once with huge pages.
const HUGE: usize = 512;
/// RAM with fewer pages is restored by one thread.
const ALONE: usize = 4096;

/// Pages that are contiguous both in RAM and where they are stored.
#[derive(Clone, Copy)]
struct Run {
    place: usize,
    stored: usize,
    count: usize,
}

impl Listing {
    /// Rejects a list that does not fit RAM and both files.
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

    /// Combines both lists.
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

    /// Restores all pages.
    pub fn restore(&self, reader: &Reader<'_>) -> Result<(), Error> {
        self.check(reader)?;
        reader.ram.clear();
        let runs = self.runs();
        // Most of the time is spent in the host, which clears memory at its first access: two
        // threads alternate in pieces that it clears at once.
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
                // The second thread could not be created.
                Err(_) => Ok(()),
            };
            done.and(other)
        })
    }

    /// The same for RAM that has most of the content already: only differences are written.
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
    /// Offset of its own pages, which are the end of the file.
    pub offset: u64,
    /// The base that it shares pages with.
    pub base: Option<&'a Base>,
    /// Where to read them to.
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
            // A run may begin in the base and end in this file.
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
