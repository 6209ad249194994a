//! A random program with everything it runs in.

use std::collections::BTreeMap;

use trapless_hart::{CodeLimits, CostModel, HartConfig};
use trapless_isa::csr::{self, envcfg, hstatus, status};
use trapless_isa::{Mode, Priv};

use super::instruction::{Place, Style, TO_PATCH};
use super::rng::Rng;
use super::tables::{
    CODE, CODE_PAGES, DATA, DATA_PAGES, DEVICE, FRAMES, HANDLER, PAGE, RAM, SIZE, Tables, pte,
};

/// One instruction of the program.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Physical address.
    pub at: u64,
    /// 2 or 4.
    pub len: u8,
    pub word: u32,
}

/// Registers of a hart at the start.
#[derive(Clone)]
pub struct Start {
    pub x: [u64; 32],
    pub f: [u64; 32],
}

/// A random program: its code, page tables, registers and hart configuration.
#[derive(Clone)]
pub struct Program {
    pub seed: u64,
    /// Mode in which it starts.
    pub mode: Mode,
    pub config: HartConfig,
    /// Runs of a block before it is compiled.
    pub hot: u32,
    /// Of the code cache: sometimes so small that it is dropped all the time.
    pub limits: CodeLimits,
    /// In order of addresses, instructions that have been left out included.
    pub slots: Vec<Slot>,
    /// Where execution begins, and goes on after faults that leave nowhere to go: virtual
    /// addresses.
    pub entries: [u64; 8],
    /// Page tables and the handler: words by physical address.
    pub words: BTreeMap<u64, u64>,
    /// Set before the start, in this order.
    pub csrs: Vec<(u16, u64)>,
    pub harts: Vec<Start>,
    /// The device's answers and the contents of memory.
    pub noise: u64,
    /// Cycles between two timer interrupts.
    pub step: u64,
    /// What the handler adds to `satp` and to `vsatp` at each new entry.
    pub spaces: [u64; 2],
    /// Runs are stopped after so many instructions, again and again, by an observer.
    pub stops: Option<u64>,
    /// Times at which the engines are compared, ascending.
    pub slices: Vec<u64>,
}

/// How addresses are made.
struct Space {
    mode: Mode,
    /// Sv39 for code, and for data.
    paged: bool,
    data_paged: bool,
    code: u64,
    data: u64,
    /// `satp` or `vsatp`, and another one to change to.
    roots: [u64; 2],
    hgatp: u64,
}

/// A superpage over RAM.
const SUPERPAGE: u64 = 0x20_0000_0000;
/// From one mapping of data pages to the next: those have the same places in the TLB.
const ALIAS: u64 = trapless_jit::TLB_ENTRIES as u64 * PAGE;
/// Mappings of data pages: one more than the TLB has ways.
const ALIASES: u64 = 3;

impl Program {
    /// The program of a seed.
    pub fn new(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let mut tables = Tables::new();
        let space = space(rng, &mut tables);
        let mut style = Style::new(rng);
        style.root = 1 + rng.below(31) as u8;
        let (slots, starts) = code(rng, &mut style);
        let to_virtual = |pa: u64| pa.wrapping_sub(CODE).wrapping_add(space.code);
        let entries = std::array::from_fn(|_| to_virtual(rng.pick(&starts)));
        let harts = (0..1 + u64::from(rng.chance(25)))
            .map(|_| start(rng, &style, &space, &slots, &starts))
            .collect();
        let mut words = tables.words;
        words.extend(handler());
        let price = |rng: &mut Rng| 1 + rng.below(9) as u32;
        let cost = CostModel {
            simple: price(rng),
            mul: price(rng),
            div: price(rng),
            fp: price(rng),
            fp_div: price(rng),
            load: price(rng),
            store: price(rng),
            amo: price(rng),
            branch: price(rng),
            jump: price(rng),
            csr: price(rng),
            system: price(rng),
            fence: price(rng),
            cbo: price(rng),
            trap: price(rng),
            xret: price(rng),
            walk_step: price(rng),
            device: price(rng),
        };
        let config = HartConfig {
            misaligned: rng.chance(70),
            cycles_per_tick: rng.pick(&[1, 1, 10, 100]),
            cost,
            reset_pc: HANDLER + 0x400,
            ..HartConfig::default()
        };
        let mut time = 0;
        let slices = (0..1 + rng.below(8)).map(|_| {
            time += 1 + rng.below(4000);
            time
        });
        let slices = slices.collect();
        Self {
            seed,
            mode: space.mode,
            config,
            hot: rng.pick(&[0, 0, 0, 0, 1, 3]),
            limits: limits(seed),
            slots,
            entries,
            words,
            csrs: csrs(rng, &space, &entries),
            harts,
            noise: rng.next(),
            step: 20 + rng.below(3000),
            spaces: match rng.below(3) {
                0 if space.mode.v() && space.paged => [0, 1 << 44],
                0 if !space.mode.v() && space.data_paged => [1 << 44, 0],
                _ => [0, 0],
            },
            stops: rng.chance(8).then(|| 1 + rng.below(50)),
            slices,
        }
    }
}

