//! User-level exception redirection (Xuer): some programs in a guest have it, and a device that is
//! marked MMIO. Handlers are code of the program in U-mode.

use std::collections::BTreeMap;

use trapless_isa::cause::exception;
use trapless_isa::csr::{self, hstatus};
use trapless_isa::haiov::ustatus;

use super::rng::Rng;
use super::tables::{DEVICE, guest_entry, pte};

/// Leaf of the second stage that is marked MMIO.
const MMIO: u64 = 1 << 57;

/// Whether the program of a seed has it, if it begins in a guest.
pub fn wanted(seed: u64) -> bool {
    // Numbers of its own: a seed has the program it had before there was Xuer.
    Rng::new(seed ^ 0x0ACE).chance(60)
}

/// Gives it to a program with these words of memory, CSRs and entries.
pub fn add(
    seed: u64,
    words: &mut BTreeMap<u64, u64>,
    csrs: &mut Vec<(u16, u64)>,
    entries: &[u64; 8],
) {
    let rng = &mut Rng::new(seed ^ 0xACE0);
    let leaf = pte::V | pte::U | MMIO | rng.pick(&[pte::R, pte::R | pte::W, pte::R | pte::W]);
    let entry = guest_entry(words, DEVICE);
    words.insert(entry, leaf);
    let faults = 1 << exception::LOAD_GUEST_PAGE | 1 << exception::STORE_GUEST_PAGE;
    let medeleg = rng.pick(&[0, 0xF0_0400, faults, 1 << exception::LOAD_GUEST_PAGE]);
    let status = rng.pick(&[0, ustatus::UH | ustatus::UPV, u64::MAX]);
    let hur = rng.pick(&[0, hstatus::HUR, hstatus::HUR, hstatus::HUR]);
    for (csr, value) in csrs.iter_mut() {
        if *csr == csr::HSTATUS {
            *value |= hur;
        }
    }
    let entry = entries[rng.below(8) as usize];
    let random = rng.next();
    let more = [
        (csr::MEDELEG, medeleg),
        (csr::HUEDELEG, rng.pick(&[u64::MAX, 3 << 24, random])),
        (csr::UTVEC, entry & !3),
        (csr::UEPC, entries[0]),
        (csr::USTATUS, status),
    ];
    csrs.splice(0..0, more);
}
