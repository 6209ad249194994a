//! The RISC-V IOMMU: translations by its debug interface through random directories and page tables
//! of both stages, with the record of each fault, and tables that change with the commands that say
//! so.
//!
//! QEMU's IOMMU is looser than the specification (docs/isa-differences.md). Programs stay where
//! both must agree: pages are the user's, entries have no reserved bits and no N, nothing updates A
//! and D bits, and page tables of processes are not behind a second stage.

use trapless_isa::Mode;

use crate::asm::{self, Reg, reg};
use crate::layout::{self, Policy};
use crate::program::{Block, Board, Feature, Program};
use crate::rng::Rng;

use super::pages::pte::{A, D, R, U, V, W, X};
use super::pages::{NOWHERE, alloc, leaf, pointer, put, sign_extend};

/// Registers.
const IOMMU: u64 = 0x301_0000;
const DDTP: u64 = 0x10;
const CQB: u64 = 0x18;
const CQH: u64 = 0x20;
const CQT: u64 = 0x24;
const FQB: u64 = 0x28;
const FQT: u64 = 0x34;
const CQCSR: u64 = 0x48;
const FQCSR: u64 = 0x4c;
/// Requested address; control and response follow.
const REQUEST: u64 = 0x258;

/// Queues of 128 entries, beyond the signature: records have fields that models may fill otherwise.
const COMMANDS: u64 = layout::RAM + 0xe0_0000;
const FAULTS: u64 = layout::RAM + 0xe1_0000;
const LOG2_SIZE: u64 = 6;

/// Bits of a request's control.
const GO: u64 = 1;
const READ: u64 = 1 << 3;
const WITH_PROCESS: u64 = 1 << 32;

/// Of a page number: what QEMU 10 tells of its 44 bits.
const PAGE: u64 = ((1 << 44) - 1) & !0x3ff;

/// Of a fault's record: cause and device.
const COMPARED: u64 = 0xff_ffff << 40 | 0xfff;

/// Modes of directories and page tables.
const OFF: u64 = 0;
const BARE: u64 = 1;
const PD8: u64 = 1;

/// Bits of `tc`.
const CONTEXT_VALID: u64 = 1;
const PDTV: u64 = 1 << 5;
const DPE: u64 = 1 << 9;

/// Steps of a program, and room for the trace of each.
const PARTS: u64 = 4;
const ROOM: u64 = layout::DATA_SIZE / PARTS;

const TRACE: Reg = reg::S0;
/// All ones if a response has its page number where the specification says. QEMU 10 puts it ten
/// bits lower, so that its lowest ten bits are lost: they are not compared. That ours are in their
/// place is for a test of `crates/iommu` to say.
const SHIFTED: Reg = reg::S1;
const ADDR: Reg = reg::T1;
const VALUE: Reg = reg::T2;
const RESULT: Reg = reg::T3;
const MASK: Reg = reg::T4;
const RECORD: Reg = reg::T5;
const OTHER: Reg = reg::A0;

const fn and(rd: Reg, a: Reg, b: Reg) -> u32 {
    asm::r(0x33, 7, 0, rd, a, b)
}

const fn or(rd: Reg, a: Reg, b: Reg) -> u32 {
    asm::r(0x33, 6, 0, rd, a, b)
}

const fn negate(rd: Reg, a: Reg) -> u32 {
    asm::r(0x33, 0, 0x20, rd, 0, a)
}

const fn not(rd: Reg, a: Reg) -> u32 {
    asm::i(0x13, 4, rd, a, -1)
}

const fn andi(rd: Reg, a: Reg, mask: i32) -> u32 {
    asm::i(0x13, 7, rd, a, mask)
}

const fn slli(rd: Reg, a: Reg, by: i32) -> u32 {
    asm::i(0x13, 1, rd, a, by)
}

const fn srli(rd: Reg, a: Reg, by: i32) -> u32 {
    asm::i(0x13, 5, rd, a, by)
}

fn store(b: &mut Block, register: u64, value: u64) {
    b.li(ADDR, IOMMU + register);
    b.li(VALUE, value);
    b.w(asm::sd(VALUE, ADDR, 0));
}

fn store_word(b: &mut Block, register: u64, value: u64) {
    b.li(ADDR, IOMMU + register);
    b.li(VALUE, value);
    b.w(asm::sw(VALUE, ADDR, 0));
}

