//! Families of address translation: one stage, two stages, hypervisor loads and stores, MPRV.

use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::extension::Ext;

use super::pages::{self, Kind, Space, Spot};
use super::{ops, user};
use crate::asm::{self, reg};
use crate::layout;
use crate::program::{Block, Feature, Program, Step};
use crate::rng::Rng;

/// Noise in the data area, and code that returns at the end of every page.
fn data(rng: &Rng, p: &mut Program) {
    let mut dummy = p.step(rng, Mode::M);
    user::with_data(rng, p, &mut dummy);
    for page in p.data.chunks_exact_mut(4096) {
        for half in page[0xf80..].chunks_exact_mut(2) {
            half.copy_from_slice(&asm::C_RET.to_le_bytes());
        }
    }
}

fn data_offset(rng: &Rng) -> u64 {
    rng.below(0xf00 / 8) * 8
}

/// Straddles two pages: the second one is the next input address.
fn crossing_offset(rng: &Rng) -> u64 {
    0x1000 - rng.range(1, 7)
}

fn code_offset(rng: &Rng) -> u64 {
    0xf80 + rng.below(0x40) * 2
}

/// A load, store or call at a random address of `space`, AMOs and page-crossing loads if `exact`;
/// clobbers `a0` and `ra`.
fn access(rng: &Rng, b: &mut Block, space: &Space, exact: bool) {
    match rng.below(10) {
        3 if exact => {
            b.li(reg::A0, space.probe(rng, crossing_offset(rng)));
            b.w(asm::i(
                0x03,
                rng.pick(&[3, 3, 2, 6]),
                ops::dst(rng),
                reg::A0,
                0,
            ));
        }
        0..=3 => {
            let f3 = rng.below(7) as u32;
            b.li(reg::A0, space.probe(rng, data_offset(rng)));
            b.w(asm::i(0x03, f3, ops::dst(rng), reg::A0, 0));
        }
        4..=6 => {
            b.li(reg::A0, space.probe(rng, data_offset(rng)));
            b.w(asm::s(0x23, rng.below(4) as u32, reg::A0, ops::src(rng), 0));
        }
        // QEMU translates an AMO as a load first.
        7 if exact => {
            b.li(reg::A0, space.probe(rng, data_offset(rng)));
            let (f5, rs2) = rng.pick(&[(0, 5), (1, 6), (8, 7), (2, 0)]);
            b.w(asm::r(0x2f, 3, f5 << 2, ops::dst(rng), reg::A0, rs2));
        }
        _ => {
            b.li(reg::A0, space.probe(rng, code_offset(rng)));
            b.w(asm::jalr(reg::RA, reg::A0, 0));
        }
    }
}

/// Changes an entry of `spot` from HS- or M-mode (RAM is mapped onto itself) to a random leaf.
fn change_entry(rng: &Rng, b: &mut Block, spot: Spot) {
    b.li(reg::T0, spot.entry);
    match rng.below(4) {
        0 => b.w(asm::sd(0, reg::T0, 0)),
        1 => {
            let size = 1u64 << (12 + 9 * spot.level);
            let page = pages::data_page(rng) & !(size - 1);
            b.li(
                reg::T1,
                pages::leaf(page, rng.next() & 0xff | pages::pte::R),
            );
            b.w(asm::sd(reg::T1, reg::T0, 0));
        }
        _ => {
            // Toggle permission bits.
            b.w(asm::ld(reg::T1, reg::T0, 0));
            b.w(asm::i(
                0x13,
                4,
                reg::T1,
                reg::T1,
                rng.pick(&[2, 4, 6, 8, 16, 64, 128, 192]),
            ));
            b.w(asm::sd(reg::T1, reg::T0, 0));
        }
    }
}

fn random_status(rng: &Rng) -> u64 {
    status::FS | rng.subset(status::SUM | status::MXR)
}

fn deleg_page_faults(rng: &Rng, s: &mut Step) {
    s.set(csr::MEDELEG, rng.subset(0xf0_b1fe) & !(1 << 2));
    s.set(csr::HEDELEG, rng.subset(0xb1fe));
}

