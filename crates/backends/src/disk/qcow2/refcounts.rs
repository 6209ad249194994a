//! Checks that the refcounts of an image mark its own tables as used.
//!
//! Writers of a qcow2 image (QEMU, docs/interop/qcow2) allocate clusters whose refcount is 0. Where
//! refcounts are truncated or zeroed, these include the header and the tables themselves: the next
//! write would destroy the image, and `imago`, which then places the first refcount block in the
//! cluster of the header, would search for it without end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Maximum size of tables in bytes, as in QEMU.
const MAX_REFCOUNT_TABLE: u64 = 8 << 20;
const MAX_L1_TABLE: u64 = 32 << 20;
/// Bits of an entry of either table that are an offset in the file.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Bits of a refcount in version 2, as a power of two.
const ORDER_V2: u32 = 4;

/// Rejects an image that any write would destroy.
///
/// # Errors
/// If it is damaged or cannot be read.
pub fn check(file: &File) -> io::Result<()> {
    let image = Tables::read(file)?;
    image.check_used(0, "header")?;
    image.check_range(image.refcounts_at, image.refcounts.len(), "refcount table")?;
    for block in image.refcounts.iter().map(|entry| entry & OFFSET) {
        image.check_entry(block, "refcount block")?;
    }
    image.check_range(image.l1_at, image.l1.len(), "L1 table")?;
    for table in image.l1.iter().map(|entry| entry & OFFSET) {
        image.check_entry(table, "L2 table")?;
    }
    Ok(())
}

/// The tables that lead to all others.
struct Tables<'f> {
    file: &'f File,
    cluster_bits: u32,
    /// Bits of a refcount, as a power of two.
    order: u32,
    refcounts_at: u64,
    refcounts: Vec<u64>,
    l1_at: u64,
    l1: Vec<u64>,
}

impl<'f> Tables<'f> {
    /// Reads them.
    fn read(file: &'f File) -> io::Result<Self> {
        let mut header = [0; 104];
        // A header of version 2 is shorter, but its cluster is not.
        file.read_exact_at(&mut header, 0)?;
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        let long = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        let cluster_bits = word(20);
        let order = if word(4) < 3 { ORDER_V2 } else { word(96) };
        if !(9..=21).contains(&cluster_bits) || order > 6 {
            return Err(damaged("header"));
        }
        let (refcounts_at, l1_at) = (long(48), long(40));
        let refcounts_len = u64::from(word(56)) << cluster_bits;
        Ok(Self {
            file,
            cluster_bits,
            order,
            refcounts_at,
            refcounts: table(
                file,
                refcounts_at,
                refcounts_len,
                MAX_REFCOUNT_TABLE,
                "refcount table",
            )?,
            l1_at,
            l1: table(
                file,
                l1_at,
                u64::from(word(36)) * 8,
                MAX_L1_TABLE,
                "L1 table",
            )?,
        })
    }

    /// The refcount of a cluster, or at least whether it is 0.
    fn refcount(&self, cluster: u64) -> io::Result<u64> {
        let in_block_bits = self.cluster_bits + 3 - self.order;
        let index = usize::try_from(cluster >> in_block_bits).unwrap_or(usize::MAX);
        let Some(block) = self.refcounts.get(index).map(|entry| entry & OFFSET) else {
            return Ok(0);
        };
        if block == 0 {
            return Ok(0);
        }
        let bit = (cluster & ((1 << in_block_bits) - 1)) << self.order;
        let mut bytes = [0; 8];
        let len = ((1 << self.order) / 8_usize).max(1);
        self.file
            .read_exact_at(&mut bytes[8 - len..], block + bit / 8)?;
        let value = u64::from_be_bytes(bytes);
        Ok(match self.order {
            0..3 => value >> (bit % 8) & ((1 << (1 << self.order)) - 1),
            _ => value,
        })
    }

    fn check_used(&self, cluster: u64, what: &str) -> io::Result<()> {
        match self.refcount(cluster) {
            Ok(0) => Err(damaged(what)),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged(what)),
            Err(error) => Err(error),
        }
    }

    /// Checks the target of an entry of a table; 0 is none.
    fn check_entry(&self, offset: u64, what: &str) -> io::Result<()> {
        match offset {
            0 => Ok(()),
            offset => self.check_used(offset >> self.cluster_bits, what),
        }
    }

    /// The clusters of a table with so many entries.
    fn check_range(&self, at: u64, entries: usize, what: &str) -> io::Result<()> {
        let end = at.saturating_add(8 * entries as u64);
        let clusters = at >> self.cluster_bits..end.div_ceil(1 << self.cluster_bits);
        clusters
            .into_iter()
            .try_for_each(|cluster| self.check_used(cluster, what))
    }
}

/// A table of the file.
fn table(file: &File, at: u64, bytes: u64, most: u64, what: &str) -> io::Result<Vec<u64>> {
    // A table longer than the file is rejected before memory is allocated for it.
    if bytes > most.min(file.metadata()?.len()) {
        return Err(damaged(what));
    }
    let mut raw = vec![0; usize::try_from(bytes).unwrap_or(0)];
    file.read_exact_at(&mut raw, at)
        .map_err(|_| damaged(what))?;
    let (entries, _) = raw.as_chunks::<8>();
    Ok(entries.iter().copied().map(u64::from_be_bytes).collect())
}

fn damaged(what: &str) -> io::Error {
    io::Error::other(format!(
        "its {what} is damaged, or free by its refcounts, and a write would destroy it; leave out rw"
    ))
}