fn load_word(b: &mut Block, register: u64, to: Reg) {
    b.li(ADDR, IOMMU + register);
    b.w(asm::i(0x03, 6, to, ADDR, 0));
}

fn keep(b: &mut Block) {
    b.w(asm::sd(RESULT, TRACE, 0));
    b.w(asm::addi(TRACE, TRACE, 8));
}

/// Requests a translation; its response is in `RESULT`.
fn request(b: &mut Block, address: u64, control: u64) {
    b.li(ADDR, IOMMU + REQUEST);
    b.li(VALUE, address);
    b.w(asm::sd(VALUE, ADDR, 0));
    b.li(VALUE, control | GO);
    b.w(asm::sd(VALUE, ADDR, 8));
    b.w(asm::ld(RESULT, ADDR, 16));
}

/// Keeps what became of a translation: its page, or what is compared of the newest record.
fn translate(b: &mut Block, address: u64, control: u64) {
    request(b, address, control);
    b.w(andi(MASK, RESULT, 1));
    b.w(negate(MASK, MASK));
    // The page
    b.w(srli(VALUE, RESULT, 10));
    b.w(and(VALUE, VALUE, SHIFTED));
    b.w(not(OTHER, SHIFTED));
    b.w(and(RESULT, RESULT, OTHER));
    b.w(or(RESULT, RESULT, VALUE));
    b.li(VALUE, PAGE);
    b.w(and(RESULT, RESULT, VALUE));
    b.w(not(OTHER, MASK));
    b.w(and(RESULT, RESULT, OTHER));
    // The record
    load_word(b, FQT, RECORD);
    b.w(slli(RECORD, RECORD, 5));
    b.li(ADDR, FAULTS - 32);
    b.w(asm::r(0x33, 0, 0, ADDR, ADDR, RECORD));
    b.w(asm::ld(RECORD, ADDR, 0));
    b.li(VALUE, COMPARED);
    b.w(and(RECORD, RECORD, VALUE));
    b.w(and(RECORD, RECORD, MASK));
    b.w(or(RESULT, RESULT, RECORD));
    keep(b);
}

/// Empty queues, and what responses look like.
fn prepare(b: &mut Block) {
    store(b, DDTP, OFF);
    for (csr, base, memory) in [(CQCSR, CQB, COMMANDS), (FQCSR, FQB, FAULTS)] {
        store_word(b, csr, 0);
        store(b, base, memory >> 12 << 10 | LOG2_SIZE);
        store_word(b, csr, 1);
        load_word(b, csr, RESULT);
        keep(b);
    }
    store(b, DDTP, BARE);
    let known = 0x8045_5000;
    request(b, known, 0);
    b.w(srli(RESULT, RESULT, 10));
    b.li(VALUE, known >> 12);
    b.w(asm::r(0x33, 4, 0, RESULT, RESULT, VALUE));
    b.w(asm::i(0x13, 3, SHIFTED, RESULT, 1));
    b.w(negate(SHIFTED, SHIFTED));
    store(b, DDTP, OFF);
}

/// A command whose second word is zero, carried out at once.
fn command(b: &mut Block, word: u64) {
    load_word(b, CQT, RESULT);
    b.w(slli(RECORD, RESULT, 4));
    b.li(ADDR, COMMANDS);
    b.w(asm::r(0x33, 0, 0, ADDR, ADDR, RECORD));
    b.li(VALUE, word);
    b.w(asm::sd(VALUE, ADDR, 0));
    b.w(asm::sd(reg::ZERO, ADDR, 8));
    b.w(asm::addi(RESULT, RESULT, 1));
    b.li(ADDR, IOMMU + CQT);
    b.w(asm::sw(RESULT, ADDR, 0));
    for register in [CQH, CQCSR] {
        load_word(b, register, RESULT);
        keep(b);
    }
}

/// `IOTINVAL.VMA`, `IOTINVAL.GVMA` and `IODIR.INVAL_DDT` of everything, and `IOFENCE.C`.
const FORGET: [u64; 4] = [1, 1 | 1 << 7, 3, 2];

/// An entry that may be changed, and an address that is translated by it.
#[derive(Clone, Copy)]
struct Spot {
    entry: u64,
    address: u64,
    /// It leads to no table: A and D mean something. (QEMU follows pointers that have them, as an
    /// entry without R, W and X would be.)
    leaf: bool,
}

