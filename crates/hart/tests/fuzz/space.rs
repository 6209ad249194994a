//! Modes and address spaces of programs.

use trapless_isa::{Mode, Priv};

use super::rng::Rng;
use super::tables::{CODE, CODE_PAGES, DATA, DATA_PAGES, DEVICE, PAGE, RAM, SIZE, Tables, pte};

/// How addresses are made.
pub struct Space {
    pub mode: Mode,
    /// Sv39 for code, and for data.
    pub paged: bool,
    pub data_paged: bool,
    pub code: u64,
    pub data: u64,
    /// `satp` or `vsatp`, and another one to change to.
    pub roots: [u64; 2],
    pub hgatp: u64,
}

/// A superpage over RAM.
pub const SUPERPAGE: u64 = 0x20_0000_0000;
/// From one mapping of data pages to the next: those have the same places in the TLB.
pub const ALIAS: u64 = trapless_jit::TLB_ENTRIES as u64 * PAGE;
/// Mappings of data pages: one more than the TLB has ways.
pub const ALIASES: u64 = 3;

/// The address space of a program, with its page tables.
pub fn space(rng: &mut Rng, tables: &mut Tables) -> Space {
    let (mode, paged, data_paged) = match rng.below(20) {
        0..=4 => (Mode::M, false, false),
        5..=6 => (Mode::M, false, true),
        7..=8 => (Mode::HS, false, false),
        9..=12 => (Mode::HS, true, true),
        13..=15 => (Mode::U, true, true),
        16 => (Mode::VS, false, false),
        17..=18 => (Mode::VS, true, true),
        _ => (Mode::VU, true, true),
    };
    let code = if paged {
        rng.pick(&[
            0x1_0000,
            CODE,
            0x3F_FFFF_C000,
            0xFFFF_FFC0_0000_0000,
            0xFFFF_FFFF_FFFF_C000,
        ])
    } else {
        CODE
    };
    let data = if data_paged {
        rng.pick(&[
            0,
            0x40_0000,
            0x12_3456_7000,
            0x7FFF_8000,
            0xFFFF_FFE0_0000_0000,
        ])
    } else {
        DATA
    };
    let mut roots = [0; 2];
    if paged || data_paged {
        // Pages of code may be one page.
        let pages: Vec<u64> = (0..CODE_PAGES)
            .map(|page| {
                if rng.chance(85) {
                    page
                } else {
                    rng.below(CODE_PAGES)
                }
            })
            .collect();
        for (number, satp) in roots.iter_mut().enumerate() {
            let (root, value) = tables.root();
            // The other one differs in its address space identifier as well.
            *satp = value + ((number as u64) << 44);
            map(rng, tables, root, mode, code, data, &pages);
        }
    }
    let mut hgatp = 0;
    if mode.v() {
        let (root, value) = tables.stage2();
        hgatp = value;
        map_guest(rng, tables, root);
    }
    Space {
        mode,
        paged,
        data_paged,
        code,
        data,
        roots,
        hgatp,
    }
}

/// Fills a table of the first stage.
fn map(
    rng: &mut Rng,
    tables: &mut Tables,
    root: u64,
    mode: Mode,
    code: u64,
    data: u64,
    pages: &[u64],
) {
    use pte::{A, D, R, U, V, W, X};
    let user = if mode.privilege() == Priv::U { U } else { 0 };
    for (page, from) in pages.iter().enumerate() {
        let at = code.wrapping_add(page as u64 * PAGE);
        let extra = rng.pick(&[0, R, R, R | W | D]);
        let flags = V | X | A | user | extra;
        tables.map(root, at, CODE + from * PAGE, flags, 0);
    }
    // M-mode with MPRV is U-mode after its first return.
    let own = if mode == Mode::M { U } else { user };
    let flags = |rng: &mut Rng| {
        let usual = V | R | W | A | D | own;
        match rng.below(16) {
            0 => V | R | A | own,
            1 => usual & !A,
            2 => usual & !D,
            3 => V | X | A | own,
            4 => usual & !V,
            5 => usual ^ U,
            6 => usual & !R,
            7 => usual | X,
            _ => usual,
        }
    };
    for page in 0..DATA_PAGES {
        let pa = DATA + page * PAGE;
        let mappings = if page < 4 { ALIASES } else { 1 };
        for alias in 0..mappings {
            let at = data + alias * ALIAS + page * PAGE;
            tables.map(root, at, pa, flags(rng), 0);
        }
    }
    let open = V | R | W | A | D | own;
    tables.map(root, data + 9 * PAGE, CODE, open, 0);
    tables.map(root, data + 10 * PAGE, CODE + PAGE, open, 0);
    tables.map(root, data + 11 * PAGE, DEVICE, open, 0);
    tables.map(root, SUPERPAGE, RAM, flags(rng), 1);
}

fn map_guest(rng: &mut Rng, tables: &mut Tables, root: u64) {
    use pte::{A, D, R, U, V, W, X};
    let open = V | R | W | X | U | A | D;
    tables.map(root, DEVICE, DEVICE, open, 0);
    if rng.chance(40) {
        tables.map(root, RAM, RAM, open, 2);
        return;
    }
    for page in 0..SIZE / PAGE {
        let at = RAM + page * PAGE;
        let data = (DATA..DATA + DATA_PAGES * PAGE).contains(&at);
        let flags = match rng.below(16) {
            0 if data => open & !W,
            1 if data => open & !V,
            2 if data => open & !A,
            3 if data => open & !D,
            _ => open,
        };
        tables.map(root, at, at, flags, 0);
    }
}
