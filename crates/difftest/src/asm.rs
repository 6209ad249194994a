//! A tiny assembler: instruction formats, the instructions the harness needs, labels.
//!
//! Instructions are encoded directly, so that a fresh machine needs no cross toolchain and a
//! program is generated in microseconds.

use trapless_isa::csr;

/// An integer or floating-point register number, 0..=31.
pub type Reg = u32;

/// ABI names of the registers that the harness and the families use.
#[allow(missing_docs)]
pub mod reg {
    use super::Reg;
    pub const ZERO: Reg = 0;
    pub const RA: Reg = 1;
    pub const SP: Reg = 2;
    pub const T0: Reg = 5;
    pub const T1: Reg = 6;
    pub const T2: Reg = 7;
    pub const S0: Reg = 8;
    pub const S1: Reg = 9;
    pub const A0: Reg = 10;
    pub const A7: Reg = 17;
    pub const T3: Reg = 28;
    pub const T4: Reg = 29;
    pub const T5: Reg = 30;
    pub const T6: Reg = 31;
}

/// R-type: register-register.
pub const fn r(opcode: u32, f3: u32, f7: u32, rd: Reg, rs1: Reg, rs2: Reg) -> u32 {
    f7 << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode
}

/// I-type: 12-bit signed immediate.
pub const fn i(opcode: u32, f3: u32, rd: Reg, rs1: Reg, imm: i32) -> u32 {
    ((imm as u32) & 0xfff) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode
}

