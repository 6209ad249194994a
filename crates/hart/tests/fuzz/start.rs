//! Registers of a program at its start.

use trapless_isa::Mode;
use trapless_isa::csr::{self, envcfg, hstatus, status};

use super::code::Slot;
use super::instruction::{Place, Style};
use super::rng::Rng;
use super::space::{ALIAS, ALIASES, SUPERPAGE, Space};
use super::tables::{CODE, DATA, DATA_PAGES, DEVICE, HANDLER, PAGE, RAM, SIZE};

/// Registers of a hart at the start.
#[derive(Clone)]
pub struct Start {
    pub x: [u64; 32],
    pub f: [u64; 32],
}

/// General registers of a hart.
pub fn start(rng: &mut Rng, style: &Style, space: &Space, slots: &[Slot], starts: &[u64]) -> Start {
    let mut x = std::array::from_fn(|_| {
        if rng.chance(8) {
            // For programs that write themselves.
            let places = Place {
                at: slots[0].at,
                targets: starts,
            };
            return u64::from(style.word(rng, &places));
        }
        rng.integer()
    });
    for register in &style.pointers {
        let offset = match rng.below(6) {
            0 => 0,
            1 => PAGE - 8,
            2 => PAGE - rng.below(16),
            3 => rng.below(PAGE),
            _ => 8 * rng.below(PAGE / 8),
        };
        let page = match rng.below(8) {
            0 => rng.below(16),
            _ => rng.below(DATA_PAGES),
        };
        let value = match rng.below(12) {
            0 if space.data_paged => {
                let alias = 1 + rng.below(ALIASES - 1);
                space.data + alias * ALIAS + page * PAGE
            }
            1 if space.data_paged => SUPERPAGE + rng.below(SIZE / PAGE + 1) * PAGE,
            0 if !space.data_paged => DEVICE,
            1 if !space.data_paged => RAM + SIZE - PAGE,
            3 => rng.integer(),
            _ => space.data + page * PAGE,
        };
        x[usize::from(*register)] = value.wrapping_add(offset);
        // The program's own code.
        let slot = slots[rng.below(slots.len() as u64) as usize].at - CODE;
        let base = match space.data_paged {
            true if slot >= 2 * PAGE => continue,
            true => space.data + 9 * PAGE,
            false => CODE,
        };
        if rng.chance(12) {
            x[usize::from(*register)] = base + slot - rng.pick(&[0, 0, 2, 8, 64]);
        }
    }
    for register in &style.links {
        let start = rng.pick(starts);
        x[usize::from(*register)] = start.wrapping_sub(CODE).wrapping_add(space.code);
    }
    if space.data_paged {
        x[usize::from(style.root)] = space.roots[1];
    }
    let target = style.patch.target - CODE;
    x[usize::from(style.patch.pointer)] = match space.data_paged {
        true if target < 2 * PAGE => space.data + 9 * PAGE + target,
        _ => CODE + target,
    };
    // addi with a random destination
    x[usize::from(style.patch.word)] = 0x0010_0013 | rng.below(32) << 7 | rng.below(32) << 15;
    x[0] = 0;
    Start {
        x,
        f: std::array::from_fn(|_| rng.float()),
    }
}

/// CSRs, in the order in which they are set.
pub fn csrs(rng: &mut Rng, space: &Space, entries: &[u64; 8]) -> Vec<(u16, u64)> {
    let mode = space.mode;
    let mut mstatus = (mode.privilege() as u64) << 11;
    if mode.v() {
        mstatus |= status::MPV;
    }
    if mode == Mode::M && space.data_paged {
        mstatus |= status::MPRV;
    }
    mstatus |= rng.pick(&[0, 1 << 13, 2 << 13, 3 << 13, 1 << 13, 3 << 13]);
    for bit in [
        status::SUM,
        status::MXR,
        status::MPIE,
        status::SPIE,
        status::SIE,
    ] {
        if rng.chance(50) {
            mstatus |= bit;
        }
    }
    let environment = envcfg::CBIE | envcfg::CBCFE | envcfg::CBZE;
    let mut menvcfg = environment | envcfg::STCE;
    if rng.chance(50) {
        menvcfg |= envcfg::ADUE;
    }
    let satp = match mode {
        Mode::M if space.data_paged => space.roots[0],
        Mode::HS | Mode::U if space.paged => space.roots[0],
        _ => 0,
    };
    let vsatp = if mode.v() && space.paged {
        space.roots[0]
    } else {
        0
    };
    let mut list = vec![
        (csr::MTVEC, HANDLER),
        (csr::STVEC, entries[1] & !3),
        (csr::VSTVEC, entries[2] & !3),
        (csr::MCOUNTEREN, u64::MAX),
        (csr::SCOUNTEREN, rng.pick(&[0, u64::MAX, u64::MAX])),
        (csr::HCOUNTEREN, rng.pick(&[0, u64::MAX, u64::MAX])),
        (csr::MENVCFG, menvcfg),
        (csr::HENVCFG, menvcfg),
        (csr::SENVCFG, rng.pick(&[0, environment])),
        (csr::MSTATEEN0, u64::MAX),
        (csr::HSTATEEN0, u64::MAX),
        (csr::SATP, satp),
        (csr::VSATP, vsatp),
        (csr::HGATP, space.hgatp),
        (
            csr::HSTATUS,
            rng.pick(&[0, hstatus::HU, hstatus::HU | hstatus::SPVP]),
        ),
        (
            csr::VSSTATUS,
            rng.pick(&[0, 1 << 13, 3 << 13]) | status::SUM,
        ),
        (csr::FCSR, rng.below(256)),
        (csr::MIE, rng.pick(&[0, 0xAAA, 0x20, 0x80, 0xEEE])),
        (
            csr::STIMECMP,
            rng.pick(&[u64::MAX, 0, 500]).max(rng.below(3000)),
        ),
        (csr::PMPADDR0 + 7, u64::MAX >> 10),
        (csr::PMPCFG0, 0x1F << 56),
    ];
    if rng.chance(15) {
        list.push((csr::MEDELEG, rng.next() & 0xF0_B3FF));
        list.push((csr::HEDELEG, rng.next() & 0xB1FF));
        list.push((csr::MIDELEG, rng.pick(&[0x222, 0x20])));
    }
    if rng.chance(12) {
        // Part of a page has rights of its own.
        let area = rng.pick(&[CODE, DATA]) + rng.below(4) * PAGE;
        let at = area + 8 * rng.below(PAGE / 8);
        let kind = rng.pick(&[2 << 3, 3 << 3]);
        list.push((csr::PMPADDR0, at >> 2 & !3 | rng.pick(&[0, 1, 3])));
        list.push((
            csr::PMPCFG0,
            0x1F << 56 | kind | rng.pick(&[0, 1, 3, 4, 5, 7]),
        ));
    }
    list.push((csr::MEPC, entries[0]));
    list.push((csr::MSTATUS, mstatus));
    list
}
