//! Registers of the Advanced Interrupt Architecture: random sequences of accesses to interrupt
//! files, to the APLIC's domains and to the CSRs of Smaia and Ssaia, with each read value stored in
//! the data area.
//!
//! Accesses for which QEMU differs from the specification are left out here and listed in
//! `docs/aia.md`.

use trapless_isa::Mode;
use trapless_isa::csr::{self, hvictl, stateen0};
use trapless_isa::extension::Ext;

use crate::asm::{self, Reg, reg};
use crate::layout::{self, Policy};
use crate::program::{Block, Board, Feature, Program, Step};
use crate::rng::Rng;

const IMSIC_M: u64 = 0x2400_0000;
const IMSIC_S: u64 = 0x2800_0000;
const APLIC_M: u64 = 0xC00_0000;
const APLIC_S: u64 = 0xD00_0000;
const UART_IER: u64 = 0x1000_0001;
const UART_SOURCE: u64 = 10;
const SOURCES: u64 = 96;

/// Steps of a program, and room for the trace of each.
const PARTS: u64 = 8;
const ROOM: u64 = layout::DATA_SIZE / PARTS;

/// Address for the next value.
const TRACE: Reg = reg::S0;
/// Address of an access.
const ADDR: Reg = reg::T1;
const VALUE: Reg = reg::T2;
const RESULT: Reg = reg::T3;

/// Appends `RESULT` to the trace.
fn keep(b: &mut Block) {
    b.w(asm::sd(RESULT, TRACE, 0));
    b.w(asm::addi(TRACE, TRACE, 8));
}

fn load(b: &mut Block, addr: u64) {
    b.li(ADDR, addr);
    b.w(asm::i(0x03, 2, RESULT, ADDR, 0));
    keep(b);
}

fn store(b: &mut Block, addr: u64, value: u64) {
    b.li(ADDR, addr);
    b.li(VALUE, value);
    b.w(asm::s(0x23, 2, ADDR, VALUE, 0));
}

fn read_csr(b: &mut Block, csr: u16) {
    // Inputs of a hart may be delayed; our machine updates them at a jump.
    b.w(asm::jal(0, 4));
    b.w(asm::csrr(RESULT, csr));
    keep(b);
}

/// A CSR instruction with any operation; the old value is stored if it reads one.
fn access_csr(rng: &Rng, b: &mut Block, csr: u16, value: u64) {
    b.li(RESULT, 0);
    b.li(VALUE, value);
    let rd = rng.pick(&[reg::ZERO, RESULT, RESULT]);
    let rs = rng.pick(&[reg::ZERO, VALUE, VALUE, VALUE]);
    b.w(asm::csr_op(rng.range(1, 3) as u32, rd, csr, rs));
    keep(b);
}

fn begin(p: &mut Program, board: Board) {
    p.board = board;
    p.needs.insert(Feature::Aia);
    p.needs.insert(Feature::Has(Ext::Smstateen));
}

/// A step whose trace follows that of the previous step.
fn step(rng: &Rng, p: &Program, mode: Mode, part: u64) -> Step {
    let mut s = p.step(rng, mode);
    s.policy = Policy::Skip;
    s.x[TRACE as usize] = layout::DATA + ROOM * part;
    s
}

/// `xiselect`, `xireg`, `xtopei` of a level.
const WINDOWS: [[u16; 3]; 3] = [
    [csr::MISELECT, csr::MIREG, csr::MTOPEI],
    [csr::SISELECT, csr::SIREG, csr::STOPEI],
    [csr::VSISELECT, csr::VSIREG, csr::VSTOPEI],
];

/// Interrupt files: messages, registers, claims, from M-, HS- and VS-mode.
pub fn imsic(rng: &Rng, p: &mut Program) {
    begin(p, Board::Imsic);
    let parts = PARTS;
    for part in 0..parts {
        let mode = rng.pick(&[Mode::M, Mode::M, Mode::HS, Mode::VS]);
        let mut s = step(rng, p, mode, part);
        s.note = "interrupt files".into();
        let vgein = rng.below(9);
        let status = s.get(csr::HSTATUS);
        s.set(csr::HSTATUS, status | vgein << 12);
        let mut b = p.block();
        while b.len() < 240 {
            file_access(rng, &mut b, mode);
        }
        if mode == Mode::M {
            dump_files(&mut b);
        }
        p.add(s, b, false);
    }
}

fn identity(rng: &Rng) -> u64 {
    match rng.below(4) {
        0 => rng.below(8),
        1 => rng.pick(&[63, 64, 127, 128, 255, 256, 2047, 0xFFFF_FFFF]),
        _ => rng.below(256),
    }
}