/// S-type: store with 12-bit signed offset.
pub const fn s(opcode: u32, f3: u32, rs1: Reg, rs2: Reg, imm: i32) -> u32 {
    let imm = imm as u32;
    (imm >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | (imm & 0x1f) << 7 | opcode
}

/// B-type: conditional branch by a signed even offset within 4 KiB.
pub const fn b(f3: u32, rs1: Reg, rs2: Reg, off: i32) -> u32 {
    let o = off as u32;
    (o >> 12 & 1) << 31
        | (o >> 5 & 0x3f) << 25
        | rs2 << 20
        | rs1 << 15
        | f3 << 12
        | (o >> 1 & 0xf) << 8
        | (o >> 11 & 1) << 7
        | 0x63
}

/// U-type: `imm` is the 20-bit upper immediate.
pub const fn u(opcode: u32, rd: Reg, imm: u32) -> u32 {
    imm << 12 | rd << 7 | opcode
}

/// `jal` by a signed even offset within 1 MiB.
pub const fn jal(rd: Reg, off: i32) -> u32 {
    let o = off as u32;
    (o >> 20 & 1) << 31
        | (o >> 1 & 0x3ff) << 21
        | (o >> 11 & 1) << 20
        | (o >> 12 & 0xff) << 12
        | rd << 7
        | 0x6f
}

/// `addi`.
pub const fn addi(rd: Reg, rs1: Reg, imm: i32) -> u32 {
    i(0x13, 0, rd, rs1, imm)
}

/// `jalr`.
pub const fn jalr(rd: Reg, rs1: Reg, imm: i32) -> u32 {
    i(0x67, 0, rd, rs1, imm)
}

/// `ld`.
pub const fn ld(rd: Reg, rs1: Reg, imm: i32) -> u32 {
    i(0x03, 3, rd, rs1, imm)
}

/// `sd rs2, imm(rs1)`.
pub const fn sd(rs2: Reg, rs1: Reg, imm: i32) -> u32 {
    s(0x23, 3, rs1, rs2, imm)
}

/// A CSR instruction; `f3` is 1, 2, 3 (`csrrw/s/c`) or 5, 6, 7 (immediate forms, `rs1` = uimm).
pub const fn csr_op(f3: u32, rd: Reg, csr: u16, rs1: Reg) -> u32 {
    (csr as u32) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | 0x73
}

/// `csrw csr, rs1`.
pub const fn csrw(csr: u16, rs1: Reg) -> u32 {
    csr_op(1, 0, csr, rs1)
}

/// `csrs csr, rs1`.
pub const fn csrs(csr: u16, rs1: Reg) -> u32 {
    csr_op(2, 0, csr, rs1)
}

/// `csrc csr, rs1`.
pub const fn csrc(csr: u16, rs1: Reg) -> u32 {
    csr_op(3, 0, csr, rs1)
}

/// `csrr rd, csr`.
pub const fn csrr(rd: Reg, csr: u16) -> u32 {
    csr_op(2, rd, csr, 0)
}

/// `nop`.
pub const NOP: u32 = addi(0, 0, 0);
/// `ecall`.
pub const ECALL: u32 = 0x0000_0073;
/// `ebreak`.
pub const EBREAK: u32 = 0x0010_0073;
/// `mret`.
pub const MRET: u32 = 0x3020_0073;
/// `sret`.
pub const SRET: u32 = 0x1020_0073;
/// `wfi`.
pub const WFI: u32 = 0x1050_0073;
/// `fence.i`.
pub const FENCE_I: u32 = 0x0000_100f;
/// `c.jr ra`.
pub const C_RET: u16 = 0x8082;

/// `sfence.vma rs1, rs2`.
pub const fn sfence_vma(rs1: Reg, rs2: Reg) -> u32 {
    r(0x73, 0, 0x09, 0, rs1, rs2)
}

/// `hfence.vvma rs1, rs2`.
pub const fn hfence_vvma(rs1: Reg, rs2: Reg) -> u32 {
    r(0x73, 0, 0x11, 0, rs1, rs2)
}

/// `hfence.gvma rs1, rs2`.
pub const fn hfence_gvma(rs1: Reg, rs2: Reg) -> u32 {
    r(0x73, 0, 0x31, 0, rs1, rs2)
}

/// A position in the code that may be referred to before it is known.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

enum Fixup {
    Branch { at: usize, word: u32, to: Label },
    Jump { at: usize, rd: Reg, to: Label },
}

/// Code under construction at a fixed address.
pub struct Asm {
    base: u64,
    bytes: Vec<u8>,
    labels: Vec<Option<u64>>,
    fixups: Vec<Fixup>,
}

impl Asm {
    /// Starts at address `base`.
    pub fn new(base: u64) -> Self {
        Self {
            base,
            bytes: Vec::new(),
            labels: Vec::new(),
            fixups: Vec::new(),
        }
    }

    /// Address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Appends a 32-bit instruction.
    pub fn w(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Appends a 16-bit instruction.
    pub fn h(&mut self, half: u16) {
        self.bytes.extend_from_slice(&half.to_le_bytes());
    }

    /// A label to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places `label` here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.pc());
    }

    /// Branch to a label: `f3` selects beq/bne/blt/bge/bltu/bgeu = 0/1/4/5/6/7.
    pub fn branch(&mut self, f3: u32, rs1: Reg, rs2: Reg, to: Label) {
        self.fixups.push(Fixup::Branch {
            at: self.bytes.len(),
            word: b(f3, rs1, rs2, 0),
            to,
        });
        self.w(0);
    }

    /// `j label`.
    pub fn j(&mut self, to: Label) {
        self.fixups.push(Fixup::Jump {
            at: self.bytes.len(),
            rd: 0,
            to,
        });
        self.w(0);
    }

    /// Loads a constant, in as few instructions as is easy.
    pub fn li(&mut self, rd: Reg, value: u64) {
        let v = value as i64;
        if (-2048..2048).contains(&v) {
            self.w(addi(rd, 0, v as i32));
        } else if v == i64::from(v as i32) {
            let hi = ((v + 0x800) >> 12) as u32 & 0xf_ffff;
            self.w(u(0x37, rd, hi));
            let lo = (v << 52 >> 52) as i32;
            self.w(i(0x1b, 0, rd, rd, lo)); // addiw
        } else {
            let lo = v << 52 >> 52;
            let hi = v.wrapping_sub(lo) >> 12;
            let shift = hi.trailing_zeros();
            self.li(rd, (hi >> shift) as u64);
            self.w(i(0x13, 1, rd, rd, (12 + shift) as i32)); // slli
            if lo != 0 {
                self.w(addi(rd, rd, lo as i32));
            }
        }
    }

    /// `csrw csr, value` through `t0`.
    pub fn csr_imm(&mut self, csr: u16, value: u64) {
        self.li(reg::T0, value);
        self.w(csrw(csr, reg::T0));
    }

    /// Pads with `nop` up to an address.
    pub fn pad_to(&mut self, addr: u64) {
        while self.pc() < addr {
            self.w(NOP);
        }
    }

    /// The code, with all labels resolved.
    ///
    /// # Panics
    /// If a label was never placed: a bug in the caller.
    pub fn finish(mut self) -> Vec<u8> {
        for f in std::mem::take(&mut self.fixups) {
            let (at, to) = match &f {
                Fixup::Branch { at, to, .. } | Fixup::Jump { at, to, .. } => (*at, *to),
            };
            let target = self.labels[to.0].expect("label placed");
            let off = target.wrapping_sub(self.base + at as u64) as i64 as i32;
            let word = match f {
                Fixup::Branch { word, .. } => word | b(0, 0, 0, off) & !0x7f,
                Fixup::Jump { rd, .. } => jal(rd, off),
            };
            self.bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        self.bytes
    }
}

/// Name of a CSR for listings.
pub fn csr_name(addr: u16) -> String {
    csr::name(addr)
}
