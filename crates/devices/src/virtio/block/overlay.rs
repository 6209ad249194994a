//! Copy-on-write over a disk that is never modified.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use rangemap::RangeSet;

use super::{Disk, SECTOR};
use crate::state::{StateError, StateReader, StateWriter};

/// Unit of copying in bytes: a page, so that file systems' blocks rarely need the base to be read
/// first.
const CLUSTER: u64 = 4096;

/// Memory of a range of zeroed pages in bytes, including the overhead of the set.
const RANGE: u64 = 64;

/// Keeps writes in memory, in pages, and reads the rest from `base`. Writes are lost when it is
/// dropped.
///
/// Memory is bounded by `limit`: a write that would need more fails, and the guest sees an I/O
/// error. Without a limit the bound is the size of the disk. Pages that are discarded or zeroed
/// again take almost no memory.
pub struct Overlay {
    base: Box<dyn Disk>,
    /// Pages of the overlay by their numbers.
    pages: HashMap<u64, Box<[u8]>>,
    /// Numbers of pages of zeroes, none of which is among `pages`. A guest discards whole disks.
    zeroed: RangeSet<u64>,
    limit: u64,
}

impl Overlay {
    /// An overlay on `base` that holds at most `limit` bytes of data.
    pub fn new(base: Box<dyn Disk>, limit: Option<u64>) -> Self {
        Self {
            base,
            pages: HashMap::new(),
            zeroed: RangeSet::new(),
            limit: limit.unwrap_or(u64::MAX),
        }
    }

    /// A disk of `bytes` zeroes in memory: an overlay on nothing. Bytes after the last whole sector
    /// are left out.
    pub fn blank(bytes: u64) -> Self {
        Self::new(Box::new(Blank(bytes / SECTOR)), None)
    }

    /// Fails if there is no room for `more` bytes once `pages` pages have been given back.
    fn check_room(&self, more: u64, pages: usize) -> io::Result<()> {
        let held = (self.pages.len() - pages) as u64 * CLUSTER;
        if held + self.zeroed.len() as u64 * RANGE + more > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the overlay's memory limit is reached",
            ));
        }
        Ok(())
    }

    /// The page `number` ready for changing, copied from the base unless `whole` (it is then about
    /// to be overwritten).
    fn page_mut(&mut self, number: u64, whole: bool) -> io::Result<&mut [u8]> {
        if !self.pages.contains_key(&number) {
            let zeroed = self.zeroed.contains(&number);
            // This may split the range it was in.
            self.check_room(CLUSTER + if zeroed { RANGE } else { 0 }, 0)?;
            let mut page = vec![0; CLUSTER as usize].into_boxed_slice();
            if zeroed {
                self.zeroed.remove(number..number + 1);
            } else if !whole {
                let start = number * CLUSTER;
                // The last page of a disk may be short.
                let len = CLUSTER.min(self.base.sectors() * SECTOR - start) as usize;
                self.base.read(start, &mut page[..len])?;
            }
            self.pages.insert(number, page);
        }
        // Just inserted, if it was not there.
        self.pages
            .get_mut(&number)
            .map(|page| &mut page[..])
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes whole pages zero.
    fn zero_pages(&mut self, numbers: Range<u64>) -> io::Result<()> {
        let held: Vec<u64> = if numbers.end - numbers.start < self.pages.len() as u64 {
            let held = |number: &u64| self.pages.contains_key(number);
            numbers.clone().filter(held).collect()
        } else {
            let zeroed = |number: &&u64| numbers.contains(*number);
            self.pages.keys().filter(zeroed).copied().collect()
        };
        // Adjacent ranges are merged.
        let touched = numbers.start.saturating_sub(1)..numbers.end + 1;
        let new = self.zeroed.overlapping(touched).next().is_none();
        self.check_room(if new { RANGE } else { 0 }, held.len())?;
        for number in held {
            self.pages.remove(&number);
        }
        self.zeroed.insert(numbers);
        Ok(())
    }
}

/// Sectors of zeroes, which only an overlay makes a disk of.
struct Blank(u64);

