//! Random instructions.

use trapless_isa::csr;
use trapless_isa::decode::decode;
use trapless_isa::inst::{CostClass, Format, Op};

use super::rng::Rng;

/// Classes and how often they appear.
const CLASSES: [(CostClass, u64); 14] = [
    (CostClass::Simple, 380),
    (CostClass::Mul, 50),
    (CostClass::Div, 40),
    (CostClass::Load, 160),
    (CostClass::Store, 120),
    (CostClass::Branch, 90),
    (CostClass::Jump, 40),
    (CostClass::Fp, 70),
    (CostClass::FpDiv, 8),
    (CostClass::Amo, 30),
    (CostClass::Csr, 25),
    (CostClass::System, 5),
    (CostClass::Fence, 8),
    (CostClass::Cbo, 6),
];

/// CSRs that a program may write without losing itself at once.
const WRITABLE: [u16; 18] = [
    csr::FFLAGS,
    csr::FRM,
    csr::FCSR,
    csr::FCSR,
    csr::SSCRATCH,
    csr::SEPC,
    csr::STVAL,
    csr::STIMECMP,
    csr::VSTIMECMP,
    csr::SSTATUS,
    csr::SSTATUS,
    csr::VSIE,
    csr::MSTATUS,
    csr::MCYCLE,
    csr::MINSTRET,
    csr::SIE,
    csr::SATP,
    CUSTOM,
];
const READABLE: [u16; 17] = [
    csr::FFLAGS,
    csr::FRM,
    csr::FCSR,
    csr::CYCLE,
    csr::TIME,
    csr::INSTRET,
    csr::CYCLE,
    csr::INSTRET,
    csr::MSTATUS,
    csr::SSTATUS,
    csr::MIP,
    csr::SIP,
    csr::VSIE,
    csr::MEPC,
    csr::MCAUSE,
    csr::HPMCOUNTER3,
    csr::HSTATUS,
];
/// A CSR outside the hart.
pub const CUSTOM: u16 = 0x5C0;

/// What the instructions of a program look like.
pub struct Style {
    weights: Vec<u64>,
    ops: Vec<Vec<Op>>,
    /// Registers that hold addresses of data, and of code.
    pub pointers: Vec<u8>,
    pub links: Vec<u8>,
    /// The register that holds a value for `satp`.
    pub root: u8,
    pub patch: Patch,
}

/// Stands for a jump to the changed instruction.
pub const TO_PATCH: u32 = 0x6F;

/// How a program changes its own code.
pub struct Patch {
    /// The changed instruction, if the code is mapped one to one.
    pub target: u64,
    /// Registers with its address and with a new instruction.
    pub pointer: u8,
    pub word: u8,
}

/// Where a jump of the instruction under way may go.
pub struct Place<'a> {
    /// Its address if the code is mapped one to one.
    pub at: u64,
    /// Addresses of all instructions.
    pub targets: &'a [u64],
}

impl Style {
    pub fn new(rng: &mut Rng) -> Self {
        let weights = CLASSES
            .iter()
            .map(|(_, weight)| weight * rng.pick(&[0, 1, 1, 1, 1, 4]))
            .collect();
        let ops = CLASSES
            .iter()
            .map(|(class, _)| {
                let of_class = Op::ALL.iter().filter(|op| op.class() == *class);
                of_class.copied().filter(|op| *op != Op::Illegal).collect()
            })
            .collect();
        let mut registers: Vec<u8> = (1..32).collect();
        let mut take = |n: usize| -> Vec<u8> {
            (0..n)
                .map(|_| registers.swap_remove(rng.below(registers.len() as u64) as usize))
                .collect()
        };
        let (mut pointers, links, others) = (take(4), take(2), take(2));
        // Those with a host register of their own are base registers most often in real code.
        if ![&links[..], &others].concat().contains(&10) {
            pointers.push(10);
        }
        Self {
            weights,
            ops,
            pointers,
            links,
            root: 0,
            patch: Patch {
                target: 0,
                pointer: others[0],
                word: others[1],
            },
        }
    }

    /// A register to read.
    fn source(rng: &mut Rng) -> u32 {
        match rng.below(8) {
            0 => 0,
            1..=3 => rng.pick(&[2, 10, 11, 12, 13, 14, 15]),
            _ => rng.below(32) as u32,
        }
    }

    fn kept(&self, x: u8) -> bool {
        [self.root, self.patch.pointer, self.patch.word].contains(&x)
            || self.pointers.contains(&x)
            || self.links.contains(&x)
    }

    /// A register to write; those with addresses keep them for a while.
    fn destination(&self, rng: &mut Rng) -> u32 {
        for _ in 0..3 {
            let rd = Self::source(rng);
            if !self.kept(rd as u8) || rng.chance(4) {
                return rd;
            }
        }
        0
    }