/// Sometimes PMP denies walks access to a table.
fn protect_table(rng: &Rng, s: &mut Step, spaces: &[Option<&Space>]) {
    let spaces: Vec<&Space> = spaces.iter().flatten().copied().collect();
    if spaces.is_empty() || rng.chance(2, 3) {
        return;
    }
    let table = rng.pick(&rng.pick(&spaces).side_tables);
    s.set(csr::PMPADDR0, table >> 2 | 0x1ff); // NAPOT, 4 KiB
    s.set(csr::PMPADDR0 + 1, (1 << 54) - 1);
    s.set(csr::PMPCFG0, 0x1f18 | rng.pick(&[0, 0, 1, 4]));
}

/// Sometimes PMP permits lower modes to read the data area or fetch from it, but not both: `hlvx`
/// needs both.
fn protect_data(rng: &Rng, s: &mut Step) {
    if rng.chance(2, 3) {
        return;
    }
    s.set(
        csr::PMPADDR0,
        (layout::DATA | (layout::DATA_SIZE / 2 - 1)) >> 2,
    ); // NAPOT
    s.set(csr::PMPADDR0 + 1, (1 << 54) - 1);
    s.set(csr::PMPCFG0, 0x1f18 | rng.pick(&[1, 3, 4, 5]));
}

fn want_svadu(rng: &Rng, p: &mut Program) -> bool {
    let svadu = rng.chance(1, 2);
    if svadu {
        p.needs.insert(Feature::Has(Ext::Svadu));
    }
    svadu
}

fn set_envcfg(rng: &Rng, s: &mut Step, svadu: bool) {
    let m = pages::envcfg(rng, !svadu || rng.chance(2, 3));
    let h = pages::envcfg(rng, !svadu || rng.chance(2, 3)) & m;
    s.set(csr::MENVCFG, m);
    s.set(csr::HENVCFG, h);
}

/// One stage: Sv39, Sv48, Sv57 in HS and U.
pub fn single_stage(rng: &Rng, p: &mut Program) {
    let svadu = want_svadu(rng, p);
    let exact = p.exact(rng);
    data(rng, p);
    let kind = Kind {
        levels: rng.range(3, 5) as u32,
        g_stage: false,
        clear_ad: true,
        exact,
    };
    let space = pages::build(rng, p, kind, &[]);
    for _ in 0..12 {
        let mode = rng.pick(&[Mode::HS, Mode::HS, Mode::U]);
        let mut s = p.step(rng, mode);
        s.note = format!("Sv{}", 12 + 9 * kind.levels);
        deleg_page_faults(rng, &mut s);
        set_envcfg(rng, &mut s, svadu);
        s.set(csr::SATP, space.satp(rng.below(4)));
        protect_table(rng, &mut s, &[Some(&space)]);
        s.set(csr::MSTATUS, s.get(csr::MSTATUS) | random_status(rng));
        let mut b = p.block();
        for _ in 0..10 {
            if mode == Mode::HS && rng.chance(1, 5) {
                let spot = space.changeable(rng);
                change_entry(rng, &mut b, spot);
                // Every form of fence orders the store before the walk of this address.
                b.li(reg::A0, spot.addr);
                match rng.below(4) {
                    0 => b.w(asm::sfence_vma(reg::A0, 0)),
                    1 => {
                        b.w(0x1800_0073); // sfence.w.inval
                        b.w(asm::r(0x73, 0, 0x0b, 0, reg::A0, 0)); // sinval.vma a0, x0
                        b.w(0x1810_0073); // sfence.inval.ir
                    }
                    _ => b.w(asm::sfence_vma(0, 0)),
                }
                b.w(asm::ld(ops::dst(rng), reg::A0, 0));
            } else {
                access(rng, &mut b, &space, exact);
            }
        }
        p.add(s, b, mode == Mode::U);
    }
}

struct Stages {
    vs: Option<Space>,
    g: Option<Space>,
}

