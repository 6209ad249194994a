//! A small RV64 assembler: instruction formats, the instructions that generated programs and tests
//! need, and code with labels.
//!
//! Instructions are encoded directly, so that no cross toolchain is needed and a program is made in
//! microseconds. Encodings are those of the unprivileged and privileged specifications.
//!
//! ```
//! use trapless_asm::{Asm, reg::*};
//!
//! let mut a = Asm::new(0x8000_0000);
//! a.li(A0, 3);
//! let again = a.here();
//! a.addi(A0, A0, -1).bne(A0, ZERO, again).wfi();
//! assert_eq!(a.finish().len(), 16);
//! ```

pub mod elf;
mod program;

pub use program::{Asm, Label};

/// An integer or floating-point register number, 0..=31.
pub type Reg = u32;

/// ABI names of registers.
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
    pub const A1: Reg = 11;
    pub const A7: Reg = 17;
    pub const S2: Reg = 18;
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

/// `lui`: `imm` is the 20-bit upper immediate.
pub const fn lui(rd: Reg, imm: u32) -> u32 {
    u(0x37, rd, imm)
}

/// `auipc`: `imm` is the 20-bit upper immediate.
pub const fn auipc(rd: Reg, imm: u32) -> u32 {
    u(0x17, rd, imm)
}

/// `beq` by a signed even offset within 4 KiB.
pub const fn beq(rs1: Reg, rs2: Reg, off: i32) -> u32 {
    b(0, rs1, rs2, off)
}

/// `bne`, likewise.
pub const fn bne(rs1: Reg, rs2: Reg, off: i32) -> u32 {
    b(1, rs1, rs2, off)
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

/// `sw rs2, imm(rs1)`.
pub const fn sw(rs2: Reg, rs1: Reg, imm: i32) -> u32 {
    s(0x23, 2, rs1, rs2, imm)
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
