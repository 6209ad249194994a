//! Where the data of a command is: physical region pages (NVM Express Base 1.4, section 4.3).

use trapless_devices::{DeviceMemory, value_le};
use vm_memory::{Bytes, GuestAddress};

use super::command::Failure;

/// The only page size there is (CC.MPS).
pub(super) const PAGE: u64 = 4096;
/// Bytes of an entry.
const ENTRY: u64 = 8;

/// Bytes that follow each other in the device's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub address: u64,
    pub len: usize,
}

/// The pieces of `len` bytes that the two entries of a command describe, as many pages at most.
///
/// # Errors
/// If an entry has an offset where none is allowed, or a list cannot be read.
pub(super) fn pieces(
    memory: &DeviceMemory,
    [first, second]: [u64; 2],
    len: usize,
) -> Result<Vec<Piece>, Failure> {
    if first % 4 != 0 {
        return Err(Failure::PRP_OFFSET);
    }
    let mut left = len;
    let mut pieces = Vec::new();
    let mut take = |address: u64, room: u64| {
        let len = left.min(room as usize);
        left -= len;
        pieces.push(Piece { address, len });
        left
    };
    let mut left = take(first, PAGE - first % PAGE);
    if left == 0 {
        return Ok(pieces);
    }
    if left as u64 <= PAGE {
        take(whole_page(second)?, PAGE);
        return Ok(pieces);
    }
    if second % ENTRY != 0 {
        return Err(Failure::PRP_OFFSET);
    }
    let mut list = second;
    while left != 0 {
        // The last entry of a page leads to the next one if one is not enough.
        let here = (PAGE - list % PAGE) / ENTRY;
        let needed = (left as u64).div_ceil(PAGE);
        let mut bytes = vec![0; (here.min(needed) * ENTRY) as usize];
        let read = memory.read_slice(&mut bytes, GuestAddress(list));
        read.map_err(|_| Failure::DATA_TRANSFER)?;
        let mut entries = bytes.chunks_exact(ENTRY as usize).map(value_le);
        let pages = if needed > here { here - 1 } else { needed };
        for entry in entries.by_ref().take(pages as usize) {
            left = take(whole_page(entry)?, PAGE);
        }
        if let Some(next) = entries.next() {
            list = whole_page(next)?;
        }
    }
    Ok(pieces)
}

/// An entry that may not have an offset.
fn whole_page(entry: u64) -> Result<u64, Failure> {
    match entry % PAGE {
        0 => Ok(entry),
        _ => Err(Failure::PRP_OFFSET),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trapless_devices::GuestRam;

    use super::*;

    const RAM: u64 = 0x10_0000;

    fn memory(entries: &[(u64, u64)]) -> DeviceMemory {
        let ram = GuestRam::from_ranges(&[(GuestAddress(RAM), 0x4000)]).unwrap();
        for (at, entry) in entries {
            ram.write_obj(*entry, GuestAddress(RAM + at)).unwrap();
        }
        Arc::new(ram).into()
    }

    fn lens(pieces: &[Piece]) -> Vec<(u64, usize)> {
        pieces
            .iter()
            .map(|piece| (piece.address, piece.len))
            .collect()
    }

    /// Promise: data lies where the entries say: in one page, in two, or in those of a list which
    /// goes on in another page.
    #[test]
    fn entries_are_followed() {
        let memory = memory(&[
            (0xff0, 0x5000),
            (0xff8, RAM + 0x1000),
            (0x1000, 0x9000),
            (0x1008, 0x7000),
        ]);
        let pieces = |prp, len| lens(&pieces(&memory, prp, len).unwrap());
        assert_eq!(pieces([0x1234, 3], 512), [(0x1234, 512)]);
        assert_eq!(
            pieces([0x1e00, 0x8000], 1024),
            [(0x1e00, 512), (0x8000, 512)]
        );
        let list = [0x1e00, RAM + 0x1000];
        assert_eq!(
            pieces(list, 512 + 4096 + 512),
            [(0x1e00, 512), (0x9000, 4096), (0x7000, 512)]
        );
        let chained = [0x1000, RAM + 0xff0];
        assert_eq!(
            pieces(chained, 4 * 4096),
            [
                (0x1000, 4096),
                (0x5000, 4096),
                (0x9000, 4096),
                (0x7000, 4096)
            ]
        );
        assert_eq!(
            pieces(chained, 2 * 4096 + 8),
            [(0x1000, 4096), (0x5000, 4096), (RAM + 0x1000, 8)]
        );
    }

    /// Promise: wrong offsets and lists that lead nowhere or to themselves are refused.
    #[test]
    fn wrong_entries_are_refused() {
        let memory = memory(&[(0xff8, RAM + 0xff8), (0x2000, 0x5001)]);
        for (prp, len, failure) in [
            ([2, 0], 512, Failure::PRP_OFFSET),
            ([0x1000, 0x2004], 8192, Failure::PRP_OFFSET),
            ([0x1000, RAM + 4], 3 * 4096, Failure::PRP_OFFSET),
            ([0x1000, RAM + 0x2000], 3 * 4096, Failure::PRP_OFFSET),
            ([0x1000, RAM + 0xff8], 3 * 4096, Failure::PRP_OFFSET),
            ([0x1000, 0x1000], 3 * 4096, Failure::DATA_TRANSFER),
            ([0x1000, u64::MAX - 7], 3 * 4096, Failure::DATA_TRANSFER),
        ] {
            assert_eq!(pieces(&memory, prp, len), Err(failure), "{prp:x?}");
        }
        assert!(
            pieces(&memory, [u64::MAX - 3, 0], 4).is_ok(),
            "refused when used"
        );
    }
}
