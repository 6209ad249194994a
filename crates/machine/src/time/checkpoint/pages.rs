//! RAM in a checkpoint: pages that are not all zero.

use trapless_hart::Ram;
use trapless_isa::page::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress};

/// Bytes of a page.
pub(super) const PAGE: usize = PAGE_SIZE as usize;
/// Pages read at a time: a huge page of most hosts.
const PIECE: usize = 512;

/// Contiguous pages: the number of the first, and how many.
pub(super) type Extent = (u32, u32);

/// Bytes of RAM from page `first` on.
pub(super) fn read(ram: &Ram, first: usize, bytes: &mut [u8]) {
    let at = GuestAddress(ram.base() + (first * PAGE) as u64);
    ram.guest_memory()
        .read_slice(bytes, at)
        .expect("pages of RAM are in RAM");
}

/// Adds a number to extents.
pub(super) fn add(extents: &mut Vec<Extent>, number: u32) {
    match extents.last_mut() {
        Some((start, count)) if *start + *count == number => *count += 1,
        _ => extents.push((number, 1)),
    }
}

/// Calls `visit` with the number and the bytes of each page that is not all zero.
pub(super) fn for_each_filled(ram: &Ram, mut visit: impl FnMut(u32, &[u8])) {
    let mut piece = vec![0; PIECE * PAGE];
    for range in ram.populated() {
        for first in range.clone().step_by(PIECE) {
            let bytes = &mut piece[..PIECE.min(range.end - first) * PAGE];
            read(ram, first, bytes);
            for (index, page) in bytes.chunks_exact(PAGE).enumerate() {
                // Written so that the compiler vectorizes it.
                let (words, _) = page.as_chunks::<8>();
                if words.iter().fold(0, |all, &w| all | u64::from_ne_bytes(w)) != 0 {
                    visit((first + index) as u32, page);
                }
            }
        }
    }
}

/// Whether all extents are in RAM, in ascending order without overlap.
pub(super) fn are_in(ram: &Ram, extents: &[Extent]) -> bool {
    let mut end = 0;
    let pages = ram.size() / PAGE as u64;
    extents.iter().all(|&(first, count)| {
        let from = u64::from(first);
        let fits = from >= end && from + u64::from(count) <= pages;
        end = from + u64::from(count);
        fits
    })
}

/// Writes `bytes` to RAM from page `first` on.
pub(super) fn write(ram: &Ram, first: usize, bytes: &[u8]) {
    let at = GuestAddress(ram.base() + (first * PAGE) as u64);
    ram.guest_memory()
        .write_slice(bytes, at)
        .expect("pages of RAM are in RAM");
}

/// The same where most of it is unchanged: writes only differences, as stores of a hart.
pub(super) fn change(ram: &Ram, first: usize, bytes: &[u8]) {
    let mut now = [0; PAGE];
    for (page, bytes) in (first..).zip(bytes.chunks_exact(PAGE)) {
        read(ram, page, &mut now);
        if now == bytes {
            continue;
        }
        let at = ram.base() + (page * PAGE) as u64;
        let (old, new) = (now.as_chunks::<8>().0, bytes.as_chunks::<8>().0);
        for (at, (old, new)) in (at..).step_by(8).zip(old.iter().zip(new)) {
            if old != new {
                ram.store(at, 8, u64::from_le_bytes(*new))
                    .expect("pages of RAM are in RAM");
            }
        }
    }
}