impl Disk for Blank {
    fn sectors(&self) -> u64 {
        self.0
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&mut self, _offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0);
        Ok(())
    }

    fn write(&mut self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn write_zeroes(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Splits `len` bytes at `offset` into (page number, start in the page, length) pieces.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        let piece = (CLUSTER - at % CLUSTER).min(end - at);
        let item = (at / CLUSTER, (at % CLUSTER) as usize, piece as usize);
        at += piece;
        (piece > 0).then_some(item)
    })
}

impl Disk for Overlay {
    fn sectors(&self) -> u64 {
        self.base.sectors()
    }

    fn read_only(&self) -> bool {
        false
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        // One read of the base for everything, then the pages on top: most reads find no page of
        // the overlay.
        let covered = |(page, _, _)| self.pages.contains_key(&page) || self.zeroed.contains(&page);
        if !pieces(offset, data.len() as u64).all(covered) {
            self.base.read(offset, data)?;
        }
        let mut rest = data;
        for (number, start, len) in pieces(offset, rest.len() as u64) {
            let (piece, tail) = rest.split_at_mut(len);
            match self.pages.get(&number) {
                Some(page) => piece.copy_from_slice(&page[start..start + len]),
                None if self.zeroed.contains(&number) => piece.fill(0),
                None => {}
            }
            rest = tail;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        for (number, start, len) in pieces(offset, data.len() as u64) {
            let (piece, tail) = rest.split_at(len);
            let page = self.page_mut(number, len as u64 == CLUSTER)?;
            page[start..start + len].copy_from_slice(piece);
            rest = tail;
        }
        Ok(())
    }

    fn write_zeroes(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset + len;
        let whole = offset.div_ceil(CLUSTER)..end / CLUSTER;
        let (head, tail) = match whole.is_empty() {
            true => (end, end),
            false => (whole.start * CLUSTER, whole.end * CLUSTER),
        };
        for (number, start, len) in pieces(offset, head - offset).chain(pieces(tail, end - tail)) {
            self.page_mut(number, false)?[start..start + len].fill(0);
        }
        if whole.is_empty() {
            return Ok(());
        }
        self.zero_pages(whole)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        let mut pages: Vec<_> = self.pages.iter().collect();
        pages.sort_by_key(|(number, _)| **number);
        to.number(pages.len() as u64);
        for (number, page) in pages {
            to.number(*number);
            to.bytes(page);
        }
        to.number(self.zeroed.len() as u64);
        for range in self.zeroed.iter() {
            to.number(range.start);
            to.number(range.end);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        const OTHER: StateError = StateError("has other disks");
        self.pages.clear();
        self.zeroed.clear();
        let all = self.base.sectors().div_ceil(CLUSTER / SECTOR);
        for _ in 0..from.number::<u64>()? {
            let number = from.number()?;
            let page = from.bytes(CLUSTER as usize)?;
            if number >= all || page.len() as u64 != CLUSTER {
                return Err(OTHER);
            }
            self.pages.insert(number, page.into());
        }
        for _ in 0..from.number::<u64>()? {
            let (start, end) = (from.number()?, from.number()?);
            if start >= end || end > all {
                return Err(OTHER);
            }
            self.zeroed.insert(start..end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::super::RawDisk;
    use super::*;

    /// 5.5 pages, so that the last page is short; byte `n` is `n % 251`.
    const SIZE: u64 = 11 * SECTOR * 4;

    fn base() -> (tempfile::NamedTempFile, Vec<u8>) {
        let bytes: Vec<u8> = (0..SIZE).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn limit_makes_writes_fail_but_not_reads() {
        let (file, bytes) = base();
        let disk = RawDisk::open(file.path(), false).unwrap();
        let mut overlay = Overlay::new(Box::new(disk), Some(CLUSTER + 2 * RANGE));
        overlay.write(0, &[1; 512]).unwrap();
        assert_eq!(
            overlay.write(CLUSTER, &[1; 512]).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        let mut data = [0; 1024];
        overlay.read(CLUSTER, &mut data).unwrap();
        assert_eq!(data[..], bytes[CLUSTER as usize..][..1024]);
        // Clearing the page makes room again.
        overlay.write_zeroes(0, CLUSTER).unwrap();
        overlay.write(CLUSTER, &[1; 512]).unwrap();
        assert_eq!(overlay.pages.len(), 1);
        assert!(
            overlay.write_zeroes(0, 512).is_err(),
            "part of a page of zeroes needs a page"
        );
    }

    #[test]
    fn blank_disk_is_zeroes_until_it_is_written() {
        let mut disk = Overlay::blank(3 * SECTOR + 1);
        assert_eq!((disk.sectors(), disk.read_only()), (3, false));
        disk.write(SECTOR, &[7; 512]).unwrap();
        let mut data = [1; 3 * SECTOR as usize];
        disk.read(0, &mut data).unwrap();
        let sectors: Vec<_> = data.chunks(512).map(|sector| sector[0]).collect();
        assert_eq!(sectors, [0, 7, 0]);
        disk.write_zeroes(SECTOR, SECTOR).unwrap();
        disk.read(0, &mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 0));
    }

    /// A disk of 1 TiB that nobody reads.
    struct Large;

    impl Disk for Large {
        fn sectors(&self) -> u64 {
            (1 << 40) / SECTOR
        }
        fn read_only(&self) -> bool {
            true
        }
        fn read(&mut self, _: u64, data: &mut [u8]) -> io::Result<()> {
            data.fill(7);
            Ok(())
        }
        fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }
        fn write_zeroes(&mut self, _: u64, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Promise: a guest that discards a large disk takes no memory of the host for it, and one that
    /// discards every second page no more than the limit.
    #[test]
    fn discards_are_bounded() {
        let mut overlay = Overlay::new(Box::new(Large), Some(100 * RANGE));
        overlay.write_zeroes(0, 1 << 40).unwrap();
        assert_eq!(overlay.zeroed.len(), 1);
        let mut data = [1; 512];
        overlay.read(1 << 39, &mut data).unwrap();
        assert_eq!(data, [0; 512]);
        let mut overlay = Overlay::new(Box::new(Large), Some(100 * RANGE));
        let discarded =
            (0..1000).take_while(|n| overlay.write_zeroes(n * 2 * CLUSTER, CLUSTER).is_ok());
        assert_eq!(discarded.count(), 100);
        // What joins ranges, or makes one longer, needs no room.
        overlay.write_zeroes(CLUSTER, CLUSTER).unwrap();
        overlay.write_zeroes(0, 1 << 40).unwrap();
        assert_eq!(overlay.zeroed.len(), 1);
    }

    proptest! {
        /// Whatever is done to it, the overlay reads like a copy of the disk, also after it was
        /// saved and restored, and the base file stays as it was.
        #[test]
        fn overlay_behaves_like_a_private_copy(
            steps in prop::collection::vec((0..3_u8, 0..44_u64, 1..20_u64, any::<u8>()), 1..40),
        ) {
            let (file, mut model) = base();
            let original = model.clone();
            let disk = RawDisk::open(file.path(), false).unwrap();
            let mut overlay = Overlay::new(Box::new(disk), None);
            for (kind, sector, sectors, byte) in steps {
                let offset = sector * SECTOR;
                let len = (sectors * SECTOR).min(SIZE - offset);
                let range = offset as usize..(offset + len) as usize;
                match kind {
                    0 => {
                        overlay.write(offset, &vec![byte; len as usize]).unwrap();
                        model[range].fill(byte);
                    }
                    1 => {
                        overlay.write_zeroes(offset, len).unwrap();
                        model[range].fill(0);
                    }
                    _ => {
                        let mut data = vec![0; len as usize];
                        overlay.read(offset, &mut data).unwrap();
                        prop_assert_eq!(&data[..], &model[range]);
                    }
                }
            }
            let mut data = vec![0; SIZE as usize];
            overlay.read(0, &mut data).unwrap();
            prop_assert_eq!(&data, &model);
            let mut state = StateWriter::default();
            overlay.save(&mut state);
            let disk = RawDisk::open(file.path(), false).unwrap();
            let mut restored = Overlay::new(Box::new(disk), None);
            restored.restore(&mut StateReader::new(&state.into_bytes())).unwrap();
            restored.read(0, &mut data).unwrap();
            prop_assert_eq!(data, model);
            prop_assert_eq!(std::fs::read(file.path()).unwrap(), original);
        }
    }
}