fn file_access(rng: &Rng, b: &mut Block, mode: Mode) {
    // In VS-mode the supervisor's names refer to the guest's registers.
    let level = match mode {
        Mode::M => rng.below(3),
        Mode::HS => rng.range(1, 2),
        _ => 1,
    } as usize;
    let [select, window, top] = WINDOWS[level];
    match rng.below(8) {
        0..=2 => {
            let page = match rng.below(3) {
                0 if mode == Mode::M => IMSIC_M,
                _ => IMSIC_S + 0x1000 * rng.below(8),
            };
            store(b, page, identity(rng));
        }
        3..=5 => {
            let register = match rng.below(8) {
                0 => 0x70,
                1 => 0x72,
                2..=4 => 0x80 + 2 * rng.below(4),
                5 | 6 => 0xC0 + 2 * rng.below(4),
                _ => 0x81 + 2 * rng.below(64),
            };
            b.li(VALUE, register);
            b.w(asm::csrw(select, VALUE));
            let value = match register {
                0x70 => rng.below(2),
                0x72 => rng.pick(&[0, 0, 1, 64, 200, 255, 256, 2047]),
                0x80..0xC0 => rng.subset(u64::MAX),
                _ => rng.next() | rng.next(),
            };
            access_csr(rng, b, window, value);
        }
        6 => access_csr(rng, b, top, rng.next()),
        _ if mode == Mode::VS => read_csr(b, csr::SIP),
        _ => {
            let csr = match mode {
                Mode::M => rng.pick(&[csr::MIP, csr::HGEIP, csr::HIP]),
                _ => rng.pick(&[csr::HGEIP, csr::HIP]),
            };
            read_csr(b, csr);
        }
    }
}

fn dump_files(b: &mut Block) {
    for [select, window, _] in &WINDOWS[..2] {
        for register in [0x70, 0x72, 0x80, 0x82, 0x84, 0x86, 0xC0, 0xC2, 0xC4, 0xC6] {
            b.li(VALUE, register);
            b.w(asm::csrw(*select, VALUE));
            read_csr(b, *window);
        }
    }
}

/// The generator's state of a domain, to avoid accesses for which QEMU differs.
struct Domain {
    base: u64,
    machine: bool,
    msi: bool,
    /// Sources that the domain may have.
    own: Vec<u64>,
    active: Vec<u64>,
}

impl Domain {
    fn source(&self, rng: &Rng) -> Option<u64> {
        (!self.own.is_empty()).then(|| rng.pick(&self.own))
    }

    fn target(&self, rng: &Rng) -> u64 {
        let hart = rng.pick(&[0, 0, 0, 1]) << 18;
        match (self.msi, self.machine) {
            (true, true) => hart | identity(rng) & 0x7FF,
            (true, false) => hart | rng.below(8) << 12 | identity(rng) & 0x7FF,
            (false, _) => hart | rng.below(256),
        }
    }

    fn access(&mut self, rng: &Rng, b: &mut Block) {
        let base = self.base;
        match rng.below(16) {
            0 => store(b, base, rng.pick(&[0, 0x100, 0x104, 0xFFFF_FFFF])),
            1 => load(b, base),
            2..=4 => self.configure(rng, b),
            5 | 6 => {
                let at = rng.pick(&[0x1C00, 0x1D00, 0x1E00, 0x1F00]) + 4 * rng.below(5);
                load(b, base + at);
            }
            7 | 8 => {
                let at = rng.pick(&[0x1C00, 0x1D00, 0x1E00, 0x1E00, 0x1F00]) + 4 * rng.below(4);
                store(b, base + at, rng.subset(0xFFFF_FFFF));
            }
            9 | 10 => {
                let at = rng.pick(&[0x1CDC, 0x1DDC, 0x1EDC, 0x1EDC, 0x1FDC, 0x2000]);
                let number = match self.source(rng) {
                    Some(source) if rng.chance(7, 8) => source,
                    _ => rng.pick(&[0, SOURCES, SOURCES + 1, 1023, 1024, 0xFFFF_FFFF]),
                };
                store(b, base + at, number);
            }
            11 => {
                let source = self.source(rng).unwrap_or(1) as u32;
                store(b, base + 0x2004, source.swap_bytes().into());
            }
            12 => {
                if !self.active.is_empty() {
                    let source = rng.pick(&self.active);
                    store(b, base + 0x3000 + 4 * source, self.target(rng));
                    load(b, base + 0x3000 + 4 * source);
                }
            }
            13 if self.msi => {
                let hart = rng.below(2) << 18;
                store(b, base + 0x3000, hart | identity(rng) & 0x7FF);
                load(b, base + 0x3000);
            }
            13 => {
                let (at, value) = rng.pick(&[(0, 3), (4, 3), (8, 0xFF)]);
                store(b, base + 0x4000 + at, rng.next() & value);
            }
            14 => {
                let at = rng.pick(&[0, 4, 8, 0xC, 0x18, 0x1C, 0x20, 0x38]);
                load(b, base + 0x4000 + at);
            }
            _ => read_csr(b, csr::MIP),
        }
    }