/// A stage of translation.
struct Stage {
    /// `iosatp` or `iohgatp`, without identifiers.
    register: u64,
    spots: Vec<Spot>,
}

/// Which stage it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    First,
    /// A second stage without a first one.
    OnlySecond,
    /// The second stage of two. QEMU asks it for what the first stage's leaf allows, whatever the
    /// access is, and of a read of a table as well.
    SecondOfTwo,
}

/// Leaf flags: mostly such that accesses work.
fn flags(rng: &Rng, role: Role) -> u64 {
    let whole = R | W | A | D | U | V;
    if role == Role::SecondOfTwo {
        return match rng.below(8) {
            0 => whole & !V,
            1 => W | A | D | U | V,
            2 => whole | X,
            _ => whole,
        };
    }
    let rwx = match rng.below(12) {
        0 => R,
        1 => R | X,
        2 => X,
        3 => W,
        4 => W | X,
        5 | 6 => R | W | X,
        _ => R | W,
    };
    let used = rng.pick(&[A | D, A | D, A | D, A, D, 0]);
    rwx | used | U | if rng.chance(15, 16) { V } else { 0 }
}

/// Tables of one stage under construction.
struct Tables<'a> {
    rng: &'a Rng,
    p: &'a mut Program,
    role: Role,
    levels: u32,
    /// Where leaves of a first stage before another lead to.
    targets: &'a [Spot],
    spots: Vec<Spot>,
}

impl Tables<'_> {
    /// A leaf at `level`, and which part of its page is of interest.
    fn leaf(&self, level: u32) -> (u64, u64) {
        let size = 1_u64 << (12 + 9 * level);
        let target = match self.targets {
            [] => self.rng.next() & ((1 << 56) - 1) & !(size - 1),
            targets => self.rng.pick(targets).address,
        };
        let entry = leaf(target & !(size - 1), 0) & !V | flags(self.rng, self.role);
        let entry = match self.rng.below(24) {
            0 if level > 0 => entry | 1 << (10 + self.rng.below(u64::from(9 * level))),
            1 => pointer(NOWHERE),
            _ => entry,
        };
        (entry, target & (size - 1) & !0xfff)
    }

    /// Whether a table at `level` is the root of a second stage, which is four times as large.
    fn is_wide(&self, level: u32) -> bool {
        self.role != Role::First && level + 1 == self.levels
    }

    /// Where the addresses of entry `index` begin, if those of its table begin at `base`.
    fn address(&self, base: u64, index: u64, level: u32) -> u64 {
        let address = base | index << (12 + 9 * level);
        match self.role {
            Role::First => sign_extend(address, self.levels),
            Role::OnlySecond | Role::SecondOfTwo => address,
        }
    }

    /// An entry at `index` of a table whose addresses begin at `base`.
    fn spot(&mut self, table: u64, index: u64, level: u32, base: u64) {
        let (value, inside) = self.leaf(level);
        self.spots.push(Spot {
            entry: put(self.p, table, index, value),
            address: self.address(base, index, level) | inside,
            leaf: value >> 10 << 12 != NOWHERE,
        });
    }

    /// A table at `level` with what is below it. In a second stage a path of zeros leads to a page
    /// of a gigabyte that is RAM itself, so that the first stage's tables are there.
    fn fill(&mut self, table: u64, level: u32, base: u64) {
        let entries = if self.is_wide(level) { 2048 } else { 512 };
        let mut used = vec![0, 2];
        if level == 2 && self.role != Role::First {
            put(self.p, table, 2, leaf(layout::RAM, R | W | X | A | D | U));
        }
        for n in 0..if level == 0 { 6 } else { 4 } {
            let down = n == 0 && level > 0;
            let mut index = 0;
            if !down || level <= 2 {
                let some = self.rng.below(512);
                index = self.rng.pick(&[1, 3, 5, 255, 256, 511, entries - 1, some]);
                if used.contains(&index) {
                    continue;
                }
                used.push(index);
            }
            if down {
                let next = alloc(self.p, 1);
                put(self.p, table, index, pointer(next));
                self.fill(next, level - 1, self.address(base, index, level));
            } else {
                self.spot(table, index, level, base);
            }
        }
    }
}