fn stages(rng: &Rng, p: &mut Program, exact: bool, indirect: bool) -> Stages {
    let vs_kind = Kind {
        levels: rng.range(3, 5) as u32,
        g_stage: false,
        clear_ad: true,
        exact,
    };
    let g_kind = Kind {
        levels: rng.range(3, 5) as u32,
        g_stage: true,
        clear_ad: true,
        exact,
    };
    let vs = rng.chance(5, 6).then(|| pages::build(rng, p, vs_kind, &[]));
    // Tables of VS that only the G-stage's random part maps.
    let n = if indirect {
        p.tables.len() as u64 / 4096
    } else {
        0
    };
    let vs_pages: Vec<u64> = (0..n).map(|n| layout::TABLES + 4096 * n).collect();
    let g = rng
        .chance(5, 6)
        .then(|| pages::build(rng, p, g_kind, &vs_pages));
    let mut stages = Stages { vs, g };
    if let (Some(vs), Some(g)) = (&mut stages.vs, &stages.g) {
        // Some small pages of VS point to guest addresses that only the G-stage maps, and some
        // tables of VS are reached through such addresses.
        for spot in &mut vs.spots {
            let off = (spot.entry - layout::TABLES) as usize;
            let raw = u64::from_le_bytes(p.tables[off..off + 8].try_into().expect("eight"));
            let is_pointer = raw & 0xf == 1;
            let new = if is_pointer {
                let to = raw >> 10 << 12;
                g.table_pages
                    .iter()
                    .find(|(_, pa)| *pa == to && rng.chance(1, 2))
                    .map(|(ga, _)| *ga)
            } else if spot.level == 0 && raw >> 63 == 0 && rng.chance(1, 2) {
                Some(rng.pick(&g.spots).addr & !0xfff)
            } else {
                None
            };
            if let Some(ga) = new {
                let v = raw & 0x3ff | (ga >> 12 & ((1 << 44) - 1)) << 10;
                p.tables[off..off + 8].copy_from_slice(&v.to_le_bytes());
            }
        }
    }
    stages
}

fn set_stages(rng: &Rng, s: &mut Step, stages: &Stages, exact: bool) {
    if let Some(vs) = &stages.vs {
        s.set(csr::VSATP, vs.satp(rng.below(4)));
    }
    if let Some(g) = &stages.g {
        s.set(csr::HGATP, g.hgatp(rng.below(4)));
    }
    // QEMU raises a guest-page fault where PMP denies an access of a walk.
    if exact {
        protect_table(rng, s, &[stages.vs.as_ref(), stages.g.as_ref()]);
    }
    s.set(csr::VSSTATUS, status::UXL_64 | random_status(rng));
    s.set(csr::MSTATUS, s.get(csr::MSTATUS) | random_status(rng));
}

/// The space whose addresses a program under these stages uses.
fn outer<'a>(rng: &Rng, stages: &'a Stages) -> Option<&'a Space> {
    match (&stages.vs, &stages.g) {
        (Some(vs), Some(g)) => Some(if rng.chance(9, 10) { vs } else { g }),
        (vs, g) => vs.as_ref().or(g.as_ref()),
    }
}

/// Two stages, seen by VS and VU.
pub fn two_stage(rng: &Rng, p: &mut Program) {
    let svadu = want_svadu(rng, p);
    let exact = p.exact(rng);
    data(rng, p);
    let stages = stages(rng, p, exact, exact || svadu);
    for _ in 0..12 {
        let mode = rng.pick(&[Mode::VS, Mode::VS, Mode::VU]);
        let mut s = p.step(rng, mode);
        s.note = "two-stage".into();
        deleg_page_faults(rng, &mut s);
        set_envcfg(rng, &mut s, svadu);
        if svadu && !exact {
            // QEMU updates VS-stage entries without checking the G-stage for write permission.
            s.set(csr::HENVCFG, s.get(csr::HENVCFG) & !csr::envcfg::ADUE);
        }
        set_stages(rng, &mut s, &stages, exact);
        let mut b = p.block();
        for _ in 0..10 {
            if let Some(space) = outer(rng, &stages) {
                access(rng, &mut b, space, exact);
            }
        }
        // The alias exists where VS tables do.
        p.add(s, b, mode == Mode::VU && stages.vs.is_some());
    }
}

