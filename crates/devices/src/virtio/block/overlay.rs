//! Copy-on-write over a disk that is never modified.

use std::collections::HashMap;
use std::io;

use super::{Disk, SECTOR};
use crate::state::{StateError, StateReader, StateWriter};

/// Unit of copying in bytes: a page, so that file systems' blocks rarely need the base to be read
/// first.
const CLUSTER: u64 = 4096;

/// Keeps what is written in memory, page by page, and reads the rest from `base`. Dropping it
/// forgets the writes.
///
/// Memory is bounded by `limit`: a write that would need more fails, and the guest sees an I/O
/// error. Without a limit the bound is the size of the disk. Pages that are discarded or zeroed
/// again cost nothing.
pub struct Overlay {
    base: Box<dyn Disk>,
    /// A page of the overlay by its number; `None` is a page of zeroes.
    pages: HashMap<u64, Option<Box<[u8]>>>,
    /// Bytes of data held in memory.
    used: u64,
    limit: u64,
}

impl Overlay {
    /// An overlay on `base` that holds at most `limit` bytes of data.
    pub fn new(base: Box<dyn Disk>, limit: Option<u64>) -> Self {
        Self {
            base,
            pages: HashMap::new(),
            used: 0,
            limit: limit.unwrap_or(u64::MAX),
        }
    }

    /// The page `number` ready for changing, copied from the base unless `whole` (it is then about
    /// to be overwritten).
    fn page_mut(&mut self, number: u64, whole: bool) -> io::Result<&mut [u8]> {
        let start = number * CLUSTER;
        let slot = match self.pages.entry(number) {
            std::collections::hash_map::Entry::Occupied(slot) => slot.into_mut(),
            std::collections::hash_map::Entry::Vacant(slot) => {
                check_limit(self.used, self.limit)?;
                let mut page = vec![0; CLUSTER as usize].into_boxed_slice();
                if !whole {
                    // The last page of a disk may be short.
                    let len = CLUSTER.min(self.base.sectors() * SECTOR - start) as usize;
                    self.base.read(start, &mut page[..len])?;
                }
                self.used += CLUSTER;
                slot.insert(Some(page))
            }
        };
        if slot.is_none() {
            check_limit(self.used, self.limit)?;
            self.used += CLUSTER;
        }
        Ok(slot.get_or_insert_with(|| vec![0; CLUSTER as usize].into_boxed_slice()))
    }
}

fn check_limit(used: u64, limit: u64) -> io::Result<()> {
    if used + CLUSTER > limit {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            "the overlay's memory limit is reached",
        ));
    }
    Ok(())
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
        let covered = |(page, _, _)| self.pages.contains_key(&page);
        if !pieces(offset, data.len() as u64).all(covered) {
            self.base.read(offset, data)?;
        }
        let mut rest = data;
        for (number, start, len) in pieces(offset, rest.len() as u64) {
            let (piece, tail) = rest.split_at_mut(len);
            match self.pages.get(&number) {
                Some(Some(page)) => piece.copy_from_slice(&page[start..start + len]),
                Some(None) => piece.fill(0),
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
        for (number, start, len) in pieces(offset, len) {
            if len as u64 == CLUSTER {
                if let Some(Some(_)) = self.pages.insert(number, None) {
                    self.used -= CLUSTER;
                }
            } else {
                self.page_mut(number, false)?[start..start + len].fill(0);
            }
        }
        Ok(())
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
            to.bytes(page.as_deref().unwrap_or_default());
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.pages.clear();
        self.used = 0;
        let all = self.base.sectors().div_ceil(CLUSTER / SECTOR);
        for _ in 0..from.number::<u64>()? {
            let number = from.number()?;
            let page = from.bytes(CLUSTER as usize)?;
            if number >= all || !matches!(page.len() as u64, 0 | CLUSTER) {
                return Err(StateError("has other disks"));
            }
            self.used += page.len() as u64;
            let page = (!page.is_empty()).then(|| page.into());
            self.pages.insert(number, page);
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
        let mut overlay = Overlay::new(Box::new(disk), Some(CLUSTER));
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
        assert_eq!(overlay.used, CLUSTER);
        assert!(
            overlay.write_zeroes(0, 512).is_err(),
            "part of a page of zeroes needs a page"
        );
    }

    proptest! {
        /// Whatever is done to it, the overlay reads like a copy of the disk, and the base file
        /// stays as it was.
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
            prop_assert_eq!(data, model);
            prop_assert_eq!(std::fs::read(file.path()).unwrap(), original);
        }
    }
}