    fn pointer(&self, rng: &mut Rng) -> u32 {
        if rng.chance(3) {
            return Self::source(rng);
        }
        u32::from(rng.pick(&self.pointers))
    }

    /// An instruction of 4 bytes.
    pub fn word(&self, rng: &mut Rng, place: &Place<'_>) -> u32 {
        let class = rng.weighted(&self.weights);
        let op = match CLASSES[class].0 {
            CostClass::Fence if rng.chance(50) => Op::FenceI,
            _ => rng.pick(&self.ops[class]),
        };
        if matches!(op, Op::Mret | Op::Sret | Op::Wfi | Op::WrsNto | Op::WrsSto) && rng.chance(80) {
            return 0x13;
        }
        self.encode(rng, op, place)
    }

    /// Loads of fresh operands and a floating-point computation with them: results alone soon are
    /// all NaN or infinite. Often it begins with no flags, which soon are all set, and reads those
    /// that it raised.
    pub fn computation(&self, rng: &mut Rng) -> Vec<u32> {
        let class = if rng.chance(15) {
            CostClass::FpDiv
        } else {
            CostClass::Fp
        };
        let at = CLASSES.iter().position(|(c, _)| *c == class).unwrap_or(0);
        let op = rng.pick(&self.ops[at]);
        let nowhere = Place {
            at: 0,
            targets: &[0],
        };
        let word = self.encode(rng, op, &nowhere);
        let base = u32::from(rng.pick(&self.pointers));
        let single = op.extension() == trapless_isa::inst::Ext::F && !rng.chance(3);
        let mut words: Vec<u32> = [15, 20, 27]
            .iter()
            .map(|at| {
                // Words at even places are doubles, at odd ones boxed singles.
                let offset = 16 * rng.below(60) as u32 + if single { 8 } else { 0 };
                let width = if single && rng.chance(50) { 2 } else { 3 };
                offset << 20 | base << 15 | width << 12 | (word >> at & 31) << 7 | 0x07
            })
            .collect();
        words.push(word);
        if rng.chance(40) {
            let access = |csr: u16, rs1: u32, funct3: u32, rd: u32| {
                u32::from(csr) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x73
            };
            let read = rng.pick(&[csr::FFLAGS, csr::FFLAGS, csr::FCSR]);
            // csrwi fflags, 0 and csrr rd, fflags, sometimes with csrsi fflags, ... before it
            words.insert(0, access(csr::FFLAGS, 0, 5, 0));
            if rng.chance(30) {
                words.push(access(csr::FFLAGS, rng.below(32) as u32, 6, 0));
            }
            words.push(access(read, 0, 2, self.destination(rng)));
        }
        words
    }

    /// A store to the program's code, mostly with what is needed to execute it.
    pub fn patching(&self, rng: &mut Rng) -> Vec<u32> {
        let (pointer, word) = (self.patch.pointer.into(), u32::from(self.patch.word));
        let pointer: u32 = pointer;
        let store = rng.pick(&[
            2 << 12 | 0x23,
            2 << 12 | 0x23,
            3 << 12 | 0x23,
            // amoswap.w, amoadd.w
            1 << 27 | 2 << 12 | 0x2F,
            2 << 12 | 0x2F,
        ]);
        vec![
            word << 20 | pointer << 15 | store,
            // Another destination next time: addi word, word, 128.
            128 << 20 | word << 15 | word << 7 | 0x13,
            if rng.chance(85) { 0x100F } else { 0x13 },
            if rng.chance(70) { TO_PATCH } else { 0x13 },
        ]
    }

    /// `j` from `at` to the changed instruction.
    pub fn to_patch(&self, at: u64) -> u32 {
        let offset = self.patch.target.wrapping_sub(at) as u32;
        (offset >> 1 & 0x3FF) << 21
            | (offset >> 11 & 1) << 20
            | (offset >> 12 & 0xFF) << 12
            | (offset >> 20 & 1) << 31
            | 0x6F
    }

    /// `j` to somewhere.
    pub fn jump(&self, rng: &mut Rng, place: &Place<'_>) -> u32 {
        self.encode(rng, Op::Jal, place) & !(31 << 7)
    }

