//! User-level exception redirection (Xuer): some programs in a guest have it, and a device that is
//! marked MMIO. Handlers are code of the program in U-mode.

use trapless_isa::cause::exception;
use trapless_isa::csr::{self, hstatus, ustatus};

use super::program::Program;
use super::rng::Rng;
use super::space::Space;
use super::tables::{DEVICE, guest_entry, pte};

/// Leaf of the second stage that is marked MMIO.
const MMIO: u64 = 1 << 57;

/// Gives it to the program of some seeds.
pub fn add(program: &mut Program, space: &Space, seed: u64) {
    // Numbers of its own: a seed has the program it had before there was Xuer.
    let rng = &mut Rng::new(seed ^ 0x0ACE);
    if !space.mode.v() || !rng.chance(60) {
        return;
    }
    program.config.extensions.xuer = true;
    let leaf = pte::V | pte::U | MMIO | rng.pick(&[pte::R, pte::R | pte::W, pte::R | pte::W]);
    let entry = guest_entry(&program.words, DEVICE);
    program.words.insert(entry, leaf);
    let faults = 1 << exception::LOAD_GUEST_PAGE | 1 << exception::STORE_GUEST_PAGE;
    let medeleg = rng.pick(&[0, 0xF0_0400, faults, 1 << exception::LOAD_GUEST_PAGE]);
    let status = rng.pick(&[0, ustatus::UH | ustatus::UPV, u64::MAX]);
    let hur = rng.pick(&[0, hstatus::HUR, hstatus::HUR, hstatus::HUR]);
    for (csr, value) in &mut program.csrs {
        if *csr == csr::HSTATUS {
            *value |= hur;
        }
    }
    let entry = program.entries[rng.below(8) as usize];
    let random = rng.next();
    let more = [
        (csr::MEDELEG, medeleg),
        (csr::HUEDELEG, rng.pick(&[u64::MAX, 3 << 24, random])),
        (csr::UTVEC, entry & !3),
        (csr::UEPC, program.entries[0]),
        (csr::USTATUS, status),
    ];
    program.csrs.splice(0..0, more);
}