    /// Makes a source active or inactive. A change from one active mode to another goes through
    /// inactive.
    fn configure(&mut self, rng: &Rng, b: &mut Block) {
        let Some(source) = self.source(rng) else {
            return;
        };
        let at = self.base + 4 * source;
        store(b, at, 0);
        self.active.retain(|active| *active != source);
        if rng.chance(4, 5) {
            // QEMU uses a wire as the rectified input of a detached source, and keeps a level
            // pending whose wire has fallen: both are visible only where a wire changes.
            let modes: &[u64] = match source {
                UART_SOURCE => &[4, 5, 6],
                _ => &[1, 4, 5, 6, 7],
            };
            store(b, at, rng.pick(modes));
            store(b, self.base + 0x3000 + 4 * source, self.target(rng));
            self.active.push(source);
        }
        load(b, at);
    }
}

/// Both domains of the APLIC with IMSICs.
pub fn aplic_msi(rng: &Rng, p: &mut Program) {
    begin(p, Board::Imsic);
    aplic(rng, p, true);
}

/// Both domains of an APLIC that interrupts the harts itself.
pub fn aplic_direct(rng: &Rng, p: &mut Program) {
    begin(p, Board::Aplic);
    aplic(rng, p, false);
}

fn aplic(rng: &Rng, p: &mut Program, msi: bool) {
    let (below, above): (Vec<u64>, Vec<u64>) = (1..=SOURCES).partition(|_| rng.chance(1, 2));
    // Few sources, so that accesses interfere.
    let few = |from: &[u64]| -> Vec<u64> {
        let some = (0..5).filter(|_| !from.is_empty()).map(|_| rng.pick(from));
        some.chain(from.contains(&UART_SOURCE).then_some(UART_SOURCE))
            .collect()
    };
    let domain = |base, own: &[u64]| Domain {
        base,
        machine: base == APLIC_M,
        msi,
        own: few(own),
        active: Vec::new(),
    };
    let mut domains = [domain(APLIC_M, &above), domain(APLIC_S, &below)];
    let parts = PARTS;
    for part in 0..parts {
        let mut s = step(rng, p, Mode::M, part);
        s.note = "APLIC".into();
        let mut b = p.block();
        if part == 0 {
            prologue(rng, &mut b, msi, &below);
        }
        if part == 2 {
            // The UART's transmitter is empty: its wire goes high and stays.
            b.li(ADDR, UART_IER);
            b.li(VALUE, 2);
            b.w(asm::s(0x23, 0, ADDR, VALUE, 0));
        }
        while b.len() < 500 {
            let which = rng.below(2) as usize;
            domains[which].access(rng, &mut b);
        }
        for domain in &domains {
            for word in 0..4 {
                load(&mut b, domain.base + 0x1C00 + 4 * word);
                load(&mut b, domain.base + 0x1D00 + 4 * word);
                load(&mut b, domain.base + 0x1E00 + 4 * word);
            }
        }
        read_csr(&mut b, csr::MIP);
        if msi {
            dump_files(&mut b);
        }
        if part + 1 == parts && msi {
            lock(rng, &mut b);
        }
        p.add(s, b, false);
    }
}

/// Setup by firmware: addresses of messages, delegation of sources, enabled files.
fn prologue(rng: &Rng, b: &mut Block, msi: bool, below: &[u64]) {
    for source in below {
        store(b, APLIC_M + 4 * source, 0x400);
    }
    if !msi {
        return;
    }
    store(b, APLIC_M + 0x1BC0, IMSIC_M >> 12);
    store(b, APLIC_M + 0x1BC4, 1 << 12);
    store(b, APLIC_M + 0x1BC8, IMSIC_S >> 12);
    store(b, APLIC_M + 0x1BCC, 3 << 20);
    for [select, window, _] in &WINDOWS[..2] {
        b.csrs_indirect(*select, *window, 0x70, 1);
        for word in 0..4 {
            b.csrs_indirect(*select, *window, 0xC0 + 2 * word, rng.next());
        }
    }
}