fn limits(seed: u64) -> CodeLimits {
    // Numbers of its own: a seed has the program it had before there were limits.
    let rng = &mut Rng::new(!seed);
    let mut limits = CodeLimits::default();
    match rng.below(8) {
        0 => limits.instructions = rng.below(500) as usize,
        1 => limits.compiled = 0,
        _ => {}
    }
    limits
}

fn space(rng: &mut Rng, tables: &mut Tables) -> Space {
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

/// Instructions in short runs, and where these begin.
fn code(rng: &mut Rng, style: &mut Style) -> (Vec<Slot>, Vec<u64>) {
    let (mut slots, mut starts) = (Vec::new(), Vec::new());
    let end = CODE + PAGE * (1 + rng.below(CODE_PAGES));
    let mut at = CODE + 2 * rng.below(100);
    let compressed = rng.pick(&[0, 30, 70]);
    while at + 8 <= end {
        starts.push(at);
        let to_the_end = rng.chance(25);
        let mut left = rng.pick(&[1, 3, 8, 20, 70]);
        while left > 0 && at + 8 <= end {
            let len = if rng.chance(compressed) { 2 } else { 4 };
            slots.push(Slot { at, len, word: 0 });
            at += u64::from(len);
            left -= 1;
            if left == 0 && to_the_end && (at & 0xFFF) >= 0xE80 {
                // A block that ends with its page, or an instruction in two.
                left = 1;
            }
        }
        // Ends with a jump.
        let word = 0x6F;
        slots.push(Slot { at, len: 4, word });
        at += 4;
        at += if rng.chance(50) {
            0
        } else {
            2 * rng.below(300)
        };
        if rng.chance(20) {
            // Close to the end of this page.
            at = ((at | 0xFFF) - 0x7F + 2 * rng.below(40) - 1) & !1;
        }
    }
    let targets: Vec<u64> = slots.iter().map(|slot| slot.at).collect();
    let floats = rng.pick(&[0, 0, 1, 30]);
    let patches = rng.pick(&[0, 0, 0, 8]);
    style.patch.target = rng.pick(&starts);
    let mut pending = Vec::new();
    for slot in &mut slots {
        let place = Place {
            at: slot.at,
            targets: if rng.chance(60) { &starts } else { &targets },
        };
        slot.word = match slot {
            Slot { len: 2, .. } => style.parcel(rng),
            Slot { word: 0x6F, .. } => style.jump(rng, &place),
            _ => {
                if pending.is_empty() && rng.chance(floats) {
                    pending = style.computation(rng);
                    pending.reverse();
                }
                if pending.is_empty() && rng.chance(patches) {
                    pending = style.patching(rng);
                    pending.reverse();
                }
                match pending.pop() {
                    Some(TO_PATCH) => style.to_patch(slot.at),
                    Some(word) => word,
                    None => style.word(rng, &place),
                }
            }
        };
    }
    (slots, starts)
}

fn start(rng: &mut Rng, style: &Style, space: &Space, slots: &[Slot], starts: &[u64]) -> Start {
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

fn csrs(rng: &mut Rng, space: &Space, entries: &[u64; 8]) -> Vec<(u16, u64)> {
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

/// Address of what the handler of hart `hart` keeps.
pub fn frame(hart: usize) -> u64 {
    FRAMES + 0x400 * hart as u64
}

/// Offsets in a frame.
pub const FRAME_DEVICE: u64 = 24;
pub const FRAME_STEP: u64 = 32;
pub const FRAME_SPACES: u64 = 40;
pub const FRAME_ENTRIES: u64 = 64;

/// The trap handler: an interrupt is acknowledged, after an exception execution goes on 4 bytes
/// behind, and at the next entry if fetching failed or there are only zeros, perhaps in another
/// address space.
fn handler() -> BTreeMap<u64, u64> {
    const SP: u32 = 2;
    const T0: u32 = 5;
    const T1: u32 = 6;
    let i = |opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32| {
        (imm as u32) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode
    };
    let ld = |rd, rs1, imm| i(0x03, 3, rd, rs1, imm);
    let li = |rd, imm| i(0x13, 0, rd, 0, imm);
    let sd = |rs2: u32, rs1: u32, imm: u32| {
        (imm >> 5) << 25 | rs2 << 20 | rs1 << 15 | 3 << 12 | (imm & 31) << 7 | 0x23
    };
    let csrrw = |rd, csr: u16, rs1| i(0x73, 1, rd, rs1, i32::from(csr));
    let csrr = |rd, csr: u16| i(0x73, 2, rd, 0, i32::from(csr));
    let add = |rd: u32, rs1: u32, rs2: u32| rs2 << 20 | rs1 << 15 | rd << 7 | 0x33;
    let branch = |funct3: u32, rs1: u32, rs2: u32, from: u32, to: u32| {
        let o = 4 * (to - from);
        (o >> 5 & 63) << 25
            | rs2 << 20
            | rs1 << 15
            | funct3 << 12
            | (o >> 1 & 15) << 8
            | (o >> 11 & 1) << 7
            | 0x63
    };
    let (beq, bne, blt) = (0, 1, 4);
    let j = |from: u32, to: u32| (4 * (to - from)) >> 1 << 21 | 0x6F;
    let (skip, next, interrupt, out) = (18, 22, 38, 44);
    let code = [
        csrrw(SP, csr::MSCRATCH, SP),
        sd(T0, SP, 0),
        sd(T1, SP, 8),
        csrr(T0, csr::MCAUSE),
        branch(blt, T0, 0, 4, interrupt),
        li(T1, 12),
        branch(beq, T0, T1, 6, next),
        li(T1, 20),
        branch(beq, T0, T1, 8, next),
        li(T1, 1),
        branch(beq, T0, T1, 10, next),
        branch(beq, T0, 0, 11, next),
        li(T1, 8),
        branch(beq, T0, T1, 13, next),
        li(T1, 2),
        branch(bne, T0, T1, 15, skip),
        csrr(T1, csr::MTVAL),
        branch(beq, T1, 0, 17, next),
        // skip:
        csrr(T1, csr::MEPC),
        i(0x13, 0, T1, T1, 4),
        csrrw(0, csr::MEPC, T1),
        j(21, out),
        // next:
        ld(T0, SP, 16),
        i(0x13, 0, T1, T0, 8),
        i(0x13, 7, T1, T1, 56),
        sd(T1, SP, 16),
        add(T0, T0, SP),
        ld(T1, T0, FRAME_ENTRIES as i32),
        csrrw(0, csr::MEPC, T1),
        csrr(T0, csr::SATP),
        ld(T1, SP, FRAME_SPACES as i32),
        add(T0, T0, T1),
        csrrw(0, csr::SATP, T0),
        csrr(T0, csr::VSATP),
        ld(T1, SP, FRAME_SPACES as i32 + 8),
        add(T0, T0, T1),
        csrrw(0, csr::VSATP, T0),
        j(37, out),
        // interrupt:
        ld(T0, SP, FRAME_DEVICE as i32),
        sd(0, T0, 0),
        csrr(T0, csr::TIME),
        ld(T1, SP, FRAME_STEP as i32),
        add(T0, T0, T1),
        csrrw(0, csr::STIMECMP, T0),
        // out:
        ld(T1, SP, 8),
        ld(T0, SP, 0),
        csrrw(SP, csr::MSCRATCH, SP),
        0x3020_0073,
    ];
    let pair = |pair: &[u32]| u64::from(pair[0]) | u64::from(pair[1]) << 32;
    let words = code.chunks_exact(2).map(pair);
    let mut words: BTreeMap<u64, u64> = (HANDLER..).step_by(8).zip(words).collect();
    // mret
    words.insert(HANDLER + 0x400, 0x3020_0073);
    words
}