    fn encode(&self, rng: &mut Rng, op: Op, place: &Place<'_>) -> u32 {
        let (bits, mask) = op.encoding();
        let mut word = bits | rng.next() as u32 & !mask;
        let mut field = |at: u32, width: u32, value: u32| {
            let field = ((1 << width) - 1) << at;
            if mask & field == 0 {
                word = word & !field | value << at & field;
            }
        };
        let (rd, rs1, rs2) = (self.destination(rng), Self::source(rng), Self::source(rng));
        field(7, 5, rd);
        field(15, 5, rs1);
        field(20, 5, rs2);
        match op.format() {
            Format::Load | Format::FLoad | Format::Store | Format::FStore | Format::Prefetch => {
                let link = op == Op::Jalr;
                let base = match link {
                    true if rng.chance(90) => u32::from(rng.pick(&self.links)),
                    _ => self.pointer(rng),
                };
                let offset = match rng.below(10) {
                    0 => rng.pick(&[-2048, 2047, -1, 1, 4]),
                    1 => rng.below(4096) as i32 - 2048,
                    _ if link => 0,
                    2..=5 => rng.below(16) as i32 * 8,
                    _ => rng.below(64) as i32 * 8 - 256,
                };
                let offset = offset as u32;
                word = word & !(31 << 15) | base << 15;
                // The register that the target comes from may be that of the link.
                if link && rng.chance(15) {
                    word = word & !(31 << 7) | base << 7;
                }
                if matches!(op.format(), Format::Store | Format::FStore) {
                    word = word & 0x01FF_F07F | (offset & 31) << 7 | offset >> 5 << 25;
                } else {
                    word = word & 0x000F_FFFF | offset << 20;
                }
            }
            Format::LoadReserved | Format::Amo | Format::HLoad | Format::HStore | Format::Cbo => {
                word = word & !(31 << 15) | self.pointer(rng) << 15
            }
            Format::Branch => {
                let o = self.offset(rng, place, 4094) as u32;
                word = word & 0x01FF_F07F
                    | (o >> 12 & 1) << 31
                    | (o >> 5 & 63) << 25
                    | (o >> 1 & 15) << 8
                    | (o >> 11 & 1) << 7;
            }
            Format::J => {
                let o = self.offset(rng, place, 0xF_FFFE) as u32;
                let link = rng.pick(&[0, 0, 0, u32::from(self.links[0]), rd]);
                word = word & 0x7F
                    | link << 7
                    | (o >> 20 & 1) << 31
                    | (o >> 1 & 0x3FF) << 21
                    | (o >> 11 & 1) << 20
                    | (o >> 12 & 0xFF) << 12;
            }
            Format::Csr | Format::CsrImm => {
                let read = rng.chance(60);
                let address = match rng.below(40) {
                    0 => rng.below(4096) as u16,
                    1 => rng.pick(csr::NAMES).0,
                    _ if read => rng.pick(&READABLE),
                    _ => rng.pick(&WRITABLE),
                };
                word = word & 0x000F_FFFF | u32::from(address) << 20;
                if matches!(address, csr::SATP | csr::VSATP) {
                    word = word & !(7 << 12 | 31 << 15) | 1 << 12 | u32::from(self.root) << 15;
                } else if read {
                    // csrrs rd, csr, x0
                    word = word & !(7 << 12 | 31 << 15) | 2 << 12;
                }
            }
            Format::FRm | Format::F4Rm | Format::FUnaryRm | Format::FToXRm | Format::XToFRm => {
                let rm = rng.pick(&[7, 7, 7, 0, 0, 1, 2, 3, 4, 4, 5]);
                word = word & !(7 << 12) | rm << 12;
            }
            Format::Fence => word &= 0x0FF0_707F,
            _ => {}
        }
        word
    }

    /// An offset to a place at most `reach` away.
    fn offset(&self, rng: &mut Rng, place: &Place<'_>, reach: u64) -> i64 {
        let near = |target: &u64| place.at.abs_diff(*target) <= reach;
        let same_page = |target: &u64| place.at >> 12 == target >> 12;
        match rng.below(20) {
            0 => 0,
            1 => (rng.below(4096) as i64 - 2048) & !1,
            2 => (rng.below(32) as i64 - 16) & !1,
            _ => {
                for _ in 0..20 {
                    let target = rng.pick(place.targets);
                    if near(&target) && (same_page(&target) || rng.chance(20)) {
                        return target.wrapping_sub(place.at) as i64;
                    }
                }
                4
            }
        }
    }

    /// An instruction of 2 bytes.
    pub fn parcel(&self, rng: &mut Rng) -> u32 {
        for _ in 0..50 {
            let raw = u32::from(rng.next() as u16);
            if raw & 3 == 3 {
                continue;
            }
            let inst = decode(raw);
            let rare = inst.op == Op::Illegal || inst.op.ends_block();
            let rd = inst.rd;
            let integer = !inst.op.is_fp() && inst.op.class() != CostClass::Store;
            let kept = integer && self.kept(rd);
            let wild = matches!(inst.op.class(), CostClass::Load | CostClass::Store)
                && !self.pointers.contains(&inst.rs1);
            if (!rare || rng.chance(30)) && (!kept || rng.chance(5)) && (!wild || rng.chance(5)) {
                return raw;
            }
        }
        0x0001
    }
}