fn stage(rng: &Rng, p: &mut Program, role: Role, targets: &[Spot]) -> Stage {
    let levels = rng.range(3, 5) as u32;
    if role != Role::First {
        // Roots are 16 KiB large and aligned.
        while p.tables.len() % 0x4000 != 0 {
            alloc(p, 1);
        }
    }
    let root = alloc(p, if role == Role::First { 1 } else { 4 });
    let mut tables = Tables {
        rng,
        p,
        role,
        levels,
        targets,
        spots: Vec::new(),
    };
    tables.fill(root, levels - 1, 0);
    let spots = tables.spots;
    Stage {
        register: (u64::from(levels) + 5) << 60 | root >> 12,
        spots,
    }
}

/// A device, and what it can ask for.
struct Device {
    id: u64,
    /// Bits of the control of its requests.
    control: u64,
    /// Place of its context.
    context: u64,
    spots: Vec<Spot>,
}

/// The directory of devices under construction.
struct Directory {
    levels: u64,
    root: u64,
}

impl Directory {
    /// Where the context of `device` is, with tables down to it, of which some are broken.
    fn place(&self, rng: &Rng, p: &mut Program, device: u64) -> u64 {
        let mut table = self.root;
        for level in (1..self.levels).rev() {
            let index = device >> (9 * level - 3) & 0x1ff;
            let at = (table + 8 * index - layout::TABLES) as usize;
            let old = u64::from_le_bytes(p.tables[at..at + 8].try_into().expect("eight"));
            table = match old {
                0 => {
                    let next = alloc(p, 1);
                    let entry = match rng.below(12) {
                        0 => pointer(next) & !1,
                        1 => pointer(next) | 1 << rng.pick(&[1, 9, 54, 63]),
                        2 => pointer(NOWHERE),
                        _ => pointer(next),
                    };
                    put(p, table, index, entry);
                    next
                }
                entry => entry >> 10 << 12 & ((1 << 56) - 1),
            };
            if !(layout::TABLES..layout::TABLES + p.tables.len() as u64).contains(&table) {
                // Of no use, but somewhere.
                return alloc(p, 1);
            }
        }
        table + (device & 0x3f) * 64
    }
}

/// A directory of processes with one process; returns `fsc`, and the bits of a request of it. It
/// has one level: QEMU 10 has no others.
fn processes(rng: &Rng, p: &mut Program, first: &Stage) -> (u64, u64) {
    let process = rng.range(1, 255);
    let table = alloc(p, 1);
    // Valid, supervisors allowed, which the requests are none of.
    let mut ta = 1 | rng.below(2) << 1 | rng.below(1 << 20) << 12;
    let mut fsc = first.register;
    match rng.below(12) {
        0 => ta &= !1,
        1 => ta |= 1 << rng.range(32, 63),
        2 => fsc = fsc & !(0xf << 60) | rng.pick(&[1, 7, 11, 15]) << 60,
        3 => fsc |= 1 << rng.range(44, 59),
        4 => fsc = 0,
        _ => {}
    }
    put(p, table, 2 * process, ta);
    put(p, table, 2 * process + 1, fsc);
    (PD8 << 60 | table >> 12, WITH_PROCESS | process << 12)
}

