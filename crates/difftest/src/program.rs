//! A generated program: steps, the memory they start from, and the ELF file they become.

use std::collections::BTreeSet;

use trapless_isa::Mode;
use trapless_isa::csr::{self, hstatus, status};
use trapless_isa::extension::{Ext, Models};

use crate::asm::{self, Asm};
use crate::elf::{self, Segment};
use crate::harness::{self, Harness};
use crate::layout::{self, Policy, ctx, record};
use crate::rng::Rng;

/// An optional part of the architecture that a program needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Feature {
    /// An extension.
    Has(Ext),
    /// `mstatus.MPV` can be set by a CSR write (QEMU 10.0 lost that).
    WritableMpv,
    /// A timer whose compare value lies in the past is pending at the next instruction.
    PreciseTimer,
    /// Privileged behaviour close enough to the ratified specifications (QEMU 7.2 is not).
    Privileged,
    /// Follows the specification in the corners where QEMU is known not to
    /// (docs/isa-differences.md).
    Exact,
    /// A misaligned SC raises an exception even if it would fail without a reservation.
    ScAlignment,
    /// Misaligned atomics raise exceptions: RAM has no misaligned atomicity granule.
    AlignedAtomics,
    /// IMSICs, an APLIC, Smaia and Ssaia.
    Aia,
    /// An IOMMU with the debug interface.
    Iommu,
}

impl Feature {
    /// Features other than an extension of the table in `trapless-isa`.
    pub const OTHERS: [Feature; 8] = [
        Feature::WritableMpv,
        Feature::PreciseTimer,
        Feature::Privileged,
        Feature::Exact,
        Feature::ScAlignment,
        Feature::AlignedAtomics,
        Feature::Aia,
        Feature::Iommu,
    ];

    /// All of them.
    pub fn all() -> BTreeSet<Feature> {
        Self::extensions(|_| true).chain(Self::OTHERS).collect()
    }

    /// The extensions of a model, for whose table entries `has` is true.
    pub fn extensions(has: impl Fn(Models) -> bool) -> impl Iterator<Item = Feature> {
        let present = Ext::ALL.iter().filter(move |ext| has(ext.models()));
        present.map(|ext| Feature::Has(*ext))
    }
}

/// Interrupt controllers around the hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Board {
    /// Those of QEMU's `virt` by default: ACLINT and PLIC.
    Plain,
    /// IMSIC with seven guest files, and an APLIC.
    Imsic,
    /// An APLIC that interrupts the hart itself.
    Aplic,
    /// `Plain`, and an IOMMU.
    Iommu,
}

/// One entry into a mode, some code, and the exit.
#[derive(Clone, Debug)]
pub struct Step {
    /// Description, for reports.
    pub note: String,
    /// Effect of a trap.
    pub policy: Policy,
    /// Mode in which it starts.
    pub mode: Mode,
    /// Entered by `sret` from M-mode instead of `mret`.
    pub by_sret: bool,
    /// Values of `layout::SETUP`.
    pub csrs: Vec<u64>,
    /// x0..x31 at the start; x0 is ignored.
    pub x: [u64; 32],
    /// f0..f31 at the start.
    pub f: [u64; 32],
    /// `fcsr` at the start.
    pub fcsr: u64,
    /// 64-bit memory words written (by physical address) before the start.
    pub pokes: Vec<(u64, u64)>,
    /// Instructions of the step: offset in the code window and length (2 or 4).
    pub instructions: Vec<(u32, u8)>,
}

impl Step {
    /// Sets a CSR of the start state.
    ///
    /// # Panics
    /// If the CSR is not in `layout::SETUP`: a bug in the caller.
    pub fn set(&mut self, csr: u16, value: u64) {
        self.csrs[index(csr)] = value;
    }

    /// Value of a CSR of the start state.
    pub fn get(&self, csr: u16) -> u64 {
        self.csrs[index(csr)]
    }

    /// Makes the step start in `mode`, leaving the other fields alone.
    pub fn enter(&mut self, mode: Mode, by_sret: bool) {
        self.mode = mode;
        self.by_sret = by_sret && mode != Mode::M;
        let mut m = self.get(csr::MSTATUS) & !(status::MPP | status::MPV | status::SPP);
        let mut h = self.get(csr::HSTATUS) & !hstatus::SPV;
        if self.by_sret {
            m |= (mode.privilege() as u64) << 8;
            h |= if mode.v() { hstatus::SPV } else { 0 };
        } else {
            m |= (mode.privilege() as u64) << 11;
            m |= if mode.v() { status::MPV } else { 0 };
        }
        self.set(csr::MSTATUS, m);
        self.set(csr::HSTATUS, h);
    }

    /// Sets the interrupt enable of the starting mode (and the SIE of a mode below).
    pub fn interrupts(&mut self, on: bool) {
        let bit = if self.by_sret {
            status::SPIE
        } else {
            status::MPIE
        };
        let m = self.get(csr::MSTATUS) & !bit;
        self.set(csr::MSTATUS, if on { m | bit } else { m });
    }
}

