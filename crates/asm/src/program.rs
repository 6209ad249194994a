//! Code with labels.

use crate::{
    ECALL, FENCE_I, MRET, NOP, Reg, SRET, WFI, addi, auipc, b, csr_op, csrc, csrr, csrs, csrw,
    hfence_gvma, hfence_vvma, i, jal, ld, lui, r, s, sd, sfence_vma, sw,
};

/// A position in the code that may be referred to before it is known.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

enum Fixup {
    Branch { at: usize, word: u32, to: Label },
    Jump { at: usize, rd: Reg, to: Label },
    Address { at: usize, rd: Reg, to: Label },
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

    /// The same, to be continued.
    pub fn word(&mut self, word: u32) -> &mut Self {
        self.w(word);
        self
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

    /// A label placed here.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Address of a label that is placed already.
    ///
    /// # Panics
    /// If it is not.
    pub fn address(&self, label: Label) -> u64 {
        self.labels[label.0].expect("label placed")
    }

    /// Branch to a label: `f3` selects beq/bne/blt/bge/bltu/bgeu = 0/1/4/5/6/7.
    pub fn branch(&mut self, f3: u32, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.fixups.push(Fixup::Branch {
            at: self.bytes.len(),
            word: b(f3, rs1, rs2, 0),
            to,
        });
        self.word(0)
    }

    /// `j label`.
    pub fn j(&mut self, to: Label) -> &mut Self {
        self.fixups.push(Fixup::Jump {
            at: self.bytes.len(),
            rd: 0,
            to,
        });
        self.word(0)
    }

    /// Loads the address of a label relative to the program counter, in two instructions.
    pub fn la(&mut self, rd: Reg, to: Label) -> &mut Self {
        self.fixups.push(Fixup::Address {
            at: self.bytes.len(),
            rd,
            to,
        });
        self.word(0).word(0)
    }

    /// Appends `nop` until the address is a multiple of `to`, a multiple of 4.
    pub fn align(&mut self, to: u64) {
        while self.pc() % to != 0 {
            self.w(NOP);
        }
    }

    /// Loads a constant, in as few instructions as is easy.
    pub fn li(&mut self, rd: Reg, value: u64) -> &mut Self {
        let v = value as i64;
        if (-2048..2048).contains(&v) {
            self.w(addi(rd, 0, v as i32));
        } else if v == i64::from(v as i32) {
            let hi = ((v + 0x800) >> 12) as u32 & 0xf_ffff;
            self.w(lui(rd, hi));
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
        self
    }

    /// The code, with all labels resolved.
    ///
    /// # Panics
    /// If a label was never placed: a bug in the caller.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for fixup in &self.fixups {
            let (Fixup::Branch { at, to, .. }
            | Fixup::Jump { at, to, .. }
            | Fixup::Address { at, to, .. }) = *fixup;
            let off = self.address(to).wrapping_sub(self.base + at as u64) as i64 as i32;
            let mut put = |at: usize, word: u32| {
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            };
            match *fixup {
                Fixup::Branch { word, .. } => put(at, word | b(0, 0, 0, off) & !0x7f),
                Fixup::Jump { rd, .. } => put(at, jal(rd, off)),
                Fixup::Address { rd, .. } => {
                    // `addi` adds a signed number.
                    let upper = (off + 0x800) >> 12;
                    put(at, auipc(rd, upper as u32));
                    put(at + 4, addi(rd, rd, off - (upper << 12)));
                }
            }
        }
        bytes
    }
}

/// Instructions by name, to be chained. Names and order of operands are those of the assembler.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($operand:ident: $type:ty),*) = $word:expr;)*) => {
        impl Asm {
            $(
                $(#[$doc])*
                pub fn $name(&mut self, $($operand: $type),*) -> &mut Self {
                    self.word($word)
                }
            )*
        }
    };
}