/// A context, and requests for it.
fn device(rng: &Rng, p: &mut Program, directory: &Directory, id: u64) -> Device {
    let kind = rng.below(4);
    let mut tc = CONTEXT_VALID;
    let (mut fsc, mut iohgatp, mut control) = (0, 0, id << 40);
    let spots;
    match kind {
        0 => {
            let second = stage(rng, p, Role::OnlySecond, &[]);
            iohgatp = second.register;
            spots = second.spots;
        }
        1 => {
            let second = stage(rng, p, Role::SecondOfTwo, &[]);
            let first = stage(rng, p, Role::First, &second.spots);
            iohgatp = second.register;
            fsc = first.register;
            spots = first.spots;
        }
        _ => {
            let first = stage(rng, p, Role::First, &[]);
            if kind == 2 {
                fsc = first.register;
            } else {
                let (directory, process) = processes(rng, p, &first);
                fsc = directory;
                tc |= PDTV | if rng.chance(1, 4) { DPE } else { 0 };
                if rng.chance(7, 8) {
                    control |= process;
                }
            }
            spots = first.spots;
        }
    }
    if iohgatp != 0 {
        iohgatp |= rng.below(1 << 16) << 44;
    }
    let mut ta = rng.below(1 << 20) << 12;
    let mut msiptp = 0;
    match rng.below(20) {
        0 => tc &= !CONTEXT_VALID,
        1 if tc & PDTV == 0 => tc |= DPE,
        2 => msiptp = rng.range(2, 15) << 60,
        3 if tc & PDTV == 0 && fsc != 0 => fsc = fsc & !(0xf << 60) | rng.range(1, 7) << 60,
        4 if iohgatp != 0 => iohgatp = iohgatp & !(0xf << 60) | rng.range(1, 7) << 60,
        5 if tc & PDTV != 0 => fsc &= !(0xf << 60),
        6 => ta = 0,
        _ => {}
    }
    let context = directory.place(rng, p, id);
    for (n, word) in [tc, iohgatp, ta, fsc, msiptp, 0, 0, 0]
        .into_iter()
        .enumerate()
    {
        put(p, context, n as u64, word);
    }
    Device {
        id,
        control,
        context,
        spots,
    }
}

/// An address worth asking for.
fn probe(rng: &Rng, spots: &[Spot]) -> u64 {
    let address = rng.pick(spots).address;
    // An address inside of a large page is not asked for: QEMU answers with where that begins.
    match rng.below(16) {
        0 => address ^ 1 << rng.range(57, 62),
        _ => address,
    }
}

/// Changes an entry or a context, with the commands that belong to it.
fn change(rng: &Rng, b: &mut Block, device: &Device) {
    let spot = rng.pick(&device.spots);
    let (place, bit) = match rng.below(3) {
        0 => (device.context, CONTEXT_VALID),
        _ if spot.leaf => (spot.entry, rng.pick(&[V, A, D])),
        _ => (spot.entry, V),
    };
    b.li(ADDR, place);
    b.w(asm::ld(VALUE, ADDR, 0));
    b.w(asm::i(0x13, 4, VALUE, VALUE, bit as i32));
    b.w(asm::sd(VALUE, ADDR, 0));
    for word in FORGET {
        command(b, word);
    }
}

/// Translations of some devices.
pub fn translations(rng: &Rng, p: &mut Program) {
    p.board = Board::Iommu;
    p.needs.insert(Feature::Iommu);
    let levels = rng.range(1, 3);
    let directory = Directory {
        levels,
        root: alloc(p, 1),
    };
    let bits = [6, 15, 24][levels as usize - 1];
    let mut devices: Vec<Device> = Vec::new();
    while devices.len() < 4 {
        let id = rng.below(1 << bits);
        // Each has a page of contexts of its own, or all are in one.
        let apart = if levels == 1 { 0 } else { 6 };
        if devices.iter().all(|other| other.id >> apart != id >> apart) {
            devices.push(device(rng, p, &directory, id));
        }
    }
    for part in 0..PARTS {
        let mut s = p.step(rng, Mode::M);
        s.policy = Policy::Skip;
        s.x[TRACE as usize] = layout::DATA + ROOM * part;
        s.note = format!("directory of {levels} levels");
        let mut b = p.block();
        prepare(&mut b);
        translate(&mut b, rng.below(1 << 56) & !0xfff, devices[0].id << 40);
        let mode = if rng.chance(1, 16) { BARE } else { levels + 1 };
        store(&mut b, DDTP, directory.root >> 12 << 10 | mode);
        // What earlier steps have left in caches.
        for word in FORGET {
            command(&mut b, word);
        }
        for _ in 0..16 {
            let device = rng.below(devices.len() as u64) as usize;
            let device = &devices[device];
            if mode != BARE && rng.chance(1, 5) {
                change(rng, &mut b, device);
            }
            let wide = rng.chance(1, 24) && levels < 3;
            let control = device.control | if wide { 1 << (40 + bits) } else { 0 };
            let access = rng.pick(&[0, READ]);
            translate(&mut b, probe(rng, &device.spots), control | access);
        }
        // Registers at the end of a step are compared, too.
        for register in [SHIFTED, ADDR, VALUE, RESULT, MASK, RECORD, OTHER] {
            b.li(register, 0);
        }
        p.add(s, b, false);
    }
}