/// `hlv`, `hlvx`, `hsv`, and MPRV with MPV, from M, HS and U.
pub fn hypervisor_access(rng: &Rng, p: &mut Program) {
    let svadu = want_svadu(rng, p);
    let exact = p.exact(rng);
    let mpv = exact && rng.chance(1, 2);
    if mpv {
        p.needs.insert(Feature::WritableMpv);
    }
    data(rng, p);
    let stages = stages(rng, p, exact, exact || svadu);
    for _ in 0..10 {
        let mode = rng.pick(&[Mode::M, Mode::HS, Mode::HS, Mode::U, Mode::VS]);
        let mut s = p.step(rng, mode);
        s.note = "hypervisor access".into();
        deleg_page_faults(rng, &mut s);
        set_envcfg(rng, &mut s, svadu);
        if svadu && !exact {
            // As above.
            for e in [csr::MENVCFG, csr::HENVCFG] {
                s.set(e, s.get(e) & !csr::envcfg::ADUE);
            }
        }
        if !exact {
            // QEMU uses menvcfg for these instructions.
            s.set(csr::HENVCFG, s.get(csr::MENVCFG));
        }
        set_stages(rng, &mut s, &stages, exact);
        if exact {
            protect_data(rng, &mut s);
        }
        s.set(
            csr::HSTATUS,
            s.get(csr::HSTATUS) | rng.subset(hstatus::SPVP | hstatus::HU),
        );
        let mut b = p.block();
        for _ in 0..10 {
            let Some(space) = outer(rng, &stages) else {
                break;
            };
            if mode == Mode::HS && rng.chance(1, 5) {
                let stage = if rng.chance(1, 2) {
                    &stages.vs
                } else {
                    &stages.g
                };
                let Some(stage) = stage else { continue };
                let spot = stage.changeable(rng);
                change_entry(rng, &mut b, spot);
                if rng.chance(1, 2) {
                    b.w(asm::hfence_gvma(0, 0));
                    b.w(asm::hfence_vvma(0, 0));
                } else {
                    b.w(0x1800_0073); // sfence.w.inval
                    b.w(asm::r(0x73, 0, 0x33, 0, 0, 0)); // hinval.gvma
                    b.w(asm::r(0x73, 0, 0x13, 0, 0, 0)); // hinval.vvma
                    b.w(0x1810_0073); // sfence.inval.ir
                }
            }
            b.li(reg::A0, space.probe(rng, data_offset(rng)));
            if mode == Mode::M && rng.chance(1, 2) {
                mprv(rng, &mut b, mpv);
                continue;
            }
            // (funct7, rs2): hlv.b .bu .h .hu .w .wu .d, hlvx.hu, hlvx.wu; then the stores.
            // QEMU raises fetch exceptions for hlvx, the last two.
            let loads: &[(u32, u32)] = &[
                (0x30, 0),
                (0x30, 1),
                (0x32, 0),
                (0x32, 1),
                (0x34, 0),
                (0x34, 1),
                (0x36, 0),
                (0x32, 3),
                (0x34, 3),
            ];
            if rng.chance(2, 3) {
                let (f7, rs2) = rng.pick(if exact { loads } else { &loads[..7] });
                b.w(asm::r(0x73, 4, f7, ops::dst(rng), reg::A0, rs2));
            } else {
                let f7 = rng.pick(&[0x31, 0x33, 0x35, 0x37]);
                b.w(asm::r(0x73, 4, f7, 0, reg::A0, ops::src(rng)));
            }
        }
        p.add(s, b, false);
    }
}

/// A load or store of M-mode at `a0` with another mode's rights.
fn mprv(rng: &Rng, b: &mut Block, mpv: bool) {
    b.li(reg::T0, status::MPP | if mpv { status::MPV } else { 0 });
    b.w(asm::csrc(csr::MSTATUS, reg::T0));
    let mut v = status::MPRV | rng.pick(&[0, 1, 1, 3]) << 11;
    if mpv && rng.chance(3, 4) {
        v |= status::MPV;
    }
    b.li(reg::T0, v);
    b.w(asm::csrs(csr::MSTATUS, reg::T0));
    if rng.chance(1, 2) {
        b.w(asm::i(0x03, rng.below(7) as u32, reg::T1, reg::A0, 0));
    } else {
        b.w(asm::s(0x23, rng.below(4) as u32, reg::A0, ops::src(rng), 0));
    }
    b.li(reg::T0, status::MPRV);
    b.w(asm::csrc(csr::MSTATUS, reg::T0));
}