instructions! {
    /// `addi rd, rs1, imm`.
    addi(rd: Reg, rs1: Reg, imm: i32) = addi(rd, rs1, imm);
    /// `slli rd, rs1, shift`.
    slli(rd: Reg, rs1: Reg, shift: u32) = i(0x13, 1, rd, rs1, shift as i32);
    /// `srli rd, rs1, shift`.
    srli(rd: Reg, rs1: Reg, shift: u32) = i(0x13, 5, rd, rs1, shift as i32);
    /// `andi rd, rs1, imm`.
    andi(rd: Reg, rs1: Reg, imm: i32) = i(0x13, 7, rd, rs1, imm);
    /// `add rd, rs1, rs2`.
    add(rd: Reg, rs1: Reg, rs2: Reg) = r(0x33, 0, 0, rd, rs1, rs2);
    /// `sltiu rd, rs1, imm`.
    sltiu(rd: Reg, rs1: Reg, imm: i32) = i(0x13, 3, rd, rs1, imm);
    /// `sll rd, rs1, rs2`.
    sll(rd: Reg, rs1: Reg, rs2: Reg) = r(0x33, 1, 0, rd, rs1, rs2);
    /// `and rd, rs1, rs2`.
    and(rd: Reg, rs1: Reg, rs2: Reg) = r(0x33, 7, 0, rd, rs1, rs2);
    /// `or rd, rs1, rs2`.
    or(rd: Reg, rs1: Reg, rs2: Reg) = r(0x33, 6, 0, rd, rs1, rs2);
    /// `nop`.
    nop() = NOP;
    /// `lhu rd, imm(rs1)`.
    lhu(rd: Reg, rs1: Reg, imm: i32) = i(0x03, 5, rd, rs1, imm);
    /// `fld rd, imm(rs1)`.
    fld(rd: Reg, rs1: Reg, imm: i32) = i(0x07, 3, rd, rs1, imm);
    /// `fsd rs2, imm(rs1)`.
    fsd(rs2: Reg, rs1: Reg, imm: i32) = s(0x27, 3, rs1, rs2, imm);
    /// `lbu rd, imm(rs1)`.
    lbu(rd: Reg, rs1: Reg, imm: i32) = i(0x03, 4, rd, rs1, imm);
    /// `lw rd, imm(rs1)`.
    lw(rd: Reg, rs1: Reg, imm: i32) = i(0x03, 2, rd, rs1, imm);
    /// `ld rd, imm(rs1)`.
    ld(rd: Reg, rs1: Reg, imm: i32) = ld(rd, rs1, imm);
    /// `sb rs2, imm(rs1)`.
    sb(rs2: Reg, rs1: Reg, imm: i32) = s(0x23, 0, rs1, rs2, imm);
    /// `sw rs2, imm(rs1)`.
    sw(rs2: Reg, rs1: Reg, imm: i32) = sw(rs2, rs1, imm);
    /// `sd rs2, imm(rs1)`.
    sd(rs2: Reg, rs1: Reg, imm: i32) = sd(rs2, rs1, imm);
    /// `amoadd.d rd, rs2, (rs1)`.
    amoadd(rd: Reg, rs2: Reg, rs1: Reg) = r(0x2f, 3, 0, rd, rs1, rs2);
    /// `csrw csr, rs1`.
    csrw(csr: u16, rs1: Reg) = csrw(csr, rs1);
    /// `csrs csr, rs1`.
    csrs(csr: u16, rs1: Reg) = csrs(csr, rs1);
    /// `csrc csr, rs1`.
    csrc(csr: u16, rs1: Reg) = csrc(csr, rs1);
    /// `csrrw rd, csr, rs1`.
    csrrw(rd: Reg, csr: u16, rs1: Reg) = csr_op(1, rd, csr, rs1);
    /// `csrr rd, csr`.
    csrr(rd: Reg, csr: u16) = csrr(rd, csr);
    /// `ecall`.
    ecall() = ECALL;
    /// `wfi`.
    wfi() = WFI;
    /// `mret`.
    mret() = MRET;
    /// `sret`.
    sret() = SRET;
    /// `fence.i`.
    fence_i() = FENCE_I;
    /// `sfence.vma rs1, rs2`.
    sfence_vma(rs1: Reg, rs2: Reg) = sfence_vma(rs1, rs2);
    /// `hfence.vvma rs1, rs2`.
    hfence_vvma(rs1: Reg, rs2: Reg) = hfence_vvma(rs1, rs2);
    /// `hfence.gvma rs1, rs2`.
    hfence_gvma(rs1: Reg, rs2: Reg) = hfence_gvma(rs1, rs2);
}

impl Asm {
    /// `beq rs1, rs2, to`.
    pub fn beq(&mut self, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.branch(0, rs1, rs2, to)
    }

    /// `bne rs1, rs2, to`.
    pub fn bne(&mut self, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.branch(1, rs1, rs2, to)
    }

    /// `blt rs1, rs2, to`.
    pub fn blt(&mut self, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.branch(4, rs1, rs2, to)
    }

    /// `bge rs1, rs2, to`.
    pub fn bge(&mut self, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.branch(5, rs1, rs2, to)
    }

    /// `bgeu rs1, rs2, to`.
    pub fn bgeu(&mut self, rs1: Reg, rs2: Reg, to: Label) -> &mut Self {
        self.branch(7, rs1, rs2, to)
    }
}