fn index(csr: u16) -> usize {
    layout::SETUP
        .iter()
        .position(|c| *c == csr)
        .expect("CSR is in SETUP")
}

/// A complete program.
#[derive(Clone)]
pub struct Program {
    /// Seed it was generated from.
    pub seed: u64,
    /// Name of its family.
    pub family: &'static str,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Contents of the code window.
    pub code: Vec<u8>,
    /// Contents of the data area.
    pub data: Vec<u8>,
    /// Page tables, a multiple of 4096 bytes.
    pub tables: Vec<u8>,
    /// Features that a model must have to run it.
    pub needs: BTreeSet<Feature>,
    /// Interrupt controllers around the hart.
    pub board: Board,
}

/// Addresses of the parts of the signature.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Start of the log.
    pub log: u64,
    /// End of the signature (starts at `layout::DATA`).
    pub end: u64,
}

impl Program {
    /// An empty program of a family.
    pub fn new(seed: u64, family: &'static str) -> Self {
        Self {
            seed,
            family,
            steps: Vec::new(),
            code: Vec::new(),
            data: vec![0; layout::DATA_SIZE as usize],
            tables: Vec::new(),
            needs: BTreeSet::new(),
            board: Board::Plain,
        }
    }

    /// Decides whether the program may enter the corners where QEMU errs.
    pub fn exact(&mut self, rng: &Rng) -> bool {
        self.may_need(rng, Feature::Exact)
    }

    /// Decides whether the program may enter the corners where models without `feature` err.
    pub fn may_need(&mut self, rng: &Rng, feature: Feature) -> bool {
        let needed = rng.chance(1, 4);
        if needed {
            self.needs.insert(feature);
        }
        needed
    }

    /// A step with the harness's defaults: all traps to M, everything allowed, no translation,
    /// FPU on, random registers.
    pub fn step(&self, rng: &Rng, mode: Mode) -> Step {
        let h = harness();
        let mut s = Step {
            note: String::new(),
            policy: Policy::Skip,
            mode,
            by_sret: false,
            csrs: vec![0; layout::SETUP.len()],
            x: std::array::from_fn(|_| rng.operand()),
            f: std::array::from_fn(|_| rng.next()),
            fcsr: 0,
            pokes: Vec::new(),
            instructions: Vec::new(),
        };
        s.set(csr::PMPADDR0, (1 << 54) - 1);
        s.set(csr::PMPCFG0, 0x1f); // NAPOT, RWX: everything
        for c in [csr::MCOUNTEREN, csr::HCOUNTEREN, csr::SCOUNTEREN] {
            s.set(c, 7);
        }
        for c in [csr::STIMECMP, csr::VSTIMECMP] {
            s.set(c, u64::MAX);
        }
        let full = csr::stateen0::C
            | csr::stateen0::ENVCFG
            | csr::stateen0::SE0
            | csr::stateen0::CSRIND
            | csr::stateen0::AIA
            | csr::stateen0::IMSIC;
        s.set(csr::MSTATEEN0, full & !csr::stateen0::C);
        s.set(csr::HSTATEEN0, full & !csr::stateen0::C);
        s.set(csr::STVEC, h.s_trap);
        s.set(csr::VSTVEC, h.vs_trap);
        s.set(csr::SSCRATCH, layout::CTX);
        s.set(csr::VSSCRATCH, layout::CTX);
        s.set(csr::HSTATUS, hstatus::VSXL_64);
        s.set(csr::VSSTATUS, status::FS | status::UXL_64);
        s.set(csr::MSTATUS, status::FS | status::UXL_64 | status::SXL_64);
        // Not every model permits M-mode to write MPV; sret works instead.
        let by_sret = if mode.v() {
            !self.needs.contains(&Feature::WritableMpv)
        } else {
            rng.chance(1, 3)
        };
        s.enter(mode, by_sret);
        s
    }

    /// Address at which the next block of code starts.
    pub fn next_code(&self) -> u64 {
        (layout::CODE + self.code.len() as u64).next_multiple_of(16)
    }

    /// Appends a block's code, returns its address; it must have been assembled for
    /// [`Self::next_code`].
    pub fn place(&mut self, block: &Block) -> u64 {
        let at = self.next_code();
        assert_eq!(at, block.base);
        self.code.resize((at - layout::CODE) as usize, 0);
        self.code.extend_from_slice(&block.bytes);
        assert!(
            self.code.len() as u64 <= layout::CODE_SIZE,
            "code fits its window"
        );
        at
    }

    /// Adds a step that runs `block`; `alias` if its code is fetched through the U-mode alias.
    pub fn add(&mut self, mut step: Step, mut block: Block, alias: bool) {
        block.end();
        let at = self.place(&block);
        let entry = if alias { at - layout::USER_DELTA } else { at };
        step.set(csr::MEPC, entry);
        if step.by_sret {
            step.set(csr::SEPC, entry);
        }
        step.instructions = block
            .instructions
            .iter()
            .map(|(off, len)| ((at - layout::CODE) as u32 + off, *len))
            .collect();
        self.steps.push(step);
    }