/// The addresses of messages: all their bits, then locked.
fn lock(rng: &Rng, b: &mut Block) {
    for base in [APLIC_M, APLIC_S] {
        store(b, base, 0);
    }
    for _ in 0..12 {
        let (at, mask) = rng.pick(&[
            (0x1BC0, 0xFFFF_FFFF),
            (0x1BC4, 0x7FFF_FFFF),
            (0x1BC8, 0xFFFF_FFFF),
            (0x1BCC, 0x0070_0FFF),
            (0x1BC4, 0xFFFF_FFFF),
        ]);
        store(b, APLIC_M + at, rng.next() & mask);
        for register in [0x1BC0, 0x1BC4, 0x1BC8, 0x1BCC] {
            load(b, APLIC_M + register);
            load(b, APLIC_S + register);
        }
    }
}

impl Block {
    /// Sets bits of an indirectly accessed register.
    fn csrs_indirect(&mut self, select: u16, window: u16, register: u64, value: u64) {
        self.li(VALUE, register);
        self.w(asm::csrw(select, VALUE));
        self.li(VALUE, value);
        self.w(asm::csrs(window, VALUE));
    }
}

/// CSRs of Smaia and Ssaia from every mode, under `mstateen0`, `hstateen0` and `hstatus.VGEIN`.
pub fn csrs(rng: &Rng, p: &mut Program) {
    begin(p, Board::Imsic);
    let all = [
        csr::MISELECT,
        csr::MIREG,
        csr::MTOPEI,
        csr::MTOPI,
        csr::MVIEN,
        csr::MVIP,
        csr::SISELECT,
        csr::SIREG,
        csr::STOPEI,
        csr::STOPI,
        csr::VSISELECT,
        csr::VSIREG,
        csr::VSTOPEI,
        csr::VSTOPI,
        csr::HVIEN,
        csr::HVICTL,
        csr::HVIPRIO1,
        csr::HVIPRIO2,
        csr::HGEIE,
        csr::HGEIP,
    ];
    let parts = PARTS;
    for part in 0..parts {
        let mode = rng.pick(&Mode::ALL);
        let mut s = step(rng, p, mode, part);
        s.note = "AIA CSRs".into();
        let aia = stateen0::CSRIND | stateen0::AIA | stateen0::IMSIC;
        let mut closed = false;
        for csr in [csr::MSTATEEN0, csr::HSTATEEN0] {
            // QEMU does not always check first what M-mode denies.
            let full = rng.chance(1, 2) || csr == csr::MSTATEEN0 && mode.v();
            let open = if full { aia } else { rng.subset(aia) };
            closed |= open & stateen0::IMSIC == 0;
            let value = s.get(csr) & !aia | open;
            s.set(csr, value);
        }
        let value = s.get(csr::HSTATUS) | rng.below(9) << 12;
        s.set(csr::HSTATUS, value);
        let mut b = p.block();
        b.li(VALUE, 0x70);
        b.w(asm::csrw(csr::SISELECT, VALUE));
        while b.len() < 120 {
            let csr = rng.pick(&all);
            // QEMU does not close files behind `xireg` with IMSIC's state enable.
            if closed && matches!(csr, csr::SIREG | csr::VSIREG) {
                continue;
            }
            let value = match csr {
                // The priority numbers of QEMU are not zero after reset.
                csr::MISELECT | csr::SISELECT | csr::VSISELECT => {
                    rng.pick(&[0x31, 0x3F, 0x70, 0x72, 0x80, 0x86, 0x81, 0xC0, 0xC6, 0xFF])
                }

                csr::HVICTL => rng.subset(hvictl::IID | hvictl::IPRIOM | hvictl::IPRIO),
                csr::HGEIE => rng.subset(0xFE),
                _ => rng.subset(u64::MAX),
            };
            // Interrupts that are virtual would be taken.
            let writes = !matches!(csr, csr::MVIEN | csr::MVIP | csr::HVIEN);
            let whole = [
                csr::HVIPRIO1,
                csr::HVIPRIO2,
                csr::MISELECT,
                csr::SISELECT,
                csr::VSISELECT,
            ];
            if whole.contains(&csr) {
                b.li(VALUE, value);
                b.w(asm::csrw(csr, VALUE));
            } else if writes {
                access_csr(rng, &mut b, csr, value);
            } else {
                read_csr(&mut b, csr);
            }
        }
        p.add(s, b, false);
    }
}