    /// A block that starts where the next one will be placed.
    pub fn block(&self) -> Block {
        Block {
            base: self.next_code(),
            bytes: Vec::new(),
            instructions: Vec::new(),
        }
    }

    /// Layout of the signature.
    pub fn signature(&self) -> Signature {
        let log = layout::TABLES + (self.tables.len() as u64).next_multiple_of(4096);
        let n = self.steps.len() as u64;
        let traps = (n * layout::MAX_TRAPS * 8 * layout::TRAP_WORDS as u64).min(0x2_0000);
        let end = log + n * 8 * layout::END_WORDS as u64 + traps + 64;
        Signature {
            log,
            end: end.next_multiple_of(64),
        }
    }

    /// The executable.
    pub fn elf(&self) -> Vec<u8> {
        let sig = self.signature();
        let n = self.steps.len() as u64;
        let steps_end = layout::STEPS + n * record::SIZE as u64;
        assert!(steps_end <= layout::DATA && sig.end <= layout::RAM + layout::RAM_SIZE);

        let mut context = vec![0u8; 4096];
        let mut put = |off: i32, v: u64| {
            context[off as usize..off as usize + 8].copy_from_slice(&v.to_le_bytes());
        };
        put(ctx::LOG, sig.log);
        put(
            ctx::LOG_END,
            sig.end - n * 8 * layout::END_WORDS as u64 - 64,
        );
        put(ctx::STEP, layout::STEPS);
        put(ctx::STEPS_END, steps_end);

        let mut records = Vec::with_capacity((steps_end - layout::STEPS) as usize);
        for s in &self.steps {
            let start = records.len();
            let mut word = |v: u64| records.extend_from_slice(&v.to_le_bytes());
            word(s.policy as u64);
            word(s.fcsr);
            assert!(s.pokes.len() <= record::MAX_POKES);
            word(s.pokes.len() as u64);
            word(u64::from(s.by_sret));
            for n in 0..record::MAX_POKES {
                let (addr, value) = s.pokes.get(n).copied().unwrap_or((layout::DATA, 0));
                word(addr);
                word(value);
            }
            s.x.iter().chain(&s.f).chain(&s.csrs).for_each(|v| word(*v));
            assert_eq!(records.len() - start, record::SIZE as usize);
        }

        let low = [0u8; 64];
        let segments = [
            Segment {
                addr: layout::RAM,
                data: &harness().code,
                memsz: 0,
            },
            Segment {
                addr: layout::TOHOST,
                data: &low,
                memsz: 64,
            },
            Segment {
                addr: layout::CTX,
                data: &context,
                memsz: 4096,
            },
            Segment {
                addr: layout::CODE,
                data: &self.code,
                memsz: 0,
            },
            Segment {
                addr: layout::STEPS,
                data: &records,
                memsz: 0,
            },
            Segment {
                addr: layout::DATA,
                data: &self.data,
                memsz: 0,
            },
            Segment {
                addr: layout::TABLES,
                data: &self.tables,
                memsz: sig.end - layout::TABLES,
            },
        ];
        elf::write(
            layout::RAM,
            &segments,
            &[
                ("tohost", layout::TOHOST),
                ("fromhost", layout::TOHOST + 8),
                ("begin_signature", layout::DATA),
                ("end_signature", sig.end),
            ],
        )
    }
}

/// The harness, assembled once.
pub fn harness() -> &'static Harness {
    static HARNESS: std::sync::OnceLock<Harness> = std::sync::OnceLock::new();
    HARNESS.get_or_init(harness::build)
}

/// Code of one step under construction.
pub struct Block {
    base: u64,
    bytes: Vec<u8>,
    instructions: Vec<(u32, u8)>,
}

impl Block {
    /// Address of the next instruction (identity mapping).
    pub fn pc(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Appends a 32-bit instruction.
    pub fn w(&mut self, word: u32) {
        self.instructions.push((self.bytes.len() as u32, 4));
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Appends a 16-bit instruction.
    pub fn h(&mut self, half: u16) {
        self.instructions.push((self.bytes.len() as u32, 2));
        self.bytes.extend_from_slice(&half.to_le_bytes());
    }

    /// Loads a constant.
    pub fn li(&mut self, rd: asm::Reg, value: u64) {
        let mut a = Asm::new(0);
        a.li(rd, value);
        for w in a.finish().chunks_exact(4) {
            self.w(u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
        }
    }

    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// True if nothing has been appended.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// The 32-bit instructions so far.
    #[cfg(test)]
    pub fn words(&self) -> Vec<u32> {
        let whole = self.instructions.iter().filter(|(_, len)| *len == 4);
        let word = |at: usize| self.bytes[at..at + 4].try_into().expect("4 bytes");
        whole
            .map(|(at, _)| u32::from_le_bytes(word(*at as usize)))
            .collect()
    }

    /// Appends the ecall that ends the step; not listed, so that shrinking keeps it.
    fn end(&mut self) {
        for word in [
            asm::addi(asm::reg::A7, 0, layout::END_MAGIC as i32),
            asm::ECALL,
        ] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
}
